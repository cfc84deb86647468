"""What the runs cannot show."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "what is so": "情况",
    "what follows": "由此而来的局限",
    "Written by rule from the stored files; what nobody recorded is not in this list.": (
        "按规则由已存储的文件写出；没有记录的事情不在此列。"
    ),
    "one starting model": "只有一个初始模型",
    "another size or family may order the arms otherwise": "换一种规模或系列，实验臂的次序可能不同",
    "one training task": "只有一个训练任务",
    "results may differ on other tasks and rewards": "在其他任务和奖励上结果可能不同",
    "one evaluation suite, {suite}": "只有一个评测集 {suite}",
    "a higher score is measured there, not as a general ability": "更高的得分是在该评测集上测得的，不代表一般能力",
    "an arm has {runs}": "有一个实验臂只有 {runs}",
    "{n} finished run": "{n} 次完成的运行",
    "{n} finished runs": "{n} 次完成的运行",
    "nothing is said of that algorithm, only of the checkpoint": "对该算法不作任何判断，只针对其检查点",
    "{n} seeds an arm at least": "每个实验臂至少 {n} 个种子",
    "the spread between runs is itself estimated from so many; the intervals allow for that": (
        "运行之间的波动本身也只由这么多次运行估计；区间已考虑这一点"
    ),
    "the last checkpoint is judged": "评判的是最后一个检查点",
    "an arm that peaks earlier is judged after its peak": "较早达到峰值的实验臂是在峰值之后被评判的",
    "no search for hyperparameters was part of the experiment": "实验中不包含超参数搜索",
    "an arm may be far from its best values; where they came from is not recorded": (
        "某个实验臂可能远未达到其最优取值；这些取值从何而来没有记录"
    ),
    "the test problems were evaluated on the way as well": "训练途中也在测试题目上做了评测",
    "whoever looked at them and stopped or changed something has used them for selection": (
        "谁看了这些结果并据此停止或改动，谁就已把它们用于选择"
    ),
    "no margin was declared before the runs": "运行之前未声明界限",
    "equivalence cannot be claimed": "不能声称等效",
    "a verdict is inconclusive": "存在尚无定论的结论",
    "the arms are neither shown to differ nor to be equivalent": "这些实验臂既未显示差异，也未显示等效",
    "{n} pairs of arms": "{n} 对实验臂",
    "p values are adjusted over them (Holm); intervals are not, and show one pair each": (
        "p 值已在各对之间校正（Holm）；置信区间未校正，各自只针对一对"
    ),
    "only {problems}": "只有 {problems}",
    "one of them is {points} points; several samples of each problem, or more problems, make it steadier": (
        "其中一道题就相当于 {points} 个百分点；每题多采样几次，或增加题目，可使其更稳定"
    ),
    "{arms} above {share}": "{arms} 高于 {share}",
    "ceiling: harder problems would separate the arms better": "天花板效应：更难的题目能更好地区分各实验臂",
    "{arms} below {share}": "{arms} 低于 {share}",
    "floor: easier problems would separate the arms better": "地板效应：更容易的题目能更好地区分各实验臂",
    "trained under a limit of {short} tokens, judged under {long}": (
        "训练时的长度上限为 {short} 个 token，评判时为 {long}"
    ),
    "training rewards brevity beside ability, in every arm alike": "训练除能力之外也奖励简短，对每个实验臂都一样",
    "up to {share} of the responses were cut at the limit ({models})": (
        "最多有 {share} 的回答达到长度上限被截断（{models}）"
    ),
    "part of a difference may be brevity rather than ability: see the accuracy among finished": (
        "差异中有一部分可能来自简短而非能力：见未截断回答的正确率"
    ),
    "planned runs that did not finish: {runs}": "计划中未完成的运行：{runs}",
    "if runs of one arm fail more easily, its mean is that of the survivors": (
        "如果某个实验臂的运行更容易失败，其均值就只是幸存者的均值"
    ),
    "{problems} not counted": "{problems}未计入",
    "scores are of the others": "得分只针对其余题目",
    "{runs} resumed after a stop": "{runs}在中断后恢复",
    "{n} run": "{n} 次运行",
    "{n} runs": "{n} 次运行",
    "on the same machine and code, so bit for bit what an unbroken run gives": (
        "在相同的机器和代码上，因此与未中断的运行逐位一致"
    ),
    "with other code, threads or hardware, so not bit-exact": "代码、线程数或硬件不同，因此不能逐位一致",
    "not controlled: the difference may come from this": "非受控：差异可能由此而来",
    "runs were not timed alone on one machine": "各次运行不是独占同一台机器计时的",
    "nothing is said of their relative cost": "对相对成本不作任何判断",
    "one machine": "只有一台机器",
    "cost ratios hold for it, this model and these lengths; elsewhere measure again": (
        "成本比值只适用于这台机器、这个模型和这些长度；换到别处需重新测量"
    ),
}
