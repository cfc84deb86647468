"""The Chinese catalogue: English template -> Chinese template, with the same gaps.

One term, one translation:

    arm 实验臂, base 基座模型, run 运行, seed 种子, checkpoint 检查点, algorithm 算法, policy 策略, critic 价值网络,
    problem 题目, prompt 提示, response 回答, answer 答案, sample 样本, right 正确, wrong 错误, cut 截断, grader 判分器,
    gold answer 标准答案, gold score 金标分数, suite 评测集, metric 指标, accuracy 准确率, reward 奖励, advantage 优势,
    credit 信用, baseline 基线, group 组, clip 裁剪, trust region 信赖域, entropy 熵, log-prob 对数概率, rollout 采样,
    wall-clock 墙钟时间, device-hour 设备小时, memory 内存, peak 峰值, phase 阶段, step 步, pilot 试点,
    verdict 结论, difference 差异 (shown or not) and 差值 (the number), interval 置信区间, margin 界限,
    boundary 阈值, points 百分点, s.d. 标准差, factor 因子, level 水平, interaction 交互作用,
    declared 声明, controlled 受控, fairness 公平性.

What is not shown is 未显示, never said not to be (没有差异); inconclusive is 尚无定论; equivalent is 等效, never 相同
or 相等: 完全相同 are two arms with the same score on every problem. PPO, GRPO, KL, pass@k, maj@k, token, bootstrap,
p, t and the names of tests stay as they are. Punctuation is full-width; Chinese stands apart from Latin words and
numbers by a space.
"""

from __future__ import annotations

from collections.abc import Mapping

from paribus.report.chinese import (
    accuracy,
    advice,
    cost,
    curves,
    factors,
    fairness,
    limits,
    page,
    planned,
    problems,
    provenance,
    reward,
    setting,
    verdict,
)


def merged(*parts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the parts as one catalogue. Raises ValueError where a template stands in two of them."""
    out: dict[str, str] = {}
    for part in parts:
        twice = out.keys() & part.keys()
        if twice:
            raise ValueError(f"translated twice: {', '.join(sorted(twice))}")
        out |= part
    return out


CHINESE: Mapping[str, str] = merged(
    page.TEXTS,
    verdict.TEXTS,
    fairness.TEXTS,
    setting.TEXTS,
    accuracy.TEXTS,
    factors.TEXTS,
    reward.TEXTS,
    cost.TEXTS,
    planned.TEXTS,
    curves.TEXTS,
    problems.TEXTS,
    advice.TEXTS,
    limits.TEXTS,
    provenance.TEXTS,
)
