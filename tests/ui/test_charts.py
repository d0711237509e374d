"""Charts in a real browser: at every width, by keyboard, without JavaScript, as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import httpx
import pytest
from tests.ui.test_browser import Keep, assert_nothing_is_cut, go, serious
from tests.ui.test_trends import TREND

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

PAGES = {
    "trend": f"/trends?{urlencode(TREND)}",
    "trend-by-run": f"/trends?{urlencode({**TREND, 'x': 'run'})}",
    "trends": "/trends",
    "leaderboard-columns": "/leaderboard?metric=correctness&column=interval&column=cost_usd",
}

OVERLAPPING = """() => {
  const found = [];
  for (const plot of document.querySelectorAll("svg.plot")) {
    const boxes = [...plot.querySelectorAll("text")]
      .map((text) => [text.textContent, text.getBoundingClientRect()])
      .filter(([, box]) => box.width);
    boxes.forEach(([words, a], place) => {
      if (a.left < 0 || a.right > innerWidth) found.push(`cut off: ${words}`);
      for (const [others, b] of boxes.slice(place + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) found.push(`${words} and ${others}`);
      }
    });
  }
  return found;
}"""


def open_details(page: "Page") -> None:
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *((name, "light") for name in PAGES),
        *((name, "dark") for name in ("trend", "leaderboard-columns")),
    ],
)
def test_charts_fit_every_width_and_axe_finds_nothing(
    browser: "Browser", history_server: httpx.Client, axe: str, keep: Keep, name: str, scheme: Any
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    try:
        go(page, history_server, PAGES[name])
        open_details(page)
        assert serious(page, axe) == []
        for width in (1920, 1280, 768, 390):
            page.set_viewport_size({"width": width, "height": 900})
            keep(page, f"{name}-{width}-{scheme}")
            assert_nothing_is_cut(page, width)
            assert page.evaluate(OVERLAPPING) == []
    finally:
        page.close()


def test_a_phone_shows_differences_as_cards_without_that_of_a_target_and_itself(
    page: "Page", history_server: httpx.Client
) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    go(page, history_server, "/leaderboard")
    open_details(page)
    table = page.locator("table.significance").first
    rows = table.locator("tbody tr").count()
    assert rows > 1
    assert table.locator("tbody td:visible").count() == rows * (rows - 1)


def test_points_are_walked_by_arrow_keys_and_lead_to_their_runs(
    page: "Page", history_server: httpx.Client
) -> None:
    go(page, history_server, PAGES["trend"])
    points = page.locator("svg.trend.wide .point")
    points.first.focus()
    page.keyboard.press("ArrowRight")
    expect(points.nth(1)).to_be_focused()
    expect(page.locator(".tip")).to_contain_text("main 1818e81")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    expect(points.first).to_be_focused()
    page.keyboard.press("Tab")  # the chart is one stop
    expect(page.locator("svg.trend.wide .point:focus")).to_have_count(0)
    points.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="All metrics")).to_be_visible()


def test_a_tooltip_comes_with_the_pointer(page: "Page", history_server: httpx.Client) -> None:
    go(page, history_server, PAGES["trend"])
    page.locator("svg.trend.wide .point").first.hover()
    expect(page.locator(".tip")).to_contain_text("2026-09-28 07:30 UTC, main a6a3a45, bm25")


def test_a_chart_is_saved_as_svg_and_png_that_need_no_style_sheet(
    page: "Page", history_server: httpx.Client, tmp_path: Path
) -> None:
    go(page, history_server, PAGES["trend"])
    chart = page.locator(".chart").first
    for kind in ("SVG", "PNG"):
        with page.expect_download() as saved:
            chart.get_by_role("button", name=f"Save as {kind}").click()
        assert saved.value.suggested_filename == f"trend-ndcg@5.{kind.lower()}"
        saved.value.save_as(tmp_path / kind)
    drawn = ElementTree.parse(tmp_path / "SVG").getroot()
    joined = [each for each in drawn.iter() if "joined" in (each.get("class") or "")]
    assert joined
    assert joined[0].get("stroke", "").startswith("rgb")
    assert (tmp_path / "PNG").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "PNG").stat().st_size > 20_000


def test_without_javascript_a_point_says_what_it_is_while_it_has_the_focus(
    browser: "Browser", history_server: httpx.Client
) -> None:
    size: Any = {"width": 1280, "height": 900}
    context = browser.new_context(java_script_enabled=False, viewport=size)
    try:
        page = context.new_page()
        go(page, history_server, PAGES["trend"])
        assert page.get_by_role("button", name="Save as SVG").count() == 0
        first = page.locator("svg.trend.wide .point").first
        page.locator("form button", has_text="Show").focus()
        page.keyboard.press("Tab")
        expect(first.locator(".say")).to_be_visible()
        expect(first.locator(".say")).to_contain_text("nDCG@5 0.4932")
        page.locator(".chart-data > summary").first.click()
        expect(page.locator(".chart-data td").first).to_be_visible()
    finally:
        context.close()


def test_the_one_file_trend_needs_nothing_but_its_file(
    page: "Page", history_server: httpx.Client, tmp_path: Path, keep: Keep, axe: str
) -> None:
    file = tmp_path / "trend.html"
    file.write_text(history_server.get(PAGES["trend"].replace("/trends", "/trends.html", 1)).text)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    keep(page, "static-trend")
    assert asked == [file.as_uri()]
    assert serious(page, axe) == []
    page.emulate_media(media="print")
    keep(page, "static-trend-print")
    expect(page.locator(".chart-data").first).to_be_hidden()
