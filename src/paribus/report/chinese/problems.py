"""Problems and responses: the browser and the examples."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "Every response, in the terminal": "在终端中查看全部回答",
    "all arms are right, in answers of different length": "所有实验臂都正确，但回答长度不同",
    "any other problem": "其他题目",
    "{a} is right, {b} is wrong": "{a} 正确，{b} 错误",
    "some arms are right, others wrong": "部分实验臂正确，部分错误",
    "the base is right, no arm is": "基座模型正确，没有实验臂正确",
    "the base is wrong, {arm} is right": "基座模型错误，{arm} 正确",
    "Rule: problems of the final evaluation on {suite} are sorted by how the arms (seed {seed}, first sample) and "
    "the base were judged, each into the first kind of the table that it fits. The page takes one problem of each "
    "kind in turn until it holds {places} problems or {room} MB of text: those whose lengths differ most first, "
    "all others in the order of a hash of their ids. Nothing was picked by hand.": (
        "规则：{suite} 最终评测的题目按各实验臂（种子 {seed}，第一个样本）和基座模型的判分结果分类，每道题归入表中它"
        "所符合的第一类。页面依次从各类中取一道题，直到装入 {places} 道题或 {room} MB 文本：长度相差最大的类别中按相"
        "差从大到小取，其余按题目 id 的哈希顺序取。没有任何一道题是人工挑选的。"
    ),
    "all": "全部",
    "kind": "类型",
    "problems": "题目",
    "of them in this page": "其中本页所含",
    "Examples need an evaluation of the base and one seed that every arm finished.": (
        "示例需要基座模型的评测，以及一个所有实验臂都已完成的种子。"
    ),
    "Rule: of the final evaluation on {suite} (base, and every arm's seed {seed}; first sample of a problem), the "
    "first {shown} problems of each kind in the order of their ids. Nothing was picked by hand.": (
        "规则：取 {suite} 的最终评测（基座模型，以及每个实验臂的种子 {seed}；每题的第一个样本），每类按题目 id 的顺序"
        "取前 {shown} 道题。没有任何一道题是人工挑选的。"
    ),
    "(the question was not stored)": "（未存储题目内容）",
    "{n} token": "{n} 个 token",
    "{n} tokens": "{n} 个 token",
    "cut at the limit": "达到长度上限被截断",
    "The base is wrong, all arms are right: {found} of {all}.": (
        "基座模型错误，所有实验臂都正确：{found}，共 {all} 道。"
    ),
    "The arms disagree: {found} of {all}.": "各实验臂不一致：{found}，共 {all} 道。",
    "The base is right, all arms are wrong: {found} of {all}.": (
        "基座模型正确，所有实验臂都错误：{found}，共 {all} 道。"
    ),
    "All are wrong: {found} of {all}.": "全部错误：{found}，共 {all} 道。",
    "The problems themselves are in report.html, to be leafed through.": "题目本身在 report.html 中，可逐题翻阅。",
    "not known": "未知",
    "ok": "通过",
    "not ok": "未通过",
    "Problem {problem}": "题目 {problem}",
    "Gold answer: {gold}": "标准答案：{gold}",
    "read as {answer}": "读出的答案为 {answer}",
    "no answer read": "未读出答案",
    "right": "正确",
    "wrong": "错误",
    "not counted": "未计入",
    "left right, right wrong": "左侧正确，右侧错误",
    "left wrong, right right": "左侧错误，右侧正确",
    "both right": "两侧都正确",
    "both wrong": "两侧都错误",
    "not counted for one of them": "有一侧未计入",
    "left against right": "左侧与右侧对比",
    "chosen for": "入选类型",
    "# of # problems": "符合 # 道，共 # 道题",
    "no problem fits": "没有符合的题目",
    "gold answer": "标准答案",
    "read as": "读出的答案",
    "# tokens": "# 个 token",
    "(# more characters)": "（还有 # 个字符）",
    "no response is stored": "没有存储回答",
}
