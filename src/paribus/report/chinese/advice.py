"""The advice before the runs: signals of the pilot, rules, and how the predictions came out."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "success rate": "成功率",
    "informative groups of {size} samples": "{size} 个样本的组中有信息量的组",
    "informative groups of {size} samples, by the Beta fit": "{size} 个样本的组中有信息量的组（由 Beta 拟合得出）",
    "success rates over prompts, Beta: a": "各提示成功率的 Beta 分布：a",
    "success rates over prompts, Beta: b": "各提示成功率的 Beta 分布：b",
    "variance of the reward within a prompt": "同一提示内奖励的方差",
    "reliability of the reward (second look: {grader})": "奖励的信度（复核：{grader}）",
    "rewarded 0 where the second look says 1": "复核为 1 而奖励为 0",
    "rewarded 1 where the second look says 0": "复核为 0 而奖励为 1",
    "rewards other than 0 for each token": "每个 token 的非零奖励数",
    "response length, tokens": "回答长度（token）",
    "responses cut at the limit": "达到长度上限被截断的回答",
    "correlation of length and reward within a prompt": "同一提示内长度与奖励的相关系数",
    "relative value error at the prompt, m0": "提示处价值的相对误差 m0",
    "explained variance at {place} of the response": "回答 {place} 处的解释方差",
    "mean |log-prob of the learner - of the sampler| of a token": (
        "每个 token 的 |训练端对数概率 − 采样端对数概率| 均值"
    ),
    "seconds of a step of {arm}": "{arm} 每步的秒数",
    "peak memory of {arm}, GB": "{arm} 的内存峰值（GB）",
    "share of prompts with an informative group, at the largest group of the pilot": (
        "在试点的最大组大小下，拥有有信息量的组的提示占比"
    ),
    "there is something to learn from: online methods can work": "有可学的东西：在线方法可行",
    "no online method will learn much: first teach the model on demonstrations, take easier problems or a denser "
    "reward": "在线方法学不到多少：先用示范数据训练模型，或换更容易的题目，或用更稠密的奖励",
    "informative groups a second at the best group size, relative to the present one": (
        "最佳组大小下每秒得到的有信息量的组数，相对于当前组大小"
    ),
    "change the group size (rollout.samples_per_prompt) and keep the samples of a step": (
        "改变组大小（rollout.samples_per_prompt），每步的样本数保持不变"
    ),
    "keep the group size": "保持组大小",
    "variance of credit against a group's own mean, G / (G - 1), at the present group size": (
        "当前组大小下，以组内均值为基线的信用的方差：G / (G - 1)"
    ),
    "a group so small adds over a quarter to the variance: take 5 samples or more, or learn the baseline": (
        "组这样小，方差会增加四分之一以上：取 5 个或更多样本，或学习基线"
    ),
    "the group is large enough for its mean to be a baseline": "组足够大，组内均值可以作基线",
    "variance of credit x time, critic over group baseline: mean (1 - EV(t)) x time ratio / (G / (G - 1))": (
        "信用的方差 × 时间，价值网络相对于组基线：mean (1 - EV(t)) × 时间比 / (G / (G - 1))"
    ),
    "a group baseline gives more for the time than a critic": "同样的时间里，组基线比价值网络更有效",
    "a critic gives more for the time than a group baseline": "同样的时间里，价值网络比组基线更有效",
    "reliability of the reward (1 - noise variance / total variance)": "奖励的信度（1 − 噪声方差 / 总方差）",
    "the reward is reliable enough for small groups": "奖励足够可靠，小组即可",
    "noise eats the signal: raise the group size, correct for known flips, or learn the baseline": (
        "噪声淹没信号：增大组大小，或对已知的翻转作校正，或学习基线"
    ),
    "correlation of length and reward among the samples of a prompt, its size": (
        "同一提示的样本之间长度与奖励的相关系数的绝对值"
    ),
    "length and credit go together: weigh an arm without std and length normalisation": (
        "长度与信用相关：考虑一个不做标准差归一化和长度归一化的实验臂"
    ),
    "length says little of credit: its normalisation matters little": "长度几乎不反映信用：是否按长度归一化影响不大",
    "share of prompts that are solved by less than 10 % or more than 90 % of the samples": (
        "样本答对率低于 10 % 或高于 90 % 的提示占比"
    ),
    "easy and hard prompts dominate: dividing by the std would blow them up": (
        "容易和困难的提示占多数：除以标准差会把它们放大"
    ),
    "most prompts are of middling difficulty: dividing by the std does little harm": (
        "多数提示难度居中：除以标准差害处不大"
    ),
    "share of tokens cut at the upper clip in the timed steps": "计时步中被上侧裁剪截住的 token 占比",
    "the upper clip holds exploration back: weigh an arm with a higher one": (
        "上侧裁剪妨碍探索：考虑一个上侧裁剪更高的实验臂"
    ),
    "the upper clip hardly acts": "上侧裁剪几乎不起作用",
    "fall of entropy in a timed step, relative": "每个计时步中熵的相对降幅",
    "entropy falls fast: weigh an arm with a higher upper clip": "熵下降很快：考虑一个上侧裁剪更高的实验臂",
    "entropy does not fall fast in the first steps": "最初几步中熵下降不快",
    "difference of log-probs between learner and sampler, summed over a response": (
        "训练端与采样端的对数概率之差，在一个回答上求和"
    ),
    "long responses drift off-policy: weigh a sequence-level or prefix trust region": (
        "长回答会漂移为离策略：考虑序列级或前缀信赖域"
    ),
    "sampler and learner agree over whole responses: token ratios will do": (
        "训练端与采样端在整个回答上一致：token 级比率即可"
    ),
    "the lesser of sampling's share of a step / 0.5 and informative groups / 0.8": (
        "采样占每步时间的比例 / 0.5 与有信息量的组的占比 / 0.8，取两者中较小者"
    ),
    "sampling dominates and its pairs are informative: preference pairs of one pass are a cheap arm": (
        "采样占据主导，且样本对有信息量：用一轮采样得到的偏好对是一个便宜的实验臂"
    ),
    "pairs of one sampling pass would save little, or teach little": "一轮采样得到的偏好对省不了多少，或学不到多少",
    "peak memory of {arm} in the timed steps, as a share of the device": "{arm} 在计时步中的内存峰值占设备容量的比例",
    "does not fit safely: left out": "不能稳妥地放下：排除",
    "fits": "放得下",
    "any measure whose interval holds its boundary": "任何区间包含其阈值的量",
    "run both; the pilot cannot separate them": "两者都跑；试点无法区分它们",
    "not measured": "未测量",
    "run both; the pilot cannot separate them, and a larger one hardly would": (
        "两者都跑；试点无法区分它们，更大的试点恐怕也难以区分"
    ),
    "run both; the pilot cannot separate them: about {more} further prompts would": (
        "两者都跑；试点无法区分它们：再加约 {more} 个提示可以区分"
    ),
    "run both; the pilot cannot separate them: about {more} further timed steps would": (
        "两者都跑；试点无法区分它们：再加约 {more} 个计时步可以区分"
    ),
    "run both; the pilot cannot separate them: about {more} further prompts would, with timed steps in proportion": (
        "两者都跑；试点无法区分它们：再加约 {more} 个提示并按比例增加计时步，可以区分"
    ),
    "run both; the pilot cannot separate them: about {more} further runs would": (
        "两者都跑；试点无法区分它们：再加约 {more} 次运行可以区分"
    ),
    "training of a run of {arm}": "{arm} 一次运行的训练",
    "the whole experiment": "整个实验",
    "From a pilot of {prompts} prompts by {samples} samples, and timed steps of each arm; the rules, {n} findings, "
    "speak of equal wall-clock.": (
        "来自一次试点：{prompts} 个提示，每个提示 {samples} 个样本，并对每个实验臂的若干步计时；规则给出 {n} 条判断，"
        "均以相同的墙钟时间为前提。"
    ),
    "Recommended before the runs: {arms}.": "运行之前的推荐：{arms}。",
    "The rules put {arm} ahead.": "规则认为 {arm} 会领先。",
    "The rules put neither ahead.": "规则未认为任何一个会领先。",
    "rule": "规则",
    "signal": "信号",
    "measured": "实测",
    "boundary": "阈值",
    "effect": "推论",
    "source": "来源",
    "Rules of the advice": "建议所用的规则",
    "inside": "在内",
    "outside": "在外",
    "cost": "成本",
    "predicted": "预测",
    "interval": "区间",
    "measured over predicted": "实测相对预测",
    "in the interval": "是否在区间内",
    "Predicted cost against measured cost": "预测成本与实测成本",
    "There is no prediction of the outcome to score.": "没有可供评判的结果预测。",
    "The outcome cannot be scored: the two arms have no finished runs to compare.": (
        "无法评判结果：两个实验臂没有可供比较的已完成运行。"
    ),
    "The runs do not decide whether {arm} is ahead: the prediction is not scored.": (
        "这些运行不能判定 {arm} 是否领先：不对该预测评判。"
    ),
    "It came true: {arm} scored higher.": "预测应验：{arm} 得分更高。",
    "It did not come true: {arm} scored higher.": "预测未应验：{arm} 得分更高。",
    "units": "单位数",
    "Signals of the pilot": "试点的信号",
}
