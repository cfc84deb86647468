"""Factors, their levels and interactions."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "{points} points, {interval}": "{points} 个百分点，{interval}",
    "Interaction with {factor} shown: {moved} ({level}), over {units}.": (
        "显示出与 {factor} 的交互作用：{moved}（{level}），基于 {units}。"
    ),
    "Nothing can be said of an interaction with {factor} where it is 0 for every problem in every seed: {moved}.": (
        "与 {factor} 的交互作用在每个种子的每道题上都为 0 之处，无法作任何判断：{moved}。"
    ),
    "No interaction with {factor} shown: {moved} ({level}), over {units}. That does not mean that there is none: a "
    "true one of up to {reach} points is compatible with these runs.": (
        "未显示与 {factor} 的交互作用：{moved}（{level}），基于 {units}。这并不意味着没有交互作用：真实值最大为 "
        "{reach} 个百分点的交互作用与这些运行相容。"
    ),
    "Interaction with {factor}, one run a cell: {moved} ({level}). This speaks of these checkpoints, not of the "
    "algorithms.": "与 {factor} 的交互作用，每个单元一次运行：{moved}（{level}）。这只针对这些检查点，不针对算法。",
    "Each level is the mean over all levels of the other factors; interactions of three are not estimated.": (
        "每个水平都是其他因子所有水平上的均值；不估计三阶交互作用。"
    ),
    "There is one arm, so there is nothing for a factor to interact with.": (
        "只有一个实验臂，因此因子没有可与之交互的对象。"
    ),
    "Differences of differences, with intervals": "差值之差，含置信区间",
    "rings are seeds": "圆圈为各个种子",
    "as the file says": "与文件一致",
    "factor": "因子",
    "level": "水平",
    "changes": "改动",
    "What was varied across all arms": "在所有实验臂上变化的因素",
    "Accuracy on {suite} by {factor}, with 95 % intervals": "{suite} 上的准确率，按 {factor} 分列，含 95 % 置信区间",
    "{share} ({low} to {high})": "{share}（{low} 至 {high}）",
    "no common finished seed": "没有共同完成的种子",
    "difference of arms": "实验臂之差",
    "between levels": "水平之间",
    "method": "方法",
    "Differences of differences, problem by problem within each seed": "差值之差，在每个种子内逐题计算",
    "What each factor does within one arm": "各因子在单个实验臂内的作用",
    "from {low} to {high}, {a} minus {b} moves by {effect}": "从 {low} 到 {high}，{a} 减 {b} 的变化为 {effect}",
}
