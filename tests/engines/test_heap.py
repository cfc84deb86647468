"""Freed pages stay with the process until it gives them back."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import json, psutil, torch
from paribus.engines.heap import give_back_freed_pages, keep_freed_pages
rss = lambda: psutil.Process().memory_info().rss
keep_freed_pages()
seen = [rss()]
x = torch.ones(50_000_000)
seen.append(rss())
del x
seen.append(rss())
give_back_freed_pages()
seen.append(rss())
print(json.dumps([(b - seen[0]) / 2e8 for b in seen]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_freed_pages_are_kept_and_then_given_back() -> None:
    """A tensor of 200 MB: there, freed, given back."""
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    _, there, freed, after = json.loads(out.stdout)
    assert there > 0.95
    assert freed > 0.95
    assert after < 0.1
