"""`paribus doctor`: what is installed, what clashes, which lanes the environment fits, and the lines that mend it."""

from __future__ import annotations

from paribus.doctor.diagnose import Diagnosis, diagnose
from paribus.doctor.diagnose import matrix as matrix
from paribus.doctor.survey import Environment as Environment
from paribus.doctor.survey import survey


def check() -> Diagnosis:
    """Judge the environment of this process."""
    return diagnose(survey())


def text(found: Diagnosis) -> str:
    """Return a diagnosis as lines for a terminal."""
    lines = [f"python {found.python} on {found.platform}", f"cpu: {found.cpu}"]
    lines += [f"gpu: {gpu}" for gpu in found.gpus] or ["gpu: none found"]
    for extra in found.extras:
        lines.append(f"{extra.name or 'base'}: {extra.use}")
        lines += [
            f"  {'ok ' if p.good else 'NO '} {p.name} {p.found or 'not installed'}"
            + (f" (needs {p.needs})" * bool(p.needs))
            for p in extra.packages
        ]
        lines += [f"  to install: {extra.fix}"] if extra.fix else []
    lines.append("lanes:")
    for lane in found.lanes:
        lines.append(f"  {'fits' if lane.fits else 'no  '} {lane.name}: {lane.use}")
        if not lane.fits:
            lines += [f"       lacks {', '.join(lane.lacks)}", f"       {lane.install}"]
    lines.append("problems:" if found.problems else "problems: none")
    for problem in found.problems:
        lines += [f"  {'!' if problem.needed else '-'} {problem.text}", f"      {problem.fix}"]
    return "\n".join(lines)
