"""The machine's limits, measured: matrix products, reading and copying memory; `python -m paribus.bench.roofline`."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import psutil
import torch

from paribus.store.provenance import now, package_versions, processor

SIDES = (1024, 1536, 2048)  # of square matrices; the best median of them is the rate
BUFFER = 1 << 26  # float32 numbers: 256 MiB, beyond any cache
REPEATS = 5


class Roofline(NamedTuple):
    """Rates of one device: floating-point operations and bytes per second."""

    flops: float
    read: float
    copy: float  # bytes read plus bytes written

    def seconds(self, flops: int, size: int) -> float:
        """The least time that operations and bytes can take when they overlap perfectly."""
        return max(flops / self.flops, size / self.read)


def measure(device: str = "cpu", *, sides: tuple[int, ...] = SIDES, buffer: int = BUFFER) -> Roofline:
    """Measure the rates with all threads, float32; medians of `REPEATS`."""
    rates = []
    for side in sides:
        a, b = torch.randn(side, side, device=device), torch.randn(side, side, device=device)
        out = torch.empty(side, side, device=device)
        rates.append(2 * side**3 / _seconds(device, partial(torch.mm, a, b, out=out)))
    source = torch.ones(buffer, device=device)
    target = torch.zeros(buffer, device=device)
    size = source.numel() * source.element_size()
    read = size / _seconds(device, source.sum)
    return Roofline(max(rates), read, 2 * size / _seconds(device, lambda: target.copy_(source)))


def machine() -> dict[str, Any]:
    """Return what a reader of a measurement has to know of the machine and the software."""
    return {
        "date": now()[:10],
        "processor": processor(),
        "cores": psutil.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "packages": package_versions(),
    }


def _seconds(device: str, work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        work()
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paribus.bench.roofline", description=__doc__)
    parser.add_argument("--device", default="cpu")
    print(json.dumps({"roofline": measure(parser.parse_args().device)._asdict(), "machine": machine()}))


if __name__ == "__main__":
    main()
