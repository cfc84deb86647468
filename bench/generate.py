"""Rollout alone by transformers' `generate` (left-padded prompts, each once per sample, as TRL calls it)."""

from __future__ import annotations

import time

from peer import Line, read_rows, rollout_arguments, steps, taken

line = Line()  # before any library prints

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

given = rollout_arguments(__doc__)

tokenizer = AutoTokenizer.from_pretrained(given.model, padding_side="left")
model = AutoModelForCausalLM.from_pretrained(given.model, dtype="float32").eval()
rows = read_rows(given.rows)
config = GenerationConfig(
    max_new_tokens=given.max_new, min_new_tokens=given.max_new, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
    pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
)  # fmt: skip


@torch.inference_mode()
def rollout(step: int) -> tuple[dict[str, float], int]:
    start = time.perf_counter()
    prompts = [row["prompt"] for row in taken(rows, step, given.prompts) for _ in range(given.samples)]
    read = tokenizer(prompts, return_tensors="pt", padding=True)
    made = model.generate(**read, generation_config=config)
    seconds = time.perf_counter() - start
    return {"step": seconds, "rollout": seconds}, made.shape[0] * (made.shape[1] - read.input_ids.shape[1])


steps(line, rollout)
