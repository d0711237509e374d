"""The pages in a real browser: eight tasks with their clicks, keys, phones, and axe-core."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.ui.conftest import running
from tests.ui.test_pages import names

from assay import compare_runs
from assay.report.html_comparison import compare_page, render_compare_file
from assay.run.comparison import ComparedRun
from assay.run.folder import RunFolder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

Keep = Callable[["Page", str], None]
SIZES = {"phone": 390, "desk": 1440}


# Of which server, and its address; the names of runs stand for the first of that name.
PAGES = {
    "runs": ("runs", "/"),
    "board": ("runs", "/?view=board"),
    "groups": ("runs", "/?view=groups"),
    "run": ("runs", "/runs/{third}"),
    "run-queries": ("runs", "/runs/{third}?tab=queries&query=q29"),
    "run-failures": ("runs", "/runs/{third}?tab=failures"),
    "run-settings": ("runs", "/runs/{third}?tab=settings"),
    "run-of-answers": ("answers", "/runs/{liar}"),
    "run-answers": ("answers", "/runs/{liar}?tab=answers"),
    "run-searches": ("answers", "/runs/{careful}?tab=searches"),
    "compare": ("runs", "/compare?run={first}&run={third}"),
    "compare-documents": ("runs", "/compare?run={first}&run={third}&tab=documents"),
    "compare-metrics": ("runs", "/compare?run={first}&run={third}&tab=metrics"),
    "compare-settings": ("runs", "/compare?run={first}&run={third}&tab=settings"),
    "compare-answers": ("answers", "/compare?run={bm25}&run={liar}"),
    "compare-searches": ("answers", "/compare?run={hasty}&run={careful}&tab=metrics"),
    "trends": ("history", "/trends"),
    "evaluate": ("runs", "/evaluate"),
    "grade": ("runs", "/grade"),
    "not-found": ("runs", "/runs/nope"),
    "run-unanswered": ("answers", "/runs/{mute}"),
    "login": ("runs", "/login"),
}


@pytest.fixture(scope="module")
def servers(
    server: httpx.Client, answer_server: httpx.Client, history_server: httpx.Client
) -> dict[str, str]:
    named = {"runs": server, "answers": answer_server, "history": history_server}
    return {name: str(client.base_url).rstrip("/") for name, client in named.items()}


def serious(page: "Page", axe: str, *rules: str) -> list[str]:
    """What axe-core finds, with where it is, by all rules or by some."""
    page.evaluate(axe)
    options = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found: dict[str, Any] = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def assert_accessible(page: "Page", axe: str) -> None:
    """By all rules in light colors, and in dark ones by the rules that look at colors."""
    assert serious(page, axe) == []
    page.emulate_media(color_scheme="dark")
    assert serious(page, axe, "color-contrast", "link-in-text-block") == []


_BROKEN = """[...document.querySelectorAll(".n, code, .score")]
.filter((each) => each.textContent.trim().length < 14 && each.offsetParent
    && getComputedStyle(each).display !== "block" && each.getClientRects().length > 1)
.map((each) => each.textContent)"""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_accessible_in_both_themes_and_widths(
    browser: "Browser",
    servers: dict[str, str],
    runs: Path,
    answer_runs: Path,
    axe: str,
    keep: Keep,
    name: str,
    size: str,
) -> None:
    """And nothing scrolls sideways, and no number is broken."""
    named = {part: names(runs, part)[0] for part in ("first", "third")}
    named |= {
        part: names(answer_runs, part)[0] for part in ("bm25", "liar", "hasty", "careful", "mute")
    }
    which, path = PAGES[name]
    page = browser.new_page(viewport={"width": SIZES[size], "height": 900})
    try:
        page.goto(f"{servers[which]}{path.format(**named)}")
        keep(page, f"{name}-{size}-light")
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]
        assert page.evaluate(_BROKEN) == []
        assert_accessible(page, axe)
        keep(page, f"{name}-{size}-dark")
    finally:
        page.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_files_are_accessible_too(
    browser: "Browser", runs: Path, answer_runs: Path, tmp_path: Path, axe: str, size: str
) -> None:
    first, third = (RunFolder(runs / names(runs, name)[0]) for name in ("first", "third"))
    sides = [ComparedRun.read(folder, keep_rows=True) for folder in (first, third)]
    file = tmp_path / "comparison.html"
    file.write_text(render_compare_file(compare_page(sides, [compare_runs(first, third)])))
    answers = answer_runs / names(answer_runs, "liar")[0] / "report.html"
    page = browser.new_page(viewport={"width": SIZES[size], "height": 900})
    for path in (file, third.page_file, answers):
        page.goto(path.as_uri())
        page.emulate_media(color_scheme="light")
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]
        assert_accessible(page, axe)
    page.close()


def test_paper_has_charts_and_no_navigation(
    page: "Page", servers: dict[str, str], runs: Path
) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(f"{servers['runs']}/runs/{names(runs, 'first')[0]}")
    expect(page.locator(".histogram rect").last).to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    for hidden in (".nav", ".tabs", ".actions"):
        expect(page.locator(hidden)).to_be_hidden()


# --- eight tasks -------------------------------------------------------------------------------


class Clicks:
    """Counts clicks and keys: what a task may cost."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.clicks = self.keys = 0

    def click(self, selector: str) -> None:
        self.clicks += 1
        self.page.locator(selector).first.click()

    def press(self, key: str) -> None:
        self.keys += 1
        self.page.wait_for_load_state()  # the script is there
        self.page.keyboard.press(key)


@pytest.fixture
def user(page: "Page") -> Clicks:
    return Clicks(page)


def box(run: str) -> str:
    return f'input[name="run"][value="{run}"]'


def test_worse_queries_and_why_take_three_clicks(
    user: Clicks, servers: dict[str, str], runs: Path
) -> None:
    user.page.goto(servers["runs"])
    for name in ("third", "first"):
        user.click(box(names(runs, name)[0]))
    user.click('button[value="compare"]')
    expect(user.page.locator("h1")).to_contain_text("third got worse than")
    expect(user.page.locator("#panel .lost").first).to_contain_text("Lost: Title")
    assert user.clicks == 3


def test_the_documents_missed_most_over_runs_take_three_clicks(
    user: Clicks, servers: dict[str, str]
) -> None:
    user.page.goto(servers["runs"])
    user.click("[data-all]")
    user.click('button[value="compare"]')
    user.click('a:text-is("Documents")')
    row = user.page.locator("tbody tr").first
    expect(row).to_contain_text(re.compile(r"Title \d+"))
    expect(row).to_contain_text(re.compile(r"\d+ of \d+"))
    assert user.clicks == 3


def test_a_run_is_shared_as_one_file_by_one_click(
    user: Clicks, servers: dict[str, str], runs: Path, tmp_path: Path
) -> None:
    user.page.goto(f"{servers['runs']}/runs/{names(runs, 'third')[0]}")
    with user.page.expect_download() as download:
        user.click("text=Download as one file")
    download.value.save_as(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert user.clicks == 1


class RestService(JsonServer):
    def answer(self, request: JsonRequest) -> Answer | None:
        return 200, {}, {"results": [{"id": "d1"}]}


def test_a_rest_service_is_evaluated_by_two_clicks(
    user: Clicks, folder: Path, tmp_path: Path
) -> None:
    with (
        RestService().running() as service,
        running(folder, "--runs", str(tmp_path / "runs")) as client,
    ):
        user.page.goto(str(client.base_url))
        user.click('a:text-is("Evaluate")')
        expect(user.page.locator('input[name="target"]')).to_be_focused()
        user.page.keyboard.type(f"rest:{service.url}/search?q={{query}}")
        user.page.locator('input[name="dataset"]').fill(str(folder / "tiny"))
        user.click('button:text-is("Start")')
        expect(user.page.locator("h1")).to_be_visible()
        user.page.wait_for_url("**/runs/**", timeout=60_000)
        expect(user.page.locator("body")).to_contain_text("Download as one file")
        expect(user.page.locator("body")).to_contain_text("nDCG@5")
    assert user.clicks == 2


def test_ten_documents_are_graded_with_two_clicks_and_ten_keys(
    user: Clicks, servers: dict[str, str], answer_runs: Path, axe: str
) -> None:
    shutil.rmtree(answer_runs / "pools", ignore_errors=True)
    user.page.goto(servers["answers"])
    user.click(box(names(answer_runs, "bm25")[0]))
    user.click('button[value="grade"]')
    for number in range(10):
        expect(user.page.locator(".grading")).to_contain_text(re.compile(rf"\b{number} of \d+ gr"))
        user.press(str(number % 4))
    expect(user.page.locator(".grading")).to_contain_text(re.compile(r"\b10 of \d+ graded"))
    assert (user.clicks, user.keys) == (2, 10)
    assert_accessible(user.page, axe)
    user.click(".grading a")
    expect(user.page.locator("h2").first).to_have_text("Graders")
    assert_accessible(user.page, axe)
    shutil.rmtree(answer_runs / "pools")


def test_a_trend_with_its_gate_takes_one_click(user: Clicks, servers: dict[str, str]) -> None:
    user.page.set_viewport_size({"width": 1440, "height": 900})
    user.page.goto(servers["history"])
    last = user.page.locator("tr[data-row]").nth(25).bounding_box()
    assert last
    assert last["y"] + last["height"] <= 900  # 26 runs in the first screen
    user.click('a:text-is("Trend")')
    expect(user.page.locator("svg.trend")).to_contain_text("gate 0.55")
    assert user.page.locator("svg.trend a.point").count() == 30
    assert user.page.locator("svg.trend .run-label").count() <= 6
    assert user.clicks == 1


def test_a_wrong_answer_takes_three_clicks(
    user: Clicks, servers: dict[str, str], answer_runs: Path
) -> None:
    run = names(answer_runs, "liar")[0]
    user.page.goto(servers["answers"])
    user.click(f'a[href="/runs/{run}"]')
    user.click('.tabs a:has-text("Answers")')
    user.click("tr[data-row]:nth-child(2) a[data-panel]")
    panel = user.page.locator("#panel")
    for words in ("wrong", "Answer", "Reference", "Retrieved"):
        expect(panel).to_contain_text(words)
    assert user.clicks == 3


def test_slow_queries_take_two_clicks(user: Clicks, servers: dict[str, str], runs: Path) -> None:
    run = names(runs, "first")[0]
    user.page.goto(servers["runs"])
    user.click(f'a[href="/runs/{run}"]')
    user.click(".figures a:has-text('p95')")
    expect(user.page.locator('th[aria-sort="descending"]')).to_contain_text("latency")
    assert user.clicks == 2


# --- keys, selection, without a script ---------------------------------------------------------


def test_keys_walk_through_lists(user: Clicks, servers: dict[str, str], runs: Path) -> None:
    page = user.page
    page.goto(servers["runs"])
    for key in ("j", "j", "x", "k", "x"):
        page.keyboard.press(key)
    expect(page.locator("[data-count]")).to_contain_text("2 chosen")
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    with page.expect_download():
        page.keyboard.press("e")
    page.keyboard.press("c")
    page.wait_for_url("**/compare?**")
    first = page.locator("#panel h2").inner_text()
    page.keyboard.press("j")
    expect(page.locator("#panel h2")).not_to_have_text(first)
    expect(page.locator("tr.on")).to_have_count(1)
    assert "query=" in page.url
    page.keyboard.press("k")
    expect(page.locator("#panel h2")).to_have_text(first)
    page.locator('summary:has-text("Add a run")').click()
    page.locator('details[open] a[href*="run="]').first.click()
    page.wait_for_load_state()
    assert page.url.count("run=") == 3
    page.goto(servers["runs"])
    page.keyboard.press("g")
    expect(page.locator(".grading")).to_contain_text("graded")
    shutil.rmtree(runs / "pools")


def test_a_selection_survives_filters_and_views(
    user: Clicks, servers: dict[str, str], runs: Path
) -> None:
    page = user.page
    third, first = names(runs, "third")[0], names(runs, "first")[0]
    page.goto(servers["runs"])
    user.click(box(third))
    page.goto(f"{servers['runs']}/?q=target:first")
    expect(page.locator("[data-count]")).to_contain_text("1 chosen")
    user.click(box(first))
    user.click('button[value="compare"]')
    expect(page.locator("h1")).to_contain_text("third got worse than")


def test_a_part_of_a_trend_is_chosen_by_dragging(page: "Page", servers: dict[str, str]) -> None:
    page.goto(f"{servers['history']}/trends")
    area = page.locator("svg.trend").bounding_box()
    assert area
    middle = area["y"] + area["height"] * 0.9
    page.mouse.move(area["x"] + area["width"] * 0.5, middle)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.9, middle, steps=4)
    page.mouse.up()
    page.wait_for_url("**since=2026-**")
    assert page.locator("svg.trend a.point").count() < 30


@pytest.fixture
def plain(browser: "Browser") -> Iterator["Page"]:
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()


def test_reading_works_without_javascript(
    plain: "Page", servers: dict[str, str], runs: Path
) -> None:
    plain.goto(servers["runs"])
    for name in ("first", "third"):
        plain.locator(box(names(runs, name)[0])).check()
    plain.locator('button[value="compare"]').click()
    expect(plain.locator("h1")).to_contain_text("got worse than")
    plain.locator("tr[data-row]:nth-child(3) a[data-panel]").click()
    expect(plain.locator("tr.on")).to_have_count(1)
    expect(plain.locator("#panel")).to_contain_text("query")
