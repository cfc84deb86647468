"""Training reward, gold score and KL."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "KL to the starting policy, nats a response": "与初始策略的 KL（nat/回答）",
    "mean reward": "平均奖励",
    "gold accuracy, %": "金标准确率（%）",
    "training reward": "训练奖励",
    "KL, nats a response": "KL（nat/回答）",
    "correlation of reward and gold": "奖励与金标的相关系数",
    "Final evaluations on {suite}": "{suite} 上的最终评测",
    "{n} response": "{n} 个回答",
    "{n} responses": "{n} 个回答",
    "Reward against KL on {suite}": "{suite} 上的奖励与 KL",
    "{arm} is dominated by {others}": "{arm} 被 {others} 支配",
    "Not dominated, by their means: {free}; dominated is what another model here exceeds in reward at no more KL, "
    "or equals at less. {beaten}This describes where these runs ended, a point for each model and no curve; no "
    "difference was tested.": (
        "按均值未被支配：{free}；被支配是指此处另有模型在 KL 不更大时奖励更高，或奖励同样高而 KL 更小。{beaten}这只描"
        "述这些运行的终点，每个模型一个点，不是曲线；没有检验任何差异。"
    ),
    "no arm": "没有实验臂",
    "{sentences}. ": "{sentences}。",
    "Gold is the task's own score.": "金标是任务本身的得分。",
    "Training reward is what training optimised, on the same answers; where that was the task's score itself, it "
    "is shown again. Correlations are Pearson's, over all answers of an arm, of the reward where it is not the "
    "score.": (
        "训练奖励是训练所优化的量，在同一批回答上计算；若它就是任务本身的得分，则重复列出。相关系数为 Pearson，在一个"
        "实验臂的全部回答上计算，仅限奖励不是该得分之处。"
    ),
    "KL is the log-prob of an answer under the policy less that under the starting policy, summed over its tokens; "
    "its mean over answers that the policy sampled estimates the KL without bias, and may fall below 0.": (
        "KL 是一个回答在当前策略下的对数概率减去在初始策略下的对数概率，对其 token 求和；在该策略采样的回答上的均值是"
        " KL 的无偏估计，可能低于 0。"
    ),
    "Intervals: two-way t (seeds x problems); of the base and of single runs, t over problems.": (
        "区间：双因素 t（种子 × 题目）；基座模型和单次运行为题目上的 t。"
    ),
    "{arm} (reward {reward}, gold {gold})": "{arm}（奖励 {reward}，金标 {gold}）",
    "{n} of {all}": "{n} / {all}",
    "gold score": "金标分数",
    "runs in which gold fell while the reward rose": "奖励上升而金标下降的运行",
    "In training, from the first quarter of the steps to the last, means over seeds": (
        "训练期间，从最初四分之一的步到最后四分之一的步，种子间均值"
    ),
    "Gold fell while the training reward rose, a sign of over-optimisation: {arms}. This describes these runs; no "
    "difference was tested.": (
        "训练奖励上升而金标下降，这是过度优化的迹象：{arms}。这只描述这些运行；没有检验任何差异。"
    ),
    "Components of the reward, before weights, likewise": "奖励的组成部分，加权之前，同样处理",
    "Of {arms} these are the starting policy's answers, whatever was learnt from them.": (
        "{arms} 的这些数值属于初始策略的回答，与从中学到了什么无关。"
    ),
}
