"""Compare the answers and print the table; exit with 1 where they differ, save where they must and say why."""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

from exchange import CASES, WORK, Fields, answers_file, inputs_file, read

TOLERANCE = 1e-6

UNMEASURED = {
    "verl": (
        "1e-8 is added to lengths and counts before dividing by them, which is what is left of most differences.",
        "Rows without a trained token: verl divides sequence means by all rows of the minibatch, Paribus by the rows "
        "that train.",
        "Rejected rows (`rollout_rs`): verl takes them out of the mask and so out of the token count; Paribus' "
        "corrections give weight 0 and leave the denominators alone.",
        "GSPO: verl holds a row's log-ratio below 10, the paper's entry within +-20 (`verl_gspo` within +-10): below a "
        "ratio of e^10 neither acts.",
        "`grpo_vectorized` and `rloo_vectorized` compute in float32, so the plain estimators are compared.",
        "DPPO: verl's loss is -A r lp with r detached, Paribus' is -A r: the gradients are equal, the values are not "
        "and are left out above.",
    ),
    "trl": (
        "`loss_type` grpo, bnpo and dr_grpo average per micro-batch and then over micro-batches; a token mean (bnpo) "
        "then depends on the micro-batch size. Paribus divides by the totals of the whole update, here of one "
        "micro-batch.",
        "`bnpo` is that token mean, and not the Beta normalisation of the paper of that name (2506.02864).",
        "No log-ratio is held back, so that exp may overflow; Paribus' clamp is off here.",
        "ORPO computes the odds ratio in float32 whatever it is given, which is what is left of its difference.",
        "A uniform group's advantage is rounding noise over 1e-4; Paribus gives exactly 0.",
        "KTO's reference point is measured at each micro-batch under the current policy; Paribus measures it once a "
        "step.",
    ),
}


class Line(NamedTuple):
    """The largest difference of one quantity over all batches, and Paribus' largest value of it."""

    case: dict[str, Any]
    quantity: str
    batches: int
    difference: float
    largest: float

    @property
    def agrees(self) -> bool:
        return self.difference <= TOLERANCE and self.largest > 0  # False for NaN, and where nothing was compared


def compared(case: dict[str, Any]) -> list[Line]:
    """A line for each quantity; outside the mask nothing counts."""
    inputs = read(inputs_file(case["data"]))
    ours = read(answers_file(f"paribus/{case['library']}", case["name"]))
    theirs = read(answers_file(case["library"], case["name"]))
    lines = []
    for quantity in ours[0]:
        pairs = [
            (_inside(a[quantity], x), _inside(b[quantity], x)) for a, b, x in zip(ours, theirs, inputs, strict=True)
        ]
        differences = [float((a - b).abs().max()) for a, b in pairs]
        # max() would step over NaN
        worst = next((d for d in differences if d != d), max(differences))
        lines.append(Line(case, quantity, len(pairs), worst, max(float(a.abs().max()) for a, _ in pairs)))
    return lines


def _inside(value: Any, inputs: Fields) -> Any:
    return value[inputs["mask"]] if value.dim() == 2 else value


def verdict(case: dict[str, Any], lines: list[Line]) -> str:
    """A case that is meant to differ must: else its reason no longer holds."""
    agrees = all(line.agrees for line in lines)
    if case["differs"]:
        return "differs no longer: FAIL" if agrees else "by design"
    return "ok" if agrees else "FAIL"


def table(found: list[tuple[dict[str, Any], list[Line]]]) -> str:
    """The table in Markdown."""
    head = ["library", "method", "functions compared with", "batches", "largest difference", "verdict"]
    rows = [
        [
            case["library"],
            case["name"],
            case["calls"],
            str(lines[0].batches),
            ", ".join(f"{line.quantity} {line.difference:.0e}" for line in lines),
            verdict(case, lines),
        ]
        for case, lines in found
    ]
    width = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    body = [head, ["-" * w for w in width], *rows]
    return "\n".join("| " + " | ".join(x.ljust(w) for x, w in zip(row, width, strict=True)) + " |" for row in body)


def reasons(found: list[tuple[dict[str, Any], list[Line]]]) -> str:
    measured = [f"- {case['library']}, {case['name']}: {case['differs']}" for case, _ in found if case["differs"]]
    stated = [f"- {library}: {text}" for library, texts in UNMEASURED.items() for text in texts]
    return "\n".join([*measured, *stated])


def main() -> int:
    found = [(case, compared(case)) for case in json.loads(CASES.read_text())]
    versions = ", ".join(f"{name} {(WORK / f'{name}.version').read_text()}" for name in UNMEASURED)
    failed = [case["name"] for case, lines in found if "FAIL" in verdict(case, lines)]
    print(f"Largest differences between Paribus and {versions}; float64, tolerance {TOLERANCE:g}.\n")
    print(table(found))
    print(f"\nDifferences by design:\n\n{reasons(found)}")
    print(f"\n{len(found)} methods, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
