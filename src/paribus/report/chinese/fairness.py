"""The fairness box."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "finished runs": "已完成的运行",
    "none yet": "尚无",
    "same code and packages": "相同的代码和软件包",
    "same machine, device and threads": "相同的机器、设备和线程数",
    "undeclared difference in {key}": "{key} 存在未声明的差异",
    "runs were scored by different graders": "各次运行由不同的判分器判分",
    "runs used different data for {use}": "各次运行的 {use} 使用了不同的数据",
    "every setting in which the arms differ was declared": "实验臂之间有差异的每项设置都已声明",
    "undeclared: {keys}": "未声明：{keys}",
    "the arms do not differ in any setting": "各实验臂的设置没有任何不同",
    "{keys} in {slots}": "{slots} 中的 {keys}",
    "{n} key": "{n} 个键",
    "{n} keys": "{n} 个键",
    "the same seeds in every arm": "每个实验臂使用相同的种子",
    "not finished: {runs}": "未完成：{runs}",
    "the same training problems": "相同的训练题目",
    "no run has stored it": "没有运行存储过它",
    "hashes differ: {hashes}": "哈希不同：{hashes}",
    "the same prompts at the same steps": "相同的步使用相同的提示",
    "seed {seed}, step {step}": "种子 {seed} 第 {step} 步",
    "they differ at {where}": "它们在以下位置不同：{where}",
    "no step was stored that two arms have in common": "没有存储过两个实验臂共有的步",
    "the order is a function of the seed; confirmed on {steps}": "顺序由种子决定；已在 {steps}上确认",
    "{n} stored step": "{n} 个已存储的步",
    "{n} stored steps": "{n} 个已存储的步",
    "{arm} {samples} samples and {tokens} tokens a run": "{arm} 每次运行 {samples} 个样本、{tokens} 个 token",
    "the same budget, counted in {axis}": "相同的预算，计量方式：{axis}",
    "drawn, mean of runs: {arms}": "实际采样量，各次运行的均值：{arms}",
    "seconds": "秒数",
    "the same evaluation problems and prompts, the base included": "相同的评测题目和提示，包括基座模型",
    "the prompts of {suite} differ": "{suite} 的提示不同",
    "the same grader and version, the base included": "相同的判分器和版本，包括基座模型",
    "{n} different ones": "共有 {n} 种不同的",
    "one, in all attempts of all runs": "所有运行的所有尝试中只有一种",
    "runs alone on the machine, arms taking turns": "运行独占机器，各实验臂轮流运行",
    "runs on cores of their own, arms taking turns": "各次运行使用自己的核心，各实验臂轮流运行",
    "never more than {n} runs at a time, and seeds came one after another": (
        "同时进行的运行从不超过 {n} 个，且按种子依次进行"
    ),
    "runs overlapped in time, so their seconds cannot be compared": "运行在时间上重叠，因此其秒数不可比较",
    "arms did not take turns seed by seed, so a drift of the machine may favour one": (
        "各实验臂没有按种子轮流运行，因此机器的漂移可能偏向其中之一"
    ),
    "no two runs overlapped in time, and seeds came one after another": "没有两次运行在时间上重叠，且按种子依次进行",
    "the same tuning effort": "相同的调参力度",
    "not tuned here: every arm ran with the file's values, wherever these came from": (
        "此处未调参：每个实验臂都使用文件中的值，无论这些值从何而来"
    ),
    "{arm} {trials}": "{arm} {trials}",
    "{n} trial": "{n} 次试验",
    "{n} trials": "{n} 次试验",
    "{trials}, each over seeds {seeds}, chosen by {by}": "{trials}，每次用种子 {seeds}，按 {by} 选择",
}
