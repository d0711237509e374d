"""Charts and files of trends: marks where the values are, nothing on top of another."""

import io
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from tests.run.test_trend import point

from assay.report.svg import apart, date_ticks, place_labels, shortened, without_overlap
from assay.report.table_files import write_rows
from assay.report.trend_plots import WIDTHS, figure_title, trend_chart
from assay.report.trends import (
    figures_of_trend,
    render_trend_page,
    trend_document,
    trend_rows,
    trend_view,
)
from assay.run.trend import COST, LATENCY, TrendPoint, TrendValue, build_trend

DAY = 86400.0


def points(number: int = 6) -> list[TrendPoint]:
    """Two branches, gates, labels, a version of the data in between, latency and cost."""
    made = []
    for n in range(number):
        line = {
            "branch": "main" if n % 2 else "other",
            "label": f"label {n} <b>" if n % 3 == 0 else None,
            "git_commit": f"{n:07x}" * 5,
            "fingerprint": "f" if n < number - 2 else "g",
            "gates_failed": int(n == 2),
        }
        values = {
            "ndcg@5": TrendValue(0.4 + n / 100, 0.3, 0.6),
            LATENCY: TrendValue(100.0 + n),
            COST: TrendValue(0.01 * n),
        }
        made.append(point(n, line, values=values, bounds={"ndcg@5": 0.35 if n < 4 else 0.45}))
    return made


def svg(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart)


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if name in (each.get("class") or "").split()]


def drawn(number: int = 6, **settings: object) -> ElementTree.Element:
    trend = build_trend(points(number), "ndcg@5")
    options = {"by_run": False, "link": None, **settings}
    return svg(trend_chart(trend, WIDTHS["wide"], "wide", **options))  # type: ignore[arg-type]


def test_every_run_is_a_point_with_words_that_can_have_the_focus() -> None:
    found = of_class(drawn(), "point")
    assert len(found) == 6
    assert all(each.get("tabindex") == "0" and each.get("role") == "img" for each in found)
    titles = [each.findtext("title") or "" for each in found]
    assert any(re.search(r"nDCG@5 0\.4200 .*other 0000002, gate failed", each) for each in titles)


def test_a_point_leads_to_its_run_where_there_is_a_server() -> None:
    found = of_class(drawn(link=lambda line: f"/runs/{line.name}"), "point")
    assert sorted(each.get("href") or "" for each in found) == [f"/runs/{n}" for n in range(6)]


def test_only_comparable_runs_are_joined_and_older_data_is_hollow() -> None:
    root = drawn()
    assert len(of_class(root, "joined")) == 2  # the two runs on new data are one on each branch
    assert len(of_class(root, "hollow")) == 4
    assert len(of_class(root, "bar-interval")) == 6
    assert len(of_class(root, "failed")) == 1


def test_gates_are_lines_at_their_bounds() -> None:
    root = drawn()
    words = [each.text for each in of_class(root, "gate-words")]
    assert words == ["gate 0.35", "gate 0.45"]
    low, high = (float(each.get("y1", "")) for each in of_class(root, "gate"))
    assert low > high  # the y of SVG points down


def test_a_thousand_runs_are_one_line_and_few_points() -> None:
    root = drawn(1000)
    assert len(of_class(root, "point")) <= 160
    lines = of_class(root, "joined")
    assert sum(len((each.get("points") or "").split()) for each in lines) == 998
    assert of_class(root, "point")[0].get("tabindex") is None  # a script makes one stop of them
    assert len(of_class(root, "spread")) == 2


@pytest.mark.parametrize("by_run", [False, True])
@pytest.mark.parametrize("number", [1, 2, 40])
def test_any_number_of_runs_can_be_drawn(number: int, by_run: bool) -> None:
    root = drawn(number, by_run=by_run)
    assert "nan" not in ElementTree.tostring(root, "unicode")
    assert len(of_class(root, "point")) == number


def test_the_view_has_quality_latency_and_cost() -> None:
    view = trend_view(points(), "ndcg@5")
    assert [title for title, _ in view.beside] == ["Median latency", "Cost of the run"]
    assert view.compared == 2
    assert [state.branch for state in view.branches] == ["main", "other"]
    assert [number for number, _, _ in view.changes] == [1]


def test_a_branch_is_compared_with_its_own_comparable_run_before() -> None:
    made = [point(n, values={"ndcg@5": TrendValue(0.1 * n)}) for n in range(4)]
    made[2] = replace(made[2], line=replace(made[2].line, fingerprint="other"))
    (state,) = trend_view(made, "ndcg@5").branches
    assert state.before is made[1]
    assert state.difference == pytest.approx(0.2)


def test_the_page_is_one_file_without_script_or_link_to_a_server() -> None:
    page = render_trend_page(points(), "ndcg@5")
    assert page.startswith("<!doctype html>")
    assert "script" not in page.split("</style>")[1]
    assert "href=" not in page.split("</style>")[1]
    assert "label 3 &lt;b&gt;" in page
    assert "label 3 <b>" not in page
    assert "Data of this chart" in page


def test_the_rows_of_a_file_have_every_figure_and_say_what_compares() -> None:
    rows = trend_rows(points(), "ndcg@5")
    assert [row["comparable"] for row in rows] == [1, 1, 1, 1, 2, 2]
    assert rows[2]["gates_failed"] == 1
    stream = io.BytesIO()
    write_rows(rows, "csv", stream)
    head, *lines = stream.getvalue().decode().splitlines()
    assert len(lines) == 6
    assert {"started", "commit", "ndcg@5", "ndcg@5_low", LATENCY, COST} <= set(head.split(","))
    document = trend_document(points(), "ndcg@5")
    assert document["changes"] == [{"run": "4", "what": "the data changed", "breaks": True}]
    assert figures_of_trend(points()) == ["ndcg@5"]


def test_titles_of_figures_are_for_people() -> None:
    assert [figure_title(each) for each in (LATENCY, "ndcg@5", "fact_recall")] == [
        "Median latency",
        "nDCG@5",
        "Fact recall",
    ]


@pytest.mark.parametrize("days", [0.0003, 0.001, 0.02, 0.2, 1, 3, 10, 30, 90, 400, 4000])
def test_dates_on_an_axis_are_round_and_few(days: float) -> None:
    start = 1_790_000_000.0
    ticks = date_ticks(start, start + days * DAY, 8)
    assert 1 <= len(ticks) <= 9
    moments = [moment for moment, _ in ticks]
    assert moments == sorted(moments)
    assert start <= moments[0] <= moments[-1] <= start + days * DAY
    assert len({words for _, words in ticks}) == len(ticks)


def test_labels_leave_marks_and_each_other_in_sight() -> None:
    marks = [(50.0, 50.0), (60.0, 52.0)]
    placed = place_labels([(50, 50, "first"), (60, 52, "second")], marks, (0, 200), 0)
    assert len(placed) == 2
    ys = sorted(float(re.findall(r' y="([\d.]+)"', each)[0]) for each in placed)
    assert ys[1] - ys[0] > 14
    crowd = [(50.0, y) for y in range(0, 200, 8)]
    assert place_labels([(50, 96, "nowhere")], crowd, (0, 200), 0) == []


def test_places_are_moved_apart_and_stay_in_order() -> None:
    moved = apart([10, 11, 12, 50], 13, 0, 60)
    assert moved == sorted(moved)
    assert all(b - a >= 13 - 1e-9 for a, b in pairwise(moved))
    assert [words for _, words in without_overlap([(0, "aaaa"), (5, "bbbb"), (90, "cccc")])] == [
        "aaaa",
        "cccc",
    ]
    assert shortened("a long name", 40) == "a lo…"
