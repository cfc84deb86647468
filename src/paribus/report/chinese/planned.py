"""What was planned against what was measured."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "Memory: the most at once above the idle process (its imports, no model), or of the device's allocator; "
    "planned at full lengths, so an upper bound where responses are shorter. Tokens: planned at most. Time and "
    "money: from a pilot of timed steps, with 95 % intervals, where there was one.": (
        "内存：高于空闲进程（已导入、未加载模型）的最大同时占用量，或设备分配器的最大占用量；按满长度计划，因此回答较"
        "短时是上界。token：计划的是最大值。时间和费用：来自计时步的试点（若有），附 95 % 置信区间。"
    ),
    "quantity": "量",
    "planned": "计划",
    "measured against planned": "实测相对计划",
    "peak of memory, {phase}": "内存峰值，{phase}",
    "tokens of a run": "每次运行的 token 数",
    "training of a run": "每次运行的训练",
    "money for a run": "每次运行的费用",
    "{arm}, planned": "{arm}，计划",
    "{arm}, measured": "{arm}，实测",
    "Peaks of memory by phase": "各阶段的内存峰值",
    "{arm}, at most": "{arm}，最大",
    "at its peak": "峰值时",
    "Memory by component, as planned": "各组成部分的内存，按计划",
    "component": "组成部分",
    "s.d. between training seeds": "训练种子之间的标准差",
    "s.d. between problems, of a difference": "题目之间的标准差（差值的）",
    "s.d. of one run on one problem": "一次运行在一道题上的标准差",
    "smallest difference found in 80 % of repeats": "80 % 的重复中能发现的最小差异",
    "in points": "以百分点计",
    "Planned for {seeds} seeds; the spread was taken from: {source}. The planned difference counts Holm's "
    "correction over the pairs, the measured one is that of one pair.": (
        "按 {seeds} 个种子计划；波动取自：{source}。计划的差异计入了各对之间的 Holm 校正，实测的差异只针对单独一对。"
    ),
    "What could be shown": "能够显示什么",
}
