"""Settings of training and the evaluation protocol."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "revision of the model": "模型的 revision",
    "precision": "精度",
    "training task": "训练任务",
    "reward": "奖励",
    "prompts a step": "每步的提示数",
    "samples a prompt": "每个提示的样本数",
    "longest prompt, tokens": "提示的最大长度（token）",
    "longest response in training, tokens": "训练时回答的最大长度（token）",
    "temperature in training": "训练时的温度",
    "learning rate": "学习率",
    "schedule of the learning rate": "学习率调度",
    "steps of warm-up": "预热步数",
    "weight decay": "权重衰减",
    "gradient clipped at norm": "梯度裁剪的范数",
    "passes over a step's rows": "每步数据的遍数",
    "rows without a gradient left out of the policy's updates": "策略更新略去没有梯度的行",
    "old log-probs without a pass of their own: may differ by, nats a token": (
        "旧策略对数概率不单独前向计算：允许的差异，nat/token"
    ),
    "prompts an update": "每次更新的提示数",
    "differs between arms": "各实验臂不同",
    "{n} {axis}": "{n} {axis}",
    "budget of a run": "每次运行的预算",
    "training problems": "训练题目",
    "arms": "实验臂",
    "seeds": "种子",
    "primary metric, declared before the runs": "主要指标，运行之前声明",
    "margin of equivalence, declared before the runs": "等效界限，运行之前声明",
    "Training": "训练",
    "setting": "设置",
    "value": "值",
    "none": "无",
    "{margin} points": "{margin} 个百分点",
    "Search before the runs: {trials}, each over seeds {seeds} that no run uses": (
        "运行之前的超参数搜索：{trials}，每次用种子 {seeds}，这些种子不用于任何运行"
    ),
    "mean of {metric}": "{metric} 均值",
    "values tried": "尝试的取值",
    "chosen": "选中",
    "{name}, {split}: {problems}, hash {hash}": "{name}，{split}：{problems}，哈希 {hash}",
    "The base and every arm are asked the same prompts and judged by the same code. All problems count; a problem "
    "that could not be graded for one model is left out for all. Only the last checkpoint is judged.": (
        "基座模型和每个实验臂用相同的提示提问，由相同的代码判分。所有题目都计入；若某题对某个模型无法判分，则对所有模"
        "型都舍去。只评判最后一个检查点。"
    ),
    "Evaluation protocol": "评测规程",
    "status": "状态",
    "primary": "主要",
    "secondary": "次要",
    "prompts, hash": "提示的哈希",
    "template of the prompt": "提示模板",
    "worked examples in the prompt": "提示中的示例题",
    "samples a problem": "每题的样本数",
    "decoding": "解码",
    "longest response, tokens": "回答的最大长度（token）",
    "second, shorter limit, tokens": "第二个较短的上限（token）",
    "evaluated": "评测时机",
    "every {n} steps": "每 {n} 步",
    "at the end": "结束时",
    "grader": "判分器",
    "reference graders": "参考判分器",
    "determinism": "确定性",
    "none (zero-shot)": "无（zero-shot）",
    "greedy": "贪心",
    "sampled, temperature {t}, top-p {p}": "采样，温度 {t}，top-p {p}",
    "{name} ({policy}), version {version}": "{name}（{policy}），版本 {version}",
}
