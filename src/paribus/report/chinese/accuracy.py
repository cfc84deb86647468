"""Accuracy: scores, differences and their checks, length limits and graders, pass@k, the inference profile."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "Secondary: {metric} on {suite}. Nothing was declared of it before the runs, and its p values are not adjusted "
    "for the number of suites: read it as a hint.": (
        "次要：{suite} 上的 {metric}。运行之前未对它作任何声明，其 p 值也未按评测集的数目校正：仅作提示。"
    ),
    "Gains over the base, and differences between arms, with intervals": (
        "相对基座模型的提升，以及实验臂之间的差异，含置信区间"
    ),
    "rings are runs": "圆圈为各次运行",
    "{arm} − base": "{arm} − 基座模型",
    "base": "基座模型",
    "no finished run": "没有完成的运行",
    "seed {seed}": "种子 {seed}",
    "model": "模型",
    "run": "运行",
    "95 % interval": "95 % 置信区间",
    "correct / total": "正确数 / 总数",
    "s.d. over seeds": "种子间标准差",
    "gain over base": "相对基座模型的提升",
    "won / lost": "胜 / 负",
    "Gains are in percentage points. Intervals of means: two-way t (seeds x problems), so they speak of new seeds "
    "too; of single runs: Wilson for the score and Newcombe's paired interval for the gain where a problem is "
    "right or wrong, t over problems otherwise, so they speak of that checkpoint. Won and lost: problems whose "
    "score, mean over samples and seeds, is above or below the base's.": (
        "提升以百分点计。均值的区间：双因素 t（种子 × 题目），因此也适用于新的种子；单次运行的区间：题目只有对错时，"
        "得分用 Wilson 区间、提升用 Newcombe 配对区间，否则用题目上的 t 区间，因此只适用于该检查点。胜与负：得分（样"
        "本和种子上的均值）高于或低于基座模型的题目数。"
    ),
    "mean of {n} seeds": "{n} 个种子的均值",
    "better": "更优",
    "better, within the margin": "更优，但在界限之内",
    "equivalent": "等效",
    "inconclusive": "尚无定论",
    "identical": "完全相同",
    "{arm} {kind}": "{arm} {kind}",
    "difference": "差值",
    "verdict": "结论",
    "points": "百分点",
    "p of a difference": "差异的 p 值",
    "p of equivalence": "等效的 p 值",
    "over": "基于",
    "p values are adjusted over the pairs (Holm); intervals are of one pair alone. Won and lost: problems on which "
    "the first arm's mean over its runs is above or below the second's. Method: {methods}.": (
        "p 值已在各对之间校正（Holm）；置信区间只针对单独一对。胜与负：前一个实验臂各次运行的均值高于或低于后者的题目"
        "数。方法：{methods}。"
    ),
    "Between arms, problem by problem": "实验臂之间，逐题比较",
    "{p} of {splits} splits": "{p}（{splits} 种划分）",
    "crossed bootstrap, points": "交叉 bootstrap（百分点）",
    "permutation of runs, p": "运行级置换检验 p 值",
    "chance that a new run of the first scores higher": "前者的一次新运行得分更高的概率",
    "The verdict does not rest on these. The crossed bootstrap draws seeds and problems again and is on the "
    "careful side; the permutation test takes runs alone as units and cannot go below 0.1 with 3 + 3 of them; the "
    "chance is Mann and Whitney's over pairs of runs, with a score interval. 95 % intervals of one pair alone.": (
        "结论不以这些检验为依据。交叉 bootstrap 对种子和题目都重新抽样，偏于保守；置换检验只以运行为单位，在 3 + 3 次"
        "运行时不可能低于 0.1；概率是 Mann–Whitney 对各对运行的估计，附得分区间。95 % 置信区间只针对单独一对。"
    ),
    "Checks of the differences by other methods": "用其他方法核对差异",
    "{seeds} and {problems}": "{seeds}和 {problems}",
    "{n} seed": "{n} 个种子",
    "{n} seeds": "{n} 个种子",
    "{n} problem": "{n} 道题",
    "{n} problems": "{n} 道题",
    "standard error of a difference of two arms, {design}": "两个实验臂之差的标准误（{design}）",
    "smallest difference found in 80 % of repeats, {design}": "80 % 的重复中能发现的最小差异（{design}）",
    "Standard deviations, pooled over the arms. More seeds shrink the first part and the last, more problems the "
    "second and the last; several samples of a problem shrink only the last. The smallest difference is that of "
    "one pair at 5 %, estimated from these very runs.": (
        "标准差，各实验臂合并估计。增加种子使第一项和最后一项缩小，增加题目使第二项和最后一项缩小；每题多次采样只使最"
        "后一项缩小。最小差异针对单独一对、5 % 水平，由这些运行本身估计。"
    ),
    "source of noise": "噪声来源",
    "Where the noise comes from": "噪声从何而来",
    "training seed: a run's true score around its arm's": "训练种子：一次运行的真实得分围绕其实验臂得分的波动",
    "problem: an arm's lead on one problem around its lead on all": (
        "题目：一个实验臂在单题上的领先围绕其总体领先的波动"
    ),
    "the rest: one run on one problem": "其余：一次运行在一道题上的波动",
    "limit, tokens": "长度上限（token）",
    "accuracy": "准确率",
    "The same responses: under the shorter limit each is cut there and graded again. A model trained under a short "
    "limit learns to be brief; what it gains over the base at that limit is partly that.": (
        "同一批回答：在较短的上限下，每个回答在该处截断并重新判分。在较短上限下训练的模型会学着简短；它在该上限下相对"
        "基座模型的提升有一部分由此而来。"
    ),
    "Two length limits": "两种长度上限",
    "reference grader": "参考判分器",
    "its accuracy": "其准确率",
    "responses judged by both": "两者都判过的回答",
    "right by the declared grader only": "仅声明的判分器判为正确",
    "right by the reference only": "仅参考判分器判为正确",
    "share that disagree": "不一致的占比",
    "Reference graders ran beside the declared one and changed no score. Where they disagree more for one model "
    "than for another, part of a difference in accuracy may be the grader's.": (
        "参考判分器与声明的判分器并行运行，没有改变任何得分。若它们对某个模型的不一致多于另一个，准确率差异中有一部分"
        "可能来自判分器。"
    ),
    "Do other graders agree?": "其他判分器是否一致？",
    "{level} % interval": "{level} % 置信区间",
    "k, samples": "k（样本数）",
    "{metric}, %": "{metric}（%）",
    "{metric} on {suite}, with 95 % intervals": "{suite} 上的 {metric}，含 95 % 置信区间",
    "pass@k: the chance that at least one of k samples is right, unbiased (1 − C(n−c, k)/C(n, k)). maj@k: the "
    "chance that the most frequent answer of k samples is right, over all choices of k; ties are shared equally, a "
    "missing answer does not vote, all right answers count as one. Means over problems and seeds; intervals: "
    "two-way t (seeds x problems), of the base t over problems. Where the base overtakes an arm as k grows, "
    "training has sharpened what the base could do rather than added to it.": (
        "pass@k：k 个样本中至少一个正确的概率，无偏估计（1 − C(n−c, k)/C(n, k)）。maj@k：k 个样本中出现最多的答案正确"
        "的概率，对所有取 k 个样本的方式取平均；平票时均分，缺失的答案不投票，所有正确答案算作同一个。均为题目和种子"
        "上的均值；区间：双因素 t（种子 × 题目），基座模型为题目上的 t。若 k 增大时基座模型反超某个实验臂，则训练只是"
        "强化了基座模型原本就会的，而没有增添新的能力。"
    ),
    "metric": "指标",
    "output tokens, mean": "输出 token 数，均值",
    "of right answers": "正确回答的",
    "of wrong ones": "错误回答的",
    "tokens per right answer": "每个正确回答的 token 数",
    "tokens/s": "token/s",
    "no answer found": "未找到答案",
    "format kept": "格式合规",
    "right among finished": "未截断回答的正确率",
    "From the final evaluations, all seeds of an arm together; time is the mean of one evaluation, grading "
    "included. Right among finished leaves out responses cut at the length limit.": (
        "来自最终评测，每个实验臂的所有种子合在一起；时间是一次评测的均值，含判分。未截断回答的正确率不计达到长度上限"
        "被截断的回答。"
    ),
    "{model}, seed {seed}: {text}": "{model}，种子 {seed}：{text}",
    "{beginning} … ({n} more characters)": "{beginning} …（还有 {n} 个字符）",
    "{low} to {high}": "{low} 至 {high}",
}
