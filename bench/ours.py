"""Our side of a comparison: steps of the product's own pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from peer import Line

from paribus.engines.heap import ask_huge_pages

ask_huge_pages()  # as the command line does, before PyTorch is there

from paribus.bench.inputs import Inputs
from paribus.bench.work import ALGORITHMS, Size, Workbench
from paribus.settings import MachineSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--kind", choices=list(ALGORITHMS), required=True)
    parser.add_argument("--prompts", type=int, required=True)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--max-new", type=int, required=True)
    parser.add_argument("--micro-tokens", type=int)
    given = parser.parse_args()
    line = Line()
    micro = {} if given.micro_tokens is None else {"micro_tokens": given.micro_tokens}
    size = Size(given.prompts, given.samples, given.max_new)
    bench = Workbench(Inputs(given.model, given.rows), given.kind, size, MachineSpec(device="cpu", **micro))
    line.ready()
    while True:
        line.wait()
        step = bench.step()
        needed = {name: count.flops for name, count in step.needed.items()}
        line.answer(step.seconds, step.tokens, inside=step.inside, flops=needed, phase_rss=step.peak_rss)


if __name__ == "__main__":
    main()
