"""The peaks of memory by phase, and those that cannot be true."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paribus.report.blocks import Block, Prose, Table
from paribus.report.cost import PHASE_NAMES, timed
from paribus.report.flags import memory_flags
from paribus.report.message import Text, msg
from paribus.report.text import DASH, gigabytes, number
from paribus.store import PHASES, Phase, StoredExperiment, StoredRun, TimingRow

Read = Callable[[TimingRow], Mapping[Phase, int]]
KINDS: tuple[tuple[Text, Read], ...] = (
    (msg("process, resident (RSS)"), lambda row: row.rss_peak),
    (msg("device allocator, allocated"), lambda row: row.allocated_peak),
    (msg("device allocator, reserved"), lambda row: row.reserved_peak),
)


def memory(exp: StoredExperiment) -> list[Block]:
    """Return the peaks by phase: the process, then the device's allocator where there is one, then the capacity."""
    runs = timed(exp)
    rows: list[list[Text]] = []
    for label, read in KINDS:
        peaks = {arm: peaks_of(found, read) for arm, found in runs.items()}
        if any(peaks.values()):
            whole = [max(p.values(), default=None) for p in peaks.values()]
            rows.append([label, msg("whole run"), *map(gigabytes, whole)])
            for phase in PHASES:
                if any(phase in p for p in peaks.values()):
                    rows.append(["", PHASE_NAMES[phase], *(gigabytes(p.get(phase)) for p in peaks.values())])
    if not rows:
        return [Prose(msg("No memory was recorded."), "note")]
    rows.append([msg("capacity of the device, or of the host for a CPU"), "", *(_capacity(f) for f in runs.values())])
    text = msg(
        "Highest value of all steps and seeds while the phase ran. GB = 10^9 bytes (1 GiB = 1.074 GB). Memory that an "
        "earlier phase left allocated counts in the later ones. What other processes hold on the device is not seen."
    )
    return [
        Table([msg("peak"), msg("phase"), *runs], rows, labels=2, name="memory"),
        *_flags(runs),
        Prose(text, "note"),
    ]


def peaks_of(runs: Mapping[int, StoredRun], read: Read) -> dict[str, int]:
    """Return the highest value of each phase over all runs of an arm, undone work included."""
    out: dict[str, int] = {}
    for run in runs.values():
        for row in run.all_timing:
            for phase, size in read(row).items():
                out[phase] = max(out.get(phase, 0), size)
    return out


def capacity(runs: Mapping[int, StoredRun]) -> int | None:
    """Return the smallest capacity that a run of the arm had."""
    return min((a.device_bytes for run in runs.values() for a in run.info.attempts if a.device_bytes), default=None)


def _capacity(runs: Mapping[int, StoredRun]) -> str:
    size = capacity(runs)
    return DASH if size is None else f"{gigabytes(size)} ({number(size / 2**30, 1)} GiB)"


def _flags(runs: Mapping[str, Mapping[int, StoredRun]]) -> list[Block]:
    """Return what is impossible among peaks and capacities, arm by arm."""
    out: list[Block] = []
    for arm, found in runs.items():
        (_, rss), (_, allocated), _ = KINDS
        on_cpu = all(a.device.startswith("cpu") for run in found.values() for a in run.info.attempts)
        peak = max(peaks_of(found, rss if on_cpu else allocated).values(), default=None)
        for text in memory_flags(peak, None, capacity(found)):
            out.append(Prose(msg("{arm}: {text}", arm=arm, text=text), "warning"))
    return out
