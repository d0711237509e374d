"""The pages in a real browser: eight tasks with their clicks, keys, phones, and axe-core."""

import re
import shutil
from collections.abc import Callable
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


@pytest.fixture(scope="module")
def named(runs: Path, answer_runs: Path) -> dict[str, str]:
    found = {part: names(runs, part)[0] for part in ("first", "third")}
    parts = ("bm25", "liar", "hasty", "careful", "mute")
    return found | {part: names(answer_runs, part)[0] for part in parts}


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
    named: dict[str, str],
    axe: str,
    keep: Keep,
    name: str,
    size: str,
) -> None:
    """And nothing scrolls sideways, and no number is broken."""
    which, path = PAGES[name]
    with browser.new_page(viewport={"width": SIZES[size], "height": 900}) as page:
        page.goto(f"{servers[which]}{path.format(**named)}")
        keep(page, f"{name}-{size}-light")
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]
        assert page.evaluate(_BROKEN) == []
        assert_accessible(page, axe)
        keep(page, f"{name}-{size}-dark")


@pytest.mark.parametrize("size", SIZES)
def test_the_files_are_accessible_too(
    browser: "Browser",
    runs: Path,
    answer_runs: Path,
    named: dict[str, str],
    tmp_path: Path,
    axe: str,
    size: str,
) -> None:
    first, third = (RunFolder(runs / named[name]) for name in ("first", "third"))
    sides = [ComparedRun.read(folder, keep_rows=True) for folder in (first, third)]
    file = tmp_path / "comparison.html"
    file.write_text(render_compare_file(compare_page(sides, [compare_runs(first, third)])))
    answers = answer_runs / named["liar"] / "report.html"
    with browser.new_page(viewport={"width": SIZES[size], "height": 900}) as page:
        for path in (file, third.page_file, answers):
            page.goto(path.as_uri())
            page.emulate_media(color_scheme="light")
            assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]
            assert_accessible(page, axe)


# --- eight tasks, by clicks and keys -----------------------------------------------------------

BOX = 'input[name="run"][value="{{{}}}"]'
COMPARE = 'button[value="compare"]'
# Of which server, what is clicked, and what is to be seen then.
TASKS = {
    "worse queries and why": (
        "runs",
        [BOX.format("third"), BOX.format("first"), COMPARE],
        [("h1", "third got worse than"), ("#panel .lost", "Lost: Title")],
    ),
    "the documents missed most over runs": (
        "runs",
        ["[data-all]", COMPARE, 'a:text-is("Documents")'],
        [("tbody tr", "Title "), ("tbody tr", " of ")],
    ),
    "a wrong answer": (
        "answers",
        [
            'a[href="/runs/{liar}"]',
            '.tabs a:has-text("Answers")',
            "tr[data-row]:nth-child(2) a[data-panel]",
        ],
        [("#panel", words) for words in ("wrong", "Answer", "Reference", "Retrieved")],
    ),
    "slow queries": (
        "runs",
        ['a[href="/runs/{first}"]', ".figures a:has-text('p95')"],
        [('th[aria-sort="descending"]', "latency")],
    ),
    "a trend with its gate": ("history", ['a:text-is("Trend")'], [("svg.trend", "gate 0.55")]),
}


@pytest.mark.parametrize(("server_name", "clicks", "seen"), TASKS.values(), ids=TASKS)
def test_a_task_takes_three_clicks_at_most(
    page: "Page",
    servers: dict[str, str],
    named: dict[str, str],
    server_name: str,
    clicks: list[str],
    seen: list[tuple[str, str]],
) -> None:
    page.goto(servers[server_name])
    for selector in clicks:
        page.locator(selector.format(**named)).first.click()
    for selector, words in seen:
        expect(page.locator(selector).first).to_contain_text(words)


class RestService(JsonServer):
    def answer(self, request: JsonRequest) -> Answer | None:
        return 200, {}, {"results": [{"id": "d1"}]}


def test_two_clicks_evaluate_a_rest_service(page: "Page", folder: Path, tmp_path: Path) -> None:
    with (
        RestService().running() as service,
        running(folder, "--runs", str(tmp_path / "runs")) as client,
    ):
        page.goto(str(client.base_url))
        page.click('a:text-is("Evaluate")')
        expect(page.locator('input[name="target"]')).to_be_focused()
        page.keyboard.type(f"rest:{service.url}/search?q={{query}}")
        page.locator('input[name="dataset"]').fill(str(folder / "tiny"))
        page.click('button:text-is("Start")')
        expect(page.locator("h1")).to_be_visible()
        page.wait_for_url("**/runs/**", timeout=60_000)
        expect(page.locator("body")).to_contain_text("Download as one file")
        expect(page.locator("body")).to_contain_text("nDCG@5")


def test_ten_documents_are_graded_with_two_clicks_and_ten_keys(
    page: "Page", servers: dict[str, str], named: dict[str, str], answer_runs: Path, axe: str
) -> None:
    shutil.rmtree(answer_runs / "pools", ignore_errors=True)
    page.goto(servers["answers"])
    page.locator(BOX.format("bm25").format(**named)).click()
    page.click('button[value="grade"]')
    for number in range(10):
        expect(page.locator(".grading")).to_contain_text(re.compile(rf"\b{number} of \d+ gr"))
        page.wait_for_load_state()  # the script is there
        page.keyboard.press(str(number % 4))
    expect(page.locator(".grading")).to_contain_text(re.compile(r"\b10 of \d+ graded"))
    assert_accessible(page, axe)
    page.click(".grading a")
    expect(page.locator("h2").first).to_have_text("Graders")
    assert_accessible(page, axe)
    shutil.rmtree(answer_runs / "pools")


# --- keys, selection, without a script ---------------------------------------------------------


def test_keys_walk_through_lists(page: "Page", servers: dict[str, str], runs: Path) -> None:
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


def test_reading_works_without_javascript(
    browser: "Browser", servers: dict[str, str], named: dict[str, str]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(servers["runs"])
    for name in ("first", "third"):
        plain.locator(BOX.format(name).format(**named)).check()
    plain.locator(COMPARE).click()
    expect(plain.locator("h1")).to_contain_text("got worse than")
    plain.locator("tr[data-row]:nth-child(3) a[data-panel]").click()
    expect(plain.locator("tr.on")).to_have_count(1)
    expect(plain.locator("#panel")).to_contain_text("query")
    context.close()
