"""Rows as other tools write them: keys, order and types are those of the sources named in the readers."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def lm_eval_row(doc_id: int, score: float, answers: str = "strict-match", **more: Any) -> dict[str, Any]:
    """One line of `samples_gsm8k_<date>.jsonl`."""
    doc = {"question": f"What is {doc_id} + 1?", "answer": f"#### {doc_id + 1}"}
    digest = hashlib.sha256(json.dumps(doc, indent=2).encode()).hexdigest()
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": doc["answer"],
        "arguments": {"gen_args_0": {"arg_0": doc["question"], "arg_1": {"until": ["Question:"]}}},
        "resps": [["The answer is 7."]],
        "filtered_resps": ["7"],
        "filter": answers,
        "metrics": ["exact_match"],
        "doc_hash": digest,
        "prompt_hash": digest[::-1],
        "target_hash": digest,
        "exact_match": score,
        **more,
    }


def verl_row(problem: int, score: float, step: int = 58, **more: Any) -> dict[str, Any]:
    """One line of `<validation_data_dir>/58.jsonl`, as 0.9.1 writes it."""
    text = f"user\nWhat is {problem} + 1?\nassistant\n"
    return {"input": text, "output": "#### 7", "gts": str(problem + 1), "score": score, "step": step, **more}
