"""Charts of trends: marks where the values are, few labels, nothing on top of another."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tests.run.test_trend import point

from assay.report.trends import (
    MAX_LABELS,
    date_ticks,
    figure_title,
    figures_of_trend,
    trend_chart,
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
            "ndcg@5": TrendValue(0.4 + (n % 50) / 100, 0.3, 0.6),
            LATENCY: TrendValue(100.0 + n),
            COST: TrendValue(0.01 * n),
        }
        made.append(point(n, line, values=values, bounds={"ndcg@5": 0.35 if n < 4 else 0.45}))
    return made


def drawn(number: int = 6, figure: str = "ndcg@5") -> ElementTree.Element:
    trend = build_trend(points(number), figure)
    chart = trend_chart(trend, lambda line: f"/runs/{line.name}")
    return ElementTree.fromstring(chart)


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if name in (each.get("class") or "").split()]


def test_every_run_is_a_point_that_leads_to_it() -> None:
    found = of_class(drawn(), "point")
    assert sorted(each.get("href") or "" for each in found) == [f"/runs/{n}" for n in range(6)]
    titles = [each.findtext("title") or "" for each in found]
    assert any(re.search(r"nDCG@5 0\.4200 .*other 0000002, gate failed", each) for each in titles)
    assert not any(each.get("tabindex") for each in found)  # a link is a stop by itself


def test_only_comparable_runs_are_joined_and_older_data_is_hollow() -> None:
    root = drawn()
    assert len(of_class(root, "joined")) == 2  # the two runs on new data are one on each branch
    assert len(of_class(root, "hollow")) == 2  # the smaller set, though it is the newest
    assert len(of_class(root, "failed")) == 1
    assert [each.text for each in of_class(root, "gate-words")] == ["gate 0.35", "gate 0.45"]
    low, high = (float(each.get("y1", "")) for each in of_class(root, "gate"))
    assert low > high  # the y of SVG points down


@pytest.mark.parametrize("number", [200, 1000])
def test_many_runs_are_one_line_few_points_and_at_most_six_labels(number: int) -> None:
    root = drawn(number)
    assert len(of_class(root, "point")) <= 160
    lines = of_class(root, "joined")
    assert sum(len((each.get("points") or "").split()) for each in lines) == number - 2
    assert {each.get("tabindex") for each in of_class(root, "point")} == {"-1"}
    assert len(of_class(root, "spread")) == 2
    assert len(of_class(root, "run-label")) <= MAX_LABELS


@pytest.mark.parametrize("number", [1, 2, 40])
@pytest.mark.parametrize("figure", ["ndcg@5", LATENCY, COST])
def test_any_number_of_runs_can_be_drawn(number: int, figure: str) -> None:
    root = drawn(number, figure)
    assert "nan" not in ElementTree.tostring(root, "unicode")
    assert len(of_class(root, "point")) == number


def test_a_branch_stands_beside_its_comparable_run_before() -> None:
    made = [point(n, values={"ndcg@5": TrendValue(0.1 * n)}) for n in range(4)]
    made[2] = replace(made[2], line=replace(made[2].line, fingerprint="other"))
    assert trend_view(made, "ndcg@5", lambda line: "")["branches"] == [(made[3], made[1])]
    changes = trend_view(points(), "ndcg@5", lambda line: "")["changes"]
    assert [number for number, *_ in changes] == [1]


def test_figures_and_their_titles_are_for_people() -> None:
    assert figures_of_trend(points()) == ["ndcg@5", LATENCY, COST]
    assert [figure_title(each) for each in (LATENCY, "ndcg@5", "fact_recall")] == [
        *("Median latency", "nDCG@5", "Fact recall"),
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
