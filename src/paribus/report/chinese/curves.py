"""Learning curves, drawings, and the signs of failure."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "training reward, mean of sampled responses": "训练奖励，采样回答的均值",
    "gold score: the task's own verdict on the same responses": "金标分数：任务本身对同一批回答的判定",
    "share of responses cut at the limit": "达到长度上限被截断的回答占比",
    "KL to the reference (k3 estimate), nats a token": "与参考策略的 KL（k3 估计，nat/token）",
    "entropy, nats a token": "熵（nat/token）",
    "gradient norm of the policy, before clipping": "策略的梯度范数，裁剪前",
    "share of tokens outside the trust region: clipped, masked, capped or gated": (
        "信赖域之外的 token 占比：被裁剪、屏蔽、封顶或门控"
    ),
    "rounds of further prompts, drawn in place of groups left out": "为替换被舍去的组而补采提示的轮数",
    "share of sampled groups whose rewards differ": "奖励不全相同的采样组占比",
    "loss on given answers": "在给定答案上的损失",
    "margin of the implicit reward, good answer less bad": "隐式奖励的间隔：好答案减坏答案",
    "share of pairs that the implicit reward ranks right": "隐式奖励排序正确的偏好对占比",
    "log-prob of the good answers, nats an answer": "好答案的对数概率（nat/答案）",
    "share of groups whose scores are all equal (zero variance)": "得分全部相同（零方差）的组占比",
    "share of tokens clipped from above": "被上侧裁剪的 token 占比",
    "explained variance of the critic": "价值网络的解释方差",
    "loss of the critic": "价值网络的损失",
    "accuracy on {suite}": "{suite} 上的准确率",
    "steps": "步数",
    "samples": "样本数",
    "sampled responses": "采样的回答数",
    "tokens": "token 数",
    "sampled tokens": "采样的 token 数",
    "time": "时间",
    "seconds of training": "训练秒数",
    "money": "费用",
    "US dollars of training, {price} a device-hour": "训练费用（美元），每设备小时 {price}",
    "arm": "实验臂",
    "seed": "种子",
    "percentage points": "百分点",
    "low": "下限",
    "high": "上限",
    "runs": "运行",
    "mean": "均值",
    "of": "类别",
    "seconds of training, mean over seeds": "训练秒数，种子间均值",
    "below {high}": "低于 {high}",
    "above {low}": "高于 {low}",
    "axolotl, GRPO guide": "axolotl 的 GRPO 指南",
    "axolotl, GRPO guide (frac_reward_zero_std)": "axolotl 的 GRPO 指南（frac_reward_zero_std）",
    "axolotl, GRPO guide (reward within 20 steps)": "axolotl 的 GRPO 指南（20 步内的奖励）",
    "axolotl, GRPO guide (clip region)": "axolotl 的 GRPO 指南（clip region）",
    "axolotl, GRPO guide (clipped_ratio)": "axolotl 的 GRPO 指南（clipped_ratio）",
    "definition: at 0 the critic is no better than a constant": "定义：为 0 时价值网络不比常数更好",
    "No steps were recorded.": "没有记录任何步。",
    "Thick: mean over seeds at the steps that all of them have; band: one standard deviation over seeds to either "
    "side (no confidence interval); thin: each seed. Over other axes than steps a mean stands where its step lies "
    "on average. Evaluations are left out of time and money.": (
        "粗线：所有种子共有的步上的种子间均值；色带：上下各一个种子间标准差（不是置信区间）；细线：各个种子。横轴不是"
        "步数时，均值画在该步的平均位置上。时间和费用不含评测。"
    ),
    "No axes of time and money: the runs' seconds cannot be compared fairly.": (
        "没有时间和费用的横轴：这些运行的秒数无法公平比较。"
    ),
    "Lengths, rewards and scores of responses are of the starting policy, not of the trained one, for {arms}: its "
    "answers are the training data.": (
        "{arms} 的回答长度、奖励和得分属于初始策略，而不是训练后的策略：其训练数据就是初始策略的回答。"
    ),
    "How group methods fail: groups whose scores are all equal teach nothing, length goes with credit, and "
    "likelier tokens are clipped from above before rarer ones can grow.": (
        "组方法如何失败：得分全部相同的组什么也教不了，长度与信用相关联，以及较可能的 token 在较罕见的 token 得以增长"
        "之前就被上侧裁剪。"
    ),
    "How a critic fails: it explains nothing of the returns (0), or misleads (below 0), or its loss rises.": (
        "价值网络如何失败：它对回报毫无解释力（0），或造成误导（低于 0），或其损失上升。"
    ),
    "healthy: {range}": "健康：{range}",
    "sign, last quarter of the steps": "征兆，最后四分之一的步",
    "healthy range": "健康范围",
    "Mean over the last quarter of the steps and over seeds. The ranges are other people's rules of thumb for "
    "reasoning models of billions of parameters; outside of one is a reason to look, no verdict.": (
        "最后四分之一的步上、种子间的均值。这些范围是他人针对数十亿参数推理模型的经验法则；超出范围只说明值得查看，并"
        "不是结论。"
    ),
    "{value} (outside)": "{value}（超出）",
    "responses stored in training": "训练中存储的回答数",
    "tokens of right ones, mean": "正确回答的 token 数，均值",
    "tokens of wrong ones, mean": "错误回答的 token 数，均值",
    "correlation of advantage and length": "优势与长度的相关系数",
    "From the groups of responses that runs store every few steps, not from all. Wrong answers longer than right "
    "ones, and negative credit that is averaged over a response's length, let a group method grow wrong answers "
    "(Dr. GRPO, arXiv:2503.20783). Advantage: mean over a response's trained tokens; correlation: Pearson's.": (
        "来自运行每隔若干步存储的回答组，而不是全部回答。错误回答比正确回答长，加上负信用在回答长度上取平均，会让组方"
        "法使错误回答越来越长（Dr. GRPO，arXiv:2503.20783）。优势：回答中参与训练的 token 上的均值；相关系数："
        "Pearson。"
    ),
    "Length and credit": "长度与信用",
}
