"""A report of full size in a real browser: Debian's Chromium, headless, without a network."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import experiment
from paribus.report import build

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LISTEN = "addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective))"


@dataclass(frozen=True)
class Built:
    """The report's folder, and the processor seconds that it took to write it in both languages."""

    folder: Path
    seconds: float


@dataclass(frozen=True)
class Opened:
    """A page and everything that went wrong or was fetched while it was open."""

    page: Page
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = experiment.write(tmp_path_factory.mktemp("runs") / "word-problems")
    start = time.process_time()
    page = build(folder, folder / "report", language="both")
    return Built(page.parent, time.process_time() - start)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not found:
        pytest.fail("no chromium in PATH: apt-get install chromium, or set CHROMIUM to its path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(built: Built, chromium: Browser) -> Iterator[Open]:
    """Return a function that opens the report, with a viewport and with what else a context takes."""
    contexts = []

    def open_(width: int = 1280, height: int = 900, file: str = "report.html", **options: Any) -> Opened:
        context = chromium.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda m: found.faults.append(m.text) if m.type in ("error", "warning") else None)
        found.page.on("pageerror", lambda error: found.faults.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        if options.get("java_script_enabled", True):
            found.page.add_init_script(LISTEN)
        found.page.goto(f"{built.folder.as_uri()}/{file}")
        return found

    yield open_
    for context in contexts:
        context.close()
