"""Differences, failures, provenance and reproduction."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "Not controlled: {reasons}.": "非受控：{reasons}。",
    "Everything in which the arms differ": "实验臂之间的全部差异",
    "The arms do not differ in any setting.": "各实验臂的设置没有任何不同。",
    "Everything in which the levels of the factors differ": "因子各水平之间的全部差异",
    "declared": "已声明",
    "UNDECLARED": "未声明",
    "note": "备注",
    "The experiment stores no shared setting.": "实验没有存储共享设置。",
    "value, but for the differences listed above": "值，上列差异除外",
    "not begun": "未开始",
    "after step {step}": "在第 {step} 步之后",
    "before the first step": "在第一步之前",
    "Planned runs that are not in the results: {n}.": "计划中未进入结果的运行：{n}。",
    "where and why": "位置与原因",
    "Every planned run finished and is in the results: {n}.": "计划的每次运行都已完成并进入结果：{n}。",
    "{problems} could not be graded for at least one model: {ids}. Left out of comparisons and means over seeds, "
    "for all models alike.": "{problems}对至少一个模型无法判分：{ids}。在比较和种子间均值中舍去，对所有模型一视同仁。",
    "Every problem of {suite} was graded for every model: {n}.": "{suite} 的每道题对每个模型都已判分：{n}。",
    "done": "已完成",
    "failed": "失败",
    "interrupted": "中断",
    "No run is stored.": "没有存储任何运行。",
    "id": "ID",
    "state": "状态",
    "attempts": "尝试次数",
    "started (UTC)": "开始时间（UTC）",
    "machine": "机器",
    "threads": "线程数",
    "code": "代码",
    "git": "git",
    "{name}, policy {policy}, version {version}": "{name}，判分规则 {policy}，版本 {version}",
    "data: {use}": "数据：{use}",
    "platform": "平台",
    "packages": "软件包",
    "experiment written": "实验写入时间",
    "fact": "事项",
    "Resumed with other code, threads or hardware, so not bit-exact: {runs}.": (
        "以不同的代码、线程数或硬件恢复，因此不能逐位一致：{runs}。"
    ),
    "Not all runs were made by the same version of the code.": "并非所有运行都由同一版本的代码完成。",
    "Accuracy, examples and the inference profile are computed from eval/, curves from steps.jsonl, cost and "
    "memory from timing.jsonl, settings from experiment.json, all in the experiment's folder.": (
        "准确率、示例和推理概况由 eval/ 计算，曲线来自 steps.jsonl，成本和内存来自 timing.jsonl，设置来自 "
        "experiment.json，均在实验的文件夹中。"
    ),
    "{commit} (changed)": "{commit}（有改动）",
    "{name}, {split}, {problems}, hash {hash}": "{name}，{split}，{problems}，哈希 {hash}",
    "Commands": "命令",
    "The experiment has factors: run the file that it was run with; experiment.json holds all of it, resolved.": (
        "该实验含有因子：请运行当初所用的文件；experiment.json 中保存了解析后的全部内容。"
    ),
    "{file}, nothing left to a default": "{file}，所有取值都已写明，不依赖默认值",
    "configuration of {arm}, hash": "{arm} 的配置哈希",
    "code, hash": "代码哈希",
    "git commit": "git 提交",
    "Python and platform": "Python 与平台",
    "hardware": "硬件",
    "identity": "标识",
}
