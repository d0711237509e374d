"""The pages in a real browser: seen, used with the keyboard, checked with axe-core."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests import forked
from tests.ui.conftest import running, serving
from tests.ui.test_pages import names

from assay import compare_runs
from assay.report.html_comparison import ComparedSide, render_comparison_page
from assay.run.folder import RunFolder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

Keep = Callable[["Page", str], None]


def addresses(runs: Path) -> dict[str, str]:
    first, third = names(runs, "first")[0], names(runs, "third")[0]
    return {
        "runs": "/",
        "run": f"/runs/{third}",
        "queries": f"/runs/{third}/queries?order=worst",
        "query": f"/runs/{third}/queries/q20",
        "compare": f"/compare?run={first}&run={third}",
        "compare-choice": "/compare",
        "delete": f"/delete?run={third}",
        "leaderboard": "/leaderboard",
        "evaluate": "/evaluations/new",
        "search-closed": "/search?q=text",
        "check": "/check",
        "not-found": "/runs/nope",
    }


PAGES = (
    *("runs", "run", "queries", "query", "compare", "compare-choice"),
    *("delete", "leaderboard", "evaluate", "search-closed", "check", "not-found"),
)


def answer_addresses(runs: Path) -> dict[str, str]:
    bm25, liar = names(runs, "bm25")[0], names(runs, "liar")[0]
    row = next(row for row in RunFolder(runs / bm25).read_answers() if row.citations)
    return {
        "runs-answers": "/",
        "run-answers": f"/runs/{bm25}",
        "run-answers-invented": f"/runs/{liar}",
        "questions": f"/runs/{bm25}/questions",
        "question": f"/runs/{bm25}/questions/{row.query_id}",
        "compare-answers": f"/compare?run={bm25}&run={liar}",
    }


ANSWER_PAGES = (
    "runs-answers",
    "run-answers",
    "run-answers-invented",
    "questions",
    "question",
    "compare-answers",
)


def go(page: "Page", server: httpx.Client, path: str) -> None:
    page.goto(f"{str(server.base_url).rstrip('/')}{path}")


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


_SCROLLED = """[...document.querySelectorAll(".scroll")]
.filter((each) => !each.closest("details:not([open])") && each.scrollWidth > each.clientWidth + 1)
.map((each) => each.getAttribute("aria-label"))"""
_BROKEN_IDS = """[...document.querySelectorAll("td code, th code, .doc-id")]
.filter((each) => each.textContent.length < 8 && each.getClientRects().length > 2)
.map((each) => each.textContent)"""


def assert_nothing_is_cut(page: "Page", width: int) -> None:
    """Neither the page nor a table scrolls sideways, and no id is broken letter by letter."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(_SCROLLED) == []
    assert page.evaluate(_BROKEN_IDS) == []


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(
    browser: "Browser", server: httpx.Client, runs: Path, axe: str, keep: Keep, name: str
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    try:
        go(page, server, addresses(runs)[name])
        page.evaluate(
            "[...document.querySelectorAll('details')].slice(0, 3).map((d) => d.open = true)"
        )
        keep(page, f"{name}-light")
        assert_accessible(page, axe)
        keep(page, f"{name}-dark")
    finally:
        page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_every_page_without_scrolling_sideways(
    browser: "Browser", server: httpx.Client, runs: Path, keep: Keep, name: str
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    try:
        go(page, server, addresses(runs)[name])
        keep(page, f"{name}-phone")
        assert_nothing_is_cut(page, 390)
    finally:
        page.close()


@pytest.mark.parametrize("name", ["runs", "run", "queries", "query", "compare", "leaderboard"])
def test_nothing_that_a_run_holds_is_obeyed(
    page: "Page", server: httpx.Client, runs: Path, name: str
) -> None:
    go(page, server, addresses(runs)[name])
    page.wait_for_load_state("networkidle")
    assert page.title() != "owned"
    assert page.locator("main script, main img").count() == 0


@pytest.mark.parametrize("name", ANSWER_PAGES)
def test_axe_finds_nothing_serious_on_pages_with_answers(
    browser: "Browser",
    answer_server: httpx.Client,
    answer_runs: Path,
    axe: str,
    keep: Keep,
    name: str,
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    try:
        go(page, answer_server, answer_addresses(answer_runs)[name])
        for closed in page.locator(".kind details.query > summary").all()[:5]:
            closed.click()
        keep(page, f"{name}-light")
        assert_accessible(page, axe)
        keep(page, f"{name}-dark")
        assert page.title() != "owned"
    finally:
        page.close()


@pytest.mark.parametrize("name", ANSWER_PAGES)
def test_a_phone_shows_the_answers_without_scrolling_sideways(
    browser: "Browser", answer_server: httpx.Client, answer_runs: Path, keep: Keep, name: str
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    try:
        go(page, answer_server, answer_addresses(answer_runs)[name])
        keep(page, f"{name}-phone")
        assert_nothing_is_cut(page, 390)
    finally:
        page.close()


def test_a_citation_leads_to_its_document(
    page: "Page", answer_server: httpx.Client, answer_runs: Path
) -> None:
    go(page, answer_server, answer_addresses(answer_runs)["question"])
    link = page.locator(".said a").first
    target = link.get_attribute("href")
    assert target is not None
    link.click()
    document = page.locator("li:target")
    expect(document).to_be_in_viewport()
    expect(document).to_contain_text("cited")
    document.locator("summary").click()
    expect(document.locator("p")).to_be_visible()


def test_questions_are_filtered_by_diagnosis_at_once(
    page: "Page", answer_server: httpx.Client, answer_runs: Path
) -> None:
    go(page, answer_server, answer_addresses(answer_runs)["questions"])
    page.get_by_label("What went wrong").select_option("retrieval missed")
    expect(page.get_by_role("link", name="Show all")).to_be_visible()
    assert "diagnosis=retrieval+missed" in page.url
    kinds = page.locator("table.questions tbody td:nth-child(4)").all_inner_texts()
    assert set(kinds) == {"retrieval missed"}


@pytest.mark.parametrize("width", [700, 1280])
def test_on_paper_the_answers_are_open_and_nothing_is_cut_off(
    page: "Page", answer_runs: Path, keep: Keep, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 1000})
    page.goto((answer_runs / names(answer_runs, "liar")[0] / "report.html").as_uri())
    said = page.locator(".kind .said").first
    expect(said).to_be_hidden()
    page.emulate_media(media="print")
    keep(page, f"static-answers-print-{width}")
    expect(said).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title() != "owned"


def test_the_first_tab_leads_past_the_navigation(page: "Page", server: httpx.Client) -> None:
    go(page, server, "/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_a_query_opens_with_the_keyboard(page: "Page", server: httpx.Client, runs: Path) -> None:
    go(page, server, addresses(runs)["run"])
    query = page.locator("details.query").first
    query.locator("> summary").focus()
    page.keyboard.press("Enter")
    expect(query.get_by_text("Ideal")).to_be_visible()


def test_a_filter_works_at_once_and_is_in_the_address(page: "Page", server: httpx.Client) -> None:
    go(page, server, "/")
    target = page.locator("select[name=target]")
    value = next(v for v in target.locator("option").all_text_contents() if "second" in v)
    target.select_option(value)
    expect(page.get_by_text("1 to 2 of 2 runs")).to_be_visible()
    assert "second" in page.url
    page.reload()
    expect(page.get_by_text("1 to 2 of 2 runs")).to_be_visible()


def test_runs_are_chosen_and_compared(page: "Page", server: httpx.Client) -> None:
    go(page, server, "/")
    button = page.get_by_role("button", name=re.compile("compare", re.IGNORECASE))
    expect(button).to_be_disabled()
    boxes = page.get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(3).check()
    expect(button).to_have_text("Compare 2 runs")
    button.click()
    expect(page.get_by_role("heading", name="What got worse")).to_be_visible()


@pytest.mark.slow
def test_an_evaluation_is_started_watched_and_canceled(
    page: "Page", folder: Path, tmp_path: Path, keep: Keep
) -> None:
    (folder / "go").unlink(missing_ok=True)
    with running(folder, "--runs", str(tmp_path)) as server:
        go(page, server, "/evaluations/new")
        page.get_by_label("Target", exact=True).fill("python:target:first_then_waits")
        page.get_by_label("Data set").fill(str(folder / "tiny"))
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_text("5 of 30")).to_be_visible(timeout=30_000)
        keep(page, "evaluation-going-on")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("interrupted")).to_be_visible(timeout=30_000)
        assert re.search(r"/runs/\S+first-then-waits", page.url)


@pytest.mark.slow
def test_a_run_started_elsewhere_is_followed_to_its_report(
    page: "Page", folder: Path, tmp_path: Path, keep: Keep
) -> None:
    (folder / "go").unlink(missing_ok=True)
    with running(folder, "--runs", str(tmp_path)) as server, _terminal(folder, tmp_path):
        go(page, server, "/")
        for _ in range(200):  # until the run has its folder
            if page.get_by_text("Running now").count():
                break
            page.wait_for_timeout(100)
            page.reload()
        page.locator("section[aria-labelledby=now] a").click()
        expect(page.get_by_text("5 of 30")).to_be_visible(timeout=30_000)
        keep(page, "running")
        (folder / "go").touch()
        expect(page.get_by_role("heading", name="All metrics")).to_be_visible(timeout=30_000)


def _terminal(folder: Path, out: Path) -> Any:
    arguments = ("eval", "python:target:first_then_waits", "--dataset", "tiny", "--out", str(out))
    return forked.started(forked.ASSAY, *arguments, cwd=folder)


@pytest.mark.slow
def test_the_search_shows_which_signal_found_what(
    page: "Page", server: httpx.Client, keep: Keep, axe: str
) -> None:
    pytest.importorskip("qdrant_edge")
    go(page, server, "/search?q=text+7")
    page.get_by_role("button", name="Open the index").click()
    expect(page.get_by_role("heading", name="10 documents")).to_be_visible(timeout=60_000)
    headings = page.locator("table.hits thead th").all_inner_texts()
    assert {"bm25", "dense"} <= set(headings)
    page.locator("table.hits summary").first.click()
    expect(page.locator("dl.why").first).to_contain_text(re.compile(r"bm25 0\.\d+ \(\d+"))
    expect(page.locator("dl.why").first).to_contain_text("Feedback")
    keep(page, "search")
    assert serious(page, axe) == []
    assert page.title() != "owned"


def test_an_a2a_agent_is_checked_and_offered_for_evaluation(
    page: "Page", server: httpx.Client, folder: Path, keep: Keep, axe: str
) -> None:
    purple = ("purple", "--mode", "bm25", "--dataset", "tiny")
    with serving(folder, *purple, "--port", "0") as url:
        go(page, server, "/check")
        page.get_by_label("Agent").fill(url)
        page.get_by_label("Sample query").fill("text 7")
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_text("ready to be evaluated")).to_be_visible(timeout=60_000)
        expect(page.get_by_text(re.compile(r"5 ids: d\d")).first).to_be_visible()
        keep(page, "check-a2a")
        assert serious(page, axe) == []
        page.get_by_role("link", name="Evaluate it").click()
        expect(page.get_by_label("Target", exact=True)).to_have_value(f"a2a:{url}")


def test_an_agent_that_breaks_the_contract_is_told_by_rule(
    page: "Page", server: httpx.Client, folder: Path, keep: Keep, axe: str
) -> None:
    """A purple agent speaks A2A: the contract's endpoints are missing, and that is all it says."""
    purple = ("purple", "--mode", "bm25", "--dataset", "tiny")
    with serving(folder, *purple, "--port", "0") as url:
        go(page, server, "/check")
        page.get_by_label("Agent").fill(f"{url}=RAG_RETRIEVE")
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_text("violates the contract")).to_be_visible(timeout=60_000)
        first = page.get_by_role("row").nth(1)
        expect(first).to_contain_text("must")
        expect(first).to_contain_text("there is no agent at this path")
        keep(page, "check-contract")
        assert serious(page, axe) == []


def test_the_static_report_needs_nothing_but_its_file(
    page: "Page", runs: Path, keep: Keep, axe: str
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    file = (runs / names(runs, "third")[0] / "report.html").as_uri()
    page.goto(file)
    page.locator("details.query > summary").first.click()
    keep(page, "static-report")
    assert asked == [file]
    assert serious(page, axe) == []
    assert page.title() != "owned"


def test_the_static_comparison_needs_nothing_but_its_file(
    page: "Page", runs: Path, tmp_path: Path, keep: Keep, axe: str
) -> None:
    folders = [RunFolder(runs / names(runs, part)[0]) for part in ("first", "second", "third")]
    comparisons = [compare_runs(folders[0].path, folder.path) for folder in folders[1:]]
    sides = [ComparedSide.read(folder) for folder in folders]
    file = tmp_path / "comparison.html"
    file.write_text(render_comparison_page(sides, comparisons))
    page.goto(file.as_uri())
    keep(page, "static-comparison")
    assert serious(page, axe) == []


def test_on_paper_the_queries_are_open(page: "Page", runs: Path, keep: Keep) -> None:
    page.goto((runs / names(runs, "third")[0] / "report.html").as_uri())
    ideal = page.locator("details.query h3.part", has_text="Ideal").first
    expect(ideal).to_be_hidden()
    page.emulate_media(media="print")
    keep(page, "static-report-print")
    expect(ideal).to_be_visible()
