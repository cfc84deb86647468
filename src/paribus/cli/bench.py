"""The verb that measures speed and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def bench(
    model: Annotated[
        list[str],
        typer.Option(
            "--model", help='"tiny" (random weights), a model folder, a .gguf file or a hub id; may be repeated.'
        ),
    ] = ["tiny"],  # noqa: B006
    prompts: Annotated[int | None, typer.Option("--prompts", min=1, help="Prompts a step.")] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=2, help="Responses to each.")] = None,
    max_new: Annotated[int | None, typer.Option("--max-new", min=2, help="Tokens of each response.")] = None,
    ppo: Annotated[bool, typer.Option("--ppo", help="PPO with a critic and a reference, instead of GRPO.")] = False,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Counted steps, after one that is not.")] = 5,
    micro_tokens: Annotated[int | None, typer.Option("--micro-tokens", min=1, help="Of one training forward.")] = None,
    device: Annotated[str, typer.Option("--device", help='"auto", "cpu" or "cuda".')] = "auto",
    gsm8k: Annotated[
        str | None, typer.Option("--gsm8k", help="Folder or jsonl file of GSM8K's questions; default: the hub.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the report here.")
    ] = None,
) -> None:
    """Time and count every phase of a training step, and say how much of the machine's limits it reaches."""
    from paribus.bench import measure
    from paribus.settings import MachineSpec
    from paribus.store.files import write_json

    machine = MachineSpec(device=device)
    if micro_tokens is not None:
        machine = MachineSpec(device=device, micro_tokens=micro_tokens)
    report = measure.bench(
        model, prompts=prompts, samples=samples, max_new=max_new, ppo=ppo, repeats=repeats, machine=machine,
        gsm8k=gsm8k, progress=lambda line: typer.echo(line, err=True),
    )  # fmt: skip
    typer.echo(measure.text(report))
    if json_file is not None:
        write_json(json_file, report)
