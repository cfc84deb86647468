"""Cards of the methods that train on given answers."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import Card

_PAIRS = "every (right, wrong) pair of the samples of a prompt, all at once: InstructGPT (2203.02155) section 3.5"
_OWN_PAIRS = "the pairs are own samples ranked by the task's score; the paper takes people's preferences"
_START = "the reference is the model that starts the run, and the pairs are its own samples"

_DPO_DEVIATIONS = (_OWN_PAIRS, _START)

CARDS: Mapping[str, Card] = {
    "dpo": Card(
        "DPO: Direct Preference Optimization",
        {"source": _PAIRS, "objective": "2305.18290 eq. 7; App. B: beta 0.1"},
        _DPO_DEVIATIONS,
        ("source", "objective"),
    ),
    "cdpo": Card(
        "Conservative DPO: label smoothing",
        {
            "source": _PAIRS,
            "objective": "E. Mitchell 2023, A note on DPO with noisy preferences: binary cross-entropy with target "
            "1 - e; beta as in DPO",
        },
        (*_DPO_DEVIATIONS, "the note leaves e open: 0.1 is our choice; TRL's sigmoid loss ignores label_smoothing"),
        ("objective",),
    ),
    "robust_dpo": Card(
        "Robust DPO: unbiased under label flips",
        {
            "source": _PAIRS,
            "objective": "2403.00409 section 3.1: its mean over flips is the loss of clean labels; section 6: e 0.1",
        },
        (
            *_DPO_DEVIATIONS,
            "e is the flip rate of the data, which own pairs ranked by exact answers do not have: set it to theirs",
            "beta 0.1 as in DPO, so that the two differ in the loss alone; the paper has 0.01 (App. B)",
        ),
        ("objective",),
    ),
    "ipo": Card(
        "IPO: Identity Preference Optimization",
        {"source": _PAIRS, "objective": "2310.12036 eq. 17: squared distance of the log-ratio gap to 1 / (2 tau)"},
        (
            *_DPO_DEVIATIONS,
            "the paper gives no tau for language models: 0.1 is TRL's, whose gap is of means per token, not of sums",
        ),
        ("objective",),
    ),
    "hinge": Card(
        "Hinge loss on log-ratios: SLiC with a reference",
        {
            "source": _PAIRS,
            "objective": "2309.06657 (RSO), hinge-norm: SLiC's hinge (2305.10425) on log-ratios to the reference",
        },
        (
            *_DPO_DEVIATIONS,
            "beta 0.1 is TRL's; without SLiC's regularisation by likelihood, which the reference replaces",
        ),
        ("objective",),
    ),
    "kto": Card(
        "KTO: Kahneman-Tversky Optimization",
        {
            "source": "2402.01306 section 4: a label per answer, no pairs; z0 from answers to other prompts",
            "objective": "2402.01306 section 4, the KTO loss; beta 0.1, lambda_D = lambda_U = 1",
        },
        (
            "the labels are the task's verdicts on own samples; the paper takes people's",
            "z0 is measured once a step, over the step and under the policy that starts it; the paper and TRL measure "
            "it in every micro-batch under the current policy, which is the same at one update a step of one "
            "micro-batch",
            "the paper wants lambda_D n_D / (lambda_U n_U) within 1 to 4/3; here the counts are what was sampled",
        ),
        ("source", "objective"),
    ),
    "orpo": Card(
        "ORPO: Odds Ratio Preference Optimization",
        {"source": _PAIRS, "objective": "2403.07691 eq. 6-7: likelihood plus lambda times the odds ratio; lambda 0.1"},
        (
            _OWN_PAIRS,
            "a mean log-prob is held at -1e-8 inside the odds, so that they stay finite; the paper has no bound",
            "the likelihood is of the answer alone; TRL's also counts the prompt",
        ),
        ("objective",),
    ),
    "simpo": Card(
        "SimPO: Simple Preference Optimization",
        {"source": _PAIRS, "objective": "2405.14734 eq. 6; its settings: beta 2.0 to 2.5, gamma / beta about 0.5"},
        (_OWN_PAIRS,),
        ("objective",),
    ),
    "sft": Card(
        "SFT on own right answers: rejection-sampling fine-tuning (RFT)",
        {
            "source": "2308.01825, RFT: sample, keep the right and distinct answers",
            "objective": "2308.01825, RFT: fine-tuning on them; token mean: the common default",
        },
        ("distinct by text, where the paper compares the equations", "the paper adds the data's own solutions"),
    ),
    "online_dpo": Card(
        "Online DPO: DPO on pairs of the current policy",
        {
            "source": "2402.04792, OAIF: both answers are sampled from the current policy",
            "objective": "2305.18290 eq. 7, kept by 2402.04792; beta 0.1",
        },
        ("the task's score ranks the answers, and all pairs of a prompt count; the paper asks a model about two",),
        ("source",),
    ),
}
