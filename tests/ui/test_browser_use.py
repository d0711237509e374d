"""What people do in a real browser: grade and walk by keyboard, and look at every size."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import httpx
import pytest
from tests.ui.conftest import running
from tests.ui.test_browser import (
    Keep,
    assert_accessible,
    assert_nothing_is_cut,
    go,
)

from assay.labels.human_grades import GradedPool
from assay.labels.pool import PassagePair, write_pool

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def pools(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with the pool `tea`."""
    runs = tmp_path_factory.mktemp("judged") / "runs"
    text = "Green tea steeps for two to three minutes at eighty degrees. " * 12
    pairs = [
        PassagePair(f"q{i // 3}", f"How long does tea number {i // 3} steep?", f"d{i}", text, "Tea")
        for i in range(9)
    ]
    write_pool(runs / "pools" / "tea.csv", pairs)
    return runs


@pytest.fixture(scope="module")
def judging(folder: Path, pools: Path) -> Iterator[httpx.Client]:
    with running(folder, "--runs", str(pools)) as client:
        yield client


def press(page: "Page", *keys: str) -> None:
    """Once the page's script listens: its text can be seen before."""
    page.wait_for_load_state()
    for key in keys:
        page.keyboard.press(key)


def test_a_pool_is_graded_by_keyboard_from_two_browsers(
    page: "Page", browser: "Browser", judging: httpx.Client, pools: Path
) -> None:
    other, names = browser.new_page(), [f"{name} {uuid4().hex}" for name in ("Ann", "Bob")]
    for each, grader in zip((page, other), names, strict=True):
        go(each, judging, "/judge/tea")
        each.get_by_label("Your name").fill(grader)
        press(each, "Enter")
        expect(each.get_by_text("0 of 9 graded")).to_be_visible()
    for number, (ann, bob) in enumerate((("3", "1"), ("0", "0"), ("2", "2")), start=1):
        press(page, ann)
        press(other, bob)
        for each in (page, other):
            expect(each.get_by_text(f"{number} of 9 graded")).to_be_visible()
    press(page, "j")
    expect(page.get_by_text("d4, 5 of 9")).to_be_visible()
    press(page, "k")
    expect(page.get_by_text("d3, 4 of 9")).to_be_visible()
    press(page, "k")
    expect(page.get_by_text("d2, 3 of 9")).to_be_visible()
    expect(page.get_by_role("button", name="2 answers it in part")).to_have_attribute(
        "aria-pressed", "true"
    )
    press(page, "n")
    expect(page.get_by_text("d3, 4 of 9")).to_be_visible()
    press(page, "u")
    expect(page.get_by_text("d2, 3 of 9")).to_be_visible()
    expect(page.get_by_text("2 of 9 graded")).to_be_visible()
    other.close()
    grades = GradedPool(pools / "pools" / "tea.csv").grades()
    assert [list(grades[name].values()) for name in names] == [[3, 0], [1, 0, 2]]


WIDTHS = (390, 768, 1280, 1920)


def look(page: "Page", keep: Keep, name: str) -> None:
    """At every width."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        keep(page, f"{name}-{width}")
        assert_nothing_is_cut(page, width)


@pytest.mark.parametrize("path", ["/judge", "/judge/tea", "/judge/tea/grade?grader=Cleo"])
def test_the_judging_pages_fit_every_window(
    browser: "Browser", judging: httpx.Client, axe: str, keep: Keep, path: str
) -> None:
    page = browser.new_page()
    try:
        go(page, judging, path)
        name = re.sub(r"\W+", "-", path.partition("?")[0]).strip("-")
        look(page, keep, f"{name}-light")
        assert_accessible(page, axe)
        keep(page, f"{name}-dark")
    finally:
        page.close()


def test_a_field_says_what_is_wrong_as_it_is_typed(page: "Page", judging: httpx.Client) -> None:
    go(page, judging, "/evaluations/new")
    error = page.locator("[data-error=gates]")
    expect(error).to_be_hidden()
    page.locator("[name=gates]").fill("ndcg@10>=0.3")
    expect(error).to_contain_text("set “Top k” to 10")
    expect(page.locator("[name=gates]")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("[data-error=target]")).to_be_hidden()  # not touched yet
    page.locator("[name=top_k]").fill("10")
    expect(error).to_be_hidden()
    page.get_by_label("Target", exact=True).fill("nonsense")
    expect(page.locator("[data-error=target]")).to_contain_text("unknown target")


def test_the_form_fits_every_window_with_everything_open(
    browser: "Browser", judging: httpx.Client, axe: str, keep: Keep
) -> None:
    page = browser.new_page()
    try:
        go(page, judging, "/evaluations/new?answers=on")
        page.get_by_label("Target", exact=True).fill("builtin:bm25")
        page.get_by_role("button", name="Check the target first").click()
        expect(page.get_by_text("needs no check")).to_be_visible()
        page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true })"
        )
        look(page, keep, "evaluate-light")
        assert_accessible(page, axe)
        keep(page, "evaluate-dark")
    finally:
        page.close()
