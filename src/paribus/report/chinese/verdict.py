"""The verdict: sentences on pairs of arms, gains over the base, headline numbers."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "{finding}: {evidence}.": "{finding}：{evidence}。",
    "{a} and {b} are identical here, the same score on every problem": "{a} 与 {b} 在此完全相同，每道题得分都一样",
    "{high} is better than {low}": "{high} 优于 {low}",
    "{high} is better than {low}, but within the margin of {margin} points": (
        "{high} 优于 {low}，但差异在 {margin} 个百分点的界限之内"
    ),
    "{a} and {b} are equivalent within {margin} points": "{a} 与 {b} 在 {margin} 个百分点的界限内等效",
    "Inconclusive: neither a difference nor equivalence of {a} and {b} is shown (no margin was declared, so "
    "equivalence cannot be)": "尚无定论：{a} 与 {b} 之间既未显示差异，也未显示等效（未声明界限，因此不可能显示等效）",
    "Inconclusive: neither a difference of {a} and {b} nor equivalence within {margin} points is shown": (
        "尚无定论：{a} 与 {b} 之间既未显示差异，也未显示在 {margin} 个百分点的界限内等效"
    ),
    "{a} minus {b} {points} points, 95 % interval {interval}, {tests}, over {units}": (
        "{a} 减 {b} 为 {points} 个百分点，95 % 置信区间 {interval}，{tests}，基于 {units}"
    ),
    "{p} (Holm over {n} pairs)": "{p}（在 {n} 对之间作 Holm 校正）",
    "{p} for a difference and {equivalent} for equivalence": "差异检验 {p}，等效检验 {equivalent}",
    "{p} for a difference and {equivalent} for equivalence (both Holm over {n} pairs)": (
        "差异检验 {p}，等效检验 {equivalent}（两者都在 {n} 对之间作 Holm 校正）"
    ),
    "checkpoint {name}": "检查点 {name}",
    "{a} + {b} runs and {problems}": "{a} + {b} 次运行和 {problems}",
    "One run a side: this speaks of these two checkpoints, not of the algorithms.": (
        "每侧只有一次运行：这只针对这两个检查点，不针对算法。"
    ),
    "Fewer than two runs on a side, or one problem: this speaks of these checkpoints, not of the algorithms.": (
        "有一侧不足两次运行，或只有一道题：这只针对这些检查点，不针对算法。"
    ),
    "For the algorithms no number of problems is enough: that takes two or more runs of each.": (
        "对算法而言，题目再多也不够：每个算法需要两次或更多运行。"
    ),
    "To show a difference of {points} points, if that is the true one": (
        "若要显示 {points} 个百分点的差异（假设真实差异就是如此）"
    ),
    "The observed difference is 0: no number of runs or problems would show it.": (
        "观察到的差异为 0：再多的运行或题目也显示不了它。"
    ),
    "{shown}: neither more problems nor more runs alone would do.": "{shown}：仅增加题目或仅增加运行都不够。",
    "{shown}: {needed}.": "{shown}：{needed}。",
    "To show equivalence within {margin} points, if there is no difference": (
        "若要显示在 {margin} 个百分点的界限内等效（假设真实差异为 0）"
    ),
    "{shown}: no number of runs on these problems would do.": "{shown}：在这些题目上，再多的运行也不够。",
    "about {problems} problems for these checkpoints": "对这些检查点约需 {problems} 道题",
    "about {problems} problems with these runs; more runs alone would not do": (
        "以这些运行约需 {problems} 道题；仅增加运行不够"
    ),
    "about {runs} runs of each on these problems": "在这些题目上每个实验臂约需 {runs} 次运行",
    "about {runs} runs of each on these problems, or about {problems} problems with these runs": (
        "在这些题目上每个实验臂约需 {runs} 次运行，或以这些运行约需 {problems} 道题"
    ),
    "{suite} {metric}, mean of seeds": "{suite} {metric}，种子间均值",
    "gain over base ({share}), points": "相对基座模型（{share}）的提升（百分点）",
    "No run has finished yet: there is nothing to compare.": "还没有任何运行完成：没有可比较的内容。",
    "No problem was counted for every model: there is nothing to compare.": (
        "没有任何题目对每个模型都计入：没有可比较的内容。"
    ),
    "All of this is about {metric} on {suite}, as declared.": "以上都是关于 {suite} 上的 {metric}，按事先声明。",
    "Interim: {ended} of {planned} planned runs are in it. Whoever reads a verdict on the way and stops at one "
    "that pleases is wrong more often than its 5 % say.": (
        "中期结果：{planned} 次计划运行中已有 {ended} 次。途中查看结论、遇到满意的就停下来，犯错的概率会高于其 5 % 所"
        "示。"
    ),
    "No finished run of {arms}.": "{arms} 没有完成的运行。",
    "above the base": "高于基座模型",
    "below the base": "低于基座模型",
    "not shown to differ from the base": "与基座模型相比未显示差异",
    "Of {pairs} pairs of arms, {better} show a better one, {equivalent} are equivalent, {identical} identical and "
    "{open} inconclusive: each stands in the table of differences.": (
        "共 {pairs} 对实验臂：{better} 对显示一方更优，{equivalent} 对等效，{identical} 对完全相同，{open} 对尚无定"
        "论；每一对都列在差异表中。"
    ),
    "The clearest: {sentence}": "最明确的一对：{sentence}",
    "Of {arms} arms, {above} are above the base, {below} below and {open} not shown to differ from it.": (
        "共 {arms} 个实验臂：{above} 个高于基座模型，{below} 个低于基座模型，{open} 个与基座模型相比未显示差异。"
    ),
    "{arm} is {shown} ({points} points, 95 % interval {interval})": (
        "{arm} {shown}（{points} 个百分点，95 % 置信区间 {interval}）"
    ),
    "{gains}.": "{gains}。",
    "{gains}; of {arms} only one run is finished, so this speaks of its checkpoint.": (
        "{gains}；{arms} 只完成了一次运行，因此只针对其检查点。"
    ),
    "{points} points over base": "较基座模型 {points} 个百分点",
    "{points} pts": "{points} 个百分点",
    "95 % interval {interval}": "95 % 置信区间 {interval}",
}
