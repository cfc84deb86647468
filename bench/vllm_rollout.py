"""Rollout alone by vLLM on the CPU, in this process, compiled; its prefix cache is emptied before each step."""

from __future__ import annotations

import os
import time

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "3")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

from peer import Line, read_rows, rollout_arguments, steps, taken


def main() -> None:
    line = Line()  # before any library prints
    from vllm import LLM, SamplingParams

    given = rollout_arguments(__doc__)
    engine = LLM(given.model, dtype="float32", max_model_len=512, max_num_seqs=64, enable_prefix_caching=True)
    rows = read_rows(given.rows)
    plan = SamplingParams(n=given.samples, temperature=1.0, max_tokens=given.max_new, ignore_eos=True)

    def rollout(step: int) -> tuple[dict[str, float], int]:
        engine.reset_prefix_cache()
        start = time.perf_counter()
        found = engine.generate([row["prompt"] for row in taken(rows, step, given.prompts)], plan, use_tqdm=False)
        seconds = time.perf_counter() - start
        return {"step": seconds, "rollout": seconds}, sum(len(c.token_ids) for one in found for c in one.outputs)

    steps(line, rollout)


if __name__ == "__main__":
    main()
