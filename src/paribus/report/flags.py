"""Numbers that cannot be true as they stand: memory beyond the device, a rate that is not tokens over time."""

from __future__ import annotations

from paribus.report.message import Text, msg
from paribus.report.text import duration, gigabytes, number

GB, GIB = 10**9, 2**30
RATE_TOLERANCE = 0.05  # relative; rounding of three printed digits stays below it


def memory_flags(allocated: float | None, device_peak: float | None, capacity: float | None) -> list[Text]:
    """Return what is impossible among the allocator's peak, the device's peak and its capacity, all in bytes.

    `device_peak` is what was seen from outside the process (nvidia-smi), `allocated` what its allocator counted.
    """
    out: list[Text] = []
    if allocated is not None and capacity is not None and allocated > capacity:
        out.append(
            msg(
                "Impossible as resident memory: the allocator's peak of {allocated} is more than the device's "
                "{capacity}. Units may be mixed (GB and GiB), or the allocator counts memory that it had given back "
                "(an inference engine asleep, for instance).",
                allocated=gigabytes(allocated),
                capacity=gigabytes(capacity),
            )
        )
    if device_peak is not None and capacity is not None and device_peak > capacity:
        out.append(
            msg(
                "Impossible: the device's peak of {peak} is more than its {capacity}. Units may be mixed (GB and GiB).",
                peak=gigabytes(device_peak),
                capacity=gigabytes(capacity),
            )
        )
    if allocated is not None and device_peak is not None and allocated > device_peak:
        out.append(
            msg(
                "Contradiction: the allocator's peak of {allocated} is more than the peak of the whole device, {peak}. "
                "At least one of them is not what its name says.",
                allocated=gigabytes(allocated),
                peak=gigabytes(device_peak),
            )
        )
    return out


def unit_note(value: float, capacity: float) -> Text:
    """Say what a memory figure printed as "GB" would be if it were GiB; both numbers as printed, `value` > `capacity`.

    verl divides `torch.cuda.max_memory_allocated()` by 1024³ (its `perf/max_memory_allocated_gb`): GiB.
    """
    return (
        msg(
            "{value} “GB” may be GiB, as verl prints it: then it is {larger}, still more than the device. Only GB of a "
            "device of {capacity} GiB ({device}) would fit.",
            value=number(value),
            larger=gigabytes(value * GIB),
            capacity=number(capacity, 0),
            device=gigabytes(capacity * GIB),
        )
        if value * GB <= capacity * GIB
        else msg(
            "{value} “GB” may be GiB, as verl prints it: then it is {larger}. No reading of the units makes it fit.",
            value=number(value),
            larger=gigabytes(value * GIB),
        )
    )


def rate_flags(tokens: float | None, seconds: float | None, rate: float | None) -> list[Text]:
    """Return whether tokens over seconds is another rate than the one stated (tokens per second)."""
    if tokens is None or rate is None or not seconds:
        return []
    implied = tokens / seconds
    if abs(implied / rate - 1) <= RATE_TOLERANCE:
        return []
    return [
        msg(
            "Contradiction: {tokens} tokens in {time} are {implied} tokens/s, but {rate} are stated.",
            tokens=number(tokens, 0),
            time=duration(seconds),
            implied=number(implied, 0),
            rate=number(rate, 0),
        )
    ]
