"""What an evaluation records beside the grader's score: the training reward, and the KL to the policy of the start."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.models.hf import load_model
from paribus.part import replace
from paribus.pipeline.questions import evaluation_questions
from paribus.pipeline.standalone import evaluate_model, suites_of
from paribus.pipeline.worker import run_base
from paribus.settings import ModelSpec
from paribus.store import EvalRow, ExperimentPaths
from paribus.store.files import read_rows
from paribus.types import Key
from tinyruns import experiment, run, write_materials

SUITE = {"kl": True, "temperature": 1.0, "samples": 6}


def test_evaluations_record_the_reward_and_the_kl(tmp_path: Path) -> None:
    write_materials(tmp_path)
    exp = experiment(tmp_path, {"arm": {"base": "grpo"}}, eval={"test": SUITE})
    paths, root = run(exp, "arm", tmp_path / "runs"), tmp_path / "runs"
    run_base(exp, root, lambda kind, **fields: None)
    base, arm = (read_rows(p.eval("test", n), EvalRow) for p, n in ((ExperimentPaths(root).base, 0), (paths, 2)))
    assert len(base) == len(arm) == 12 and all(row.score == 0.0 for row in base + arm)
    # noise belongs to problem and sample, so evaluations are comparable: the toy model's score is 0 in both
    assert [row.reward for row in base] == [row.reward for row in arm] and {row.reward for row in arm} == {0.0, 1.0}
    assert [row.kl for row in base] == [0.0] * 12

    start, end = (load_model(ModelSpec(path=str(folder))) for folder in (tmp_path / "model", paths.final))
    plan = SamplingPlan(samples=6, max_tokens=8)
    rollout = LocalSampler(end).sample(evaluation_questions(exp.setting, end)["test"].prompts, plan, Key(0, "eval"))
    assert rollout.text == [row.response for row in arm]
    for i, row in enumerate(arm):
        ids, said = rollout.tokens[i, : rollout.length[i]], rollout.mask[i, 1 : rollout.length[i]]
        with torch.no_grad():
            logp = [m.model(ids[None]).logits[0, :-1].log_softmax(-1) for m in (end, start)]
        gap = (logp[0] - logp[1]).gather(1, ids[1:, None]).squeeze(1)[said].sum()
        assert row.kl == pytest.approx(gap.item(), abs=1e-4) and row.kl != 0.0

    # the final model by itself, as `paribus eval` does it: the same rows, but for the KL, whose start is not at hand
    final = replace(exp.setting, model={"path": str(paths.final)})
    evaluate_model(suites_of(final, 0), ["test"], tmp_path / "out", lambda text: None, setting=final)
    again = read_rows(tmp_path / "out" / "test.jsonl.gz", EvalRow)
    assert again == [row.model_copy(update={"kl": None}) for row in arm]
