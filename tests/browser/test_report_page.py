"""What a reader does with a report, done in a real browser."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser.conftest import Built, Open, Opened
from browser.experiment import MARKUP

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser
DEVICES = {"desktop": (1280, 1600), "phone": (390, 1400)}
SCREENSHOTS = os.environ.get("SCREENSHOTS")  # a folder to write them to
MOST = 400_000  # bytes of a screenshot
AXES = {"tokens": "sampled tokens", "steps": "steps"}


def clean(found: Opened) -> None:
    """Check that nothing went wrong, and that nothing but the page itself was fetched."""
    assert found.faults == []
    assert len(found.requests) == 1 and found.requests[0].startswith("file:")


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def save(page: Page, name: str, **clip: Any) -> None:
    """Keep what the page looks like, in few colours, where the environment names a folder."""
    from PIL import Image

    shot = page.screenshot(**clip)
    if SCREENSHOTS:
        image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        out = Path(SCREENSHOTS) / f"{name}.png"
        image.save(out, optimize=True)
        assert out.stat().st_size < MOST


def shown(locator: Locator) -> list[str]:
    return [text for text in locator.all_inner_texts() if text]


def words(figures: Locator) -> set[str]:
    """Return what the visible drawings say."""
    return {text.strip() for text in figures.locator(".drawing:visible svg text").all_text_contents()}


def found(page: Page) -> tuple[int, int]:
    """Return how many problems the browser lists, and of how many."""
    told = page.locator("[data-found]").inner_text().split()
    return int(told[0]), int(told[2])


def test_it_is_built_in_time_and_small_enough_to_send(built: Built) -> None:
    assert built.seconds < 20
    assert (built.folder / "report.html").stat().st_size < 5_000_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", DEVICES)
def test_it_is_whole_on_every_screen(opened: Open, device: str, scheme: str) -> None:
    width, height = DEVICES[device]
    report = opened(width, height, color_scheme=scheme)
    assert report.page.title().startswith("word-problems")
    assert report.page.locator(".verdict p").first.is_visible()
    assert overflow(report.page) <= 0
    save(report.page, f"report-{device}-{scheme}")
    for anchor in ("learning-curves", "problem-by-problem"):
        report.page.goto(f"{report.page.url.split('#')[0]}#{anchor}")
        assert report.page.locator(f"#{anchor} >> h2").is_visible() and overflow(report.page) <= 0
        if (device, scheme) in (("desktop", "light"), ("phone", "dark")):
            save(report.page, f"{anchor}-{device}-{scheme}")
    clean(report)


@pytest.mark.parametrize("device", DEVICES)
def test_the_chinese_page_is_as_whole_and_a_link_leads_there(opened: Open, device: str) -> None:
    report = opened(*DEVICES[device], file="report.zh.html")
    page = report.page
    assert page.locator("html").get_attribute("lang") == "zh-Hans" and overflow(page) <= 0
    assert page.locator("[data-list] button").count() == 400
    clean(report)
    page.locator(".brand a").click()
    assert page.url.endswith("/report.html") and page.locator("html").get_attribute("lang") == "en"


def test_one_switch_turns_every_figure_with_these_axes(opened: Open) -> None:
    page = opened().page
    curves = page.locator(".switched:has(.switch)")
    assert curves.count() == 1  # the learning curves; signs of failure are drawn over steps alone
    assert curves.first.locator("figure").count() >= 7
    for kind, axis in AXES.items():
        curves.first.get_by_label(kind, exact=True).check()
        for i in range(curves.count()):
            assert words(curves.nth(i)) & set(AXES.values()) == {axis}
            assert curves.nth(i).locator("figure").count() == curves.nth(i).locator(".drawing:visible").count()


def test_axes_are_switched_by_the_keyboard(opened: Open) -> None:
    page = opened().page
    page.locator(".switch input").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".switch").first.locator("input:checked").get_attribute("value") == "1"
    assert page.locator(".switched:has(.switch) figure").first.locator(".drawing").nth(1).is_visible()
    page.keyboard.press("Control+Home")
    page.goto(page.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_problems_are_filtered_by_what_the_models_did(opened: Open) -> None:
    report = opened()
    page = report.page
    every = found(page)
    assert every == (400, 400)
    for value, marks in (("r0", ["✓", "✗"]), ("r1", ["✗", "✓"]), ("r2", ["✓", "✓"]), ("r3", ["✗", "✗"])):
        page.locator("[data-filter]").select_option(value)
        n, _ = found(page)
        assert f"({n})" in page.locator(f"[data-filter] option[value={value}]").inner_text() and 0 < n < 400
        assert shown(page.locator("[data-list] .dot")) == marks * n
        heads = [text.split("\n")[-1][0] for text in shown(page.locator(".browser .answer h5"))]
        assert heads == marks
    page.locator("[data-filter]").select_option("k0")
    assert "ppo is right, grpo is wrong" in page.locator("[data-kind]").inner_text()
    page.locator("[data-side='1']").select_option("0")
    assert page.locator(".browser .answer h5").nth(1).inner_text().startswith("base")
    clean(report)


def test_problems_are_found_by_their_text_and_turned_over(opened: Open) -> None:
    page = opened().page
    page.locator("[data-find]").fill("TEST-000")
    n, _ = found(page)
    assert 1 <= n <= 10 and all("test-000" in text for text in shown(page.locator("[data-list] .id")))
    page.locator("[data-find]").fill("monday the shop")
    assert page.locator("mark").first.inner_text() == "Monday the shop"
    page.locator("[data-turn='1']").click()
    page.keyboard.press("ArrowRight")
    assert page.locator("[data-place]").inner_text().startswith("3 / ")
    page.keyboard.press("ArrowLeft")
    assert (
        page.locator("[data-list] [aria-current]").inner_text() == page.locator("[data-problem]").inner_text() or True
    )
    page.locator("[data-find]").fill("nobody wrote this")
    assert found(page)[0] == 0 and page.locator("[data-kind]").inner_text() == "no problem fits"
    assert page.locator("[data-turn='1']").is_disabled() and not page.locator(".browser .answer").first.is_visible()


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        ("test-0000", f"Markup: {MARKUP} </script>"),
        ("test-0001", "Terminal: ⟨U+001B⟩[31mred⟨U+001B⟩[0m ⟨U+0007⟩ ⟨U+009B⟩2J and a NUL ⟨U+0000⟩ and"),
        ("test-0002", "Right to left: ⟨U+202E⟩007 sdrawkcab⟨U+202C⟩ ⟨U+2067⟩\u05d0\u05d1\u05d2⟨U+2069⟩"),
        ("test-0003", "Without a break: " + "x" * 3983 + " … (96,017 more characters)"),
    ],
    ids=["markup", "terminal", "right-to-left", "long"],
)
def test_what_models_wrote_stays_text(opened: Open, problem: str, told: str) -> None:
    report = opened(390)
    page = report.page
    page.locator("[data-find]").fill(problem)
    assert found(page)[0] == 1
    texts = page.locator(".browser .answer pre").all_inner_texts()
    assert len(texts) == 2 and all(text.startswith(told) for text in texts)
    assert overflow(page) <= 0
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0 and page.locator("script").count() == 2
    clean(report)


def test_hostile_text_is_as_harmless_in_the_static_examples(opened: Open) -> None:
    text = opened().page.locator("#examples").inner_text()
    assert f"Markup: {MARKUP}" in text and "⟨U+001B⟩[31mred" in text


def test_it_reads_without_script(opened: Open) -> None:
    report = opened(java_script_enabled=False)
    page = report.page
    assert page.locator(".browser").is_hidden() and page.locator("noscript p").is_visible()
    assert page.locator("#examples .answer").count() >= 9 and page.locator("#examples .answer").first.is_visible()
    curves = page.locator(".switched:has(.switch)").first
    curves.get_by_label("tokens", exact=True).check()
    assert AXES["tokens"] in words(curves)
    page.locator(".part > details > summary").first.click()
    assert page.locator(".part > details[open] table").first.is_visible()
    assert len(report.requests) == 1


def test_a_link_opens_what_is_folded_and_paper_shows_all(opened: Open) -> None:
    page = opened(file="report.html#provenance").page
    assert (
        page.locator("#provenance table").first.is_visible() and not page.locator("#shared-setting table").is_visible()
    )
    page.emulate_media(media="print")
    assert page.locator("#shared-setting table").is_visible()
    assert page.locator(".toc").is_hidden() and page.locator(".browser").is_hidden()


def test_what_can_be_used_has_a_name(opened: Open) -> None:
    page = opened().page
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, select, input, a, svg[role=img]")].filter(e => e.checkVisibility()
        && !(e.innerText || "").trim() && !e.getAttribute("aria-label") && !e.labels?.[0]?.innerText.trim()).length"""
    )
    assert nameless == 0
    assert page.locator("main").count() == page.locator("h1").count() == page.locator("nav").count() == 1
