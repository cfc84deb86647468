"""The page around its sections: titles, contents, footer."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "Leafing through the problems needs JavaScript, which is off; the examples below do not.": (
        "逐题翻阅需要 JavaScript，而它已被关闭；下面的示例不需要。"
    ),
    "left side": "左侧",
    "right side": "右侧",
    "show": "显示",
    "find text": "查找文本",
    "previous": "上一题",
    "next": "下一题",
    "Paribus report": "Paribus 报告",
    "Skip to the content": "跳到正文",
    "Not controlled: the arms differ in ways that the experiment did not declare.": (
        "非受控：各实验臂之间存在实验未声明的差异。"
    ),
    "Contents": "目录",
    "Made by Paribus from stored runs only. Text written by models is shown as it is: nothing in it is markup, and "
    "invisible characters are spelt out as ⟨U+….⟩.": (
        "由 Paribus 仅根据已存储的运行生成。模型写出的文本按原样显示：其中没有任何标记会生效，不可见字符以 ⟨U+….⟩ 写"
        "出。"
    ),
    "Every table lies beside this file as CSV, JSON and LaTeX, every figure as SVG and PNG with its numbers as CSV;"
    " report.json lists them.": (
        "每张表都以 CSV、JSON 和 LaTeX 格式存放在本文件旁，每幅图都以 SVG 和 PNG 格式存放，其数字另存为 CSV；清单见 "
        "report.json。"
    ),
    "Read in English": "阅读中文版",
    "{ok} ok, {bad} not ok, {unknown} not known": "{ok} 项通过，{bad} 项未通过，{unknown} 项未知",
    "{experiment} (not controlled)": "{experiment}（非受控）",
    "What differs between the arms": "实验臂之间有何不同",
    "Settings and protocol": "设置与评测规程",
    "Shared setting": "共享设置",
    "Accuracy": "准确率",
    "Interactions": "交互作用",
    "Several samples a problem": "每题多次采样",
    "Reward and KL": "奖励与 KL",
    "Cost": "成本",
    "Memory": "内存与显存",
    "Inference profile": "推理概况",
    "Learning curves": "学习曲线",
    "Signs of failure": "失败征兆",
    "Problem by problem": "逐题查看",
    "Examples": "示例",
    "Failures and exclusions": "失败与排除",
    "Planned and measured": "计划与实测",
    "Advice before the runs": "运行之前的建议",
    "Limits": "局限",
    "Reproduction": "复现",
    "Provenance": "溯源",
    "Fairness": "公平性",
    "Fairness: not controlled": "公平性：非受控",
}
