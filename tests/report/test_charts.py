"""Charts: valid SVG, marks where the values are, and words for those who do not see them."""

import re
from xml.etree import ElementTree

import pytest
from tests.run.test_listing import point

from assay.metrics.statistics import Estimate
from assay.report import charts
from assay.report.charts import MAX_LABELS, trend_chart
from assay.run.listing import LATENCY, RunLine, build_trend

DOTS = [(0.1, 0.9, "a <b>", "/q1"), (0.9, 0.1, "c", "/q2"), (0.5, 0.5, "d", "/q3")]
SCATTER = charts.scatter(DOTS, ("x <i>", "y & z"))
ALL = [
    charts.whisker(0.5, 0.4, 0.6),
    charts.whisker(-0.1, None, None, (-0.2, 0.2)),
    charts.change_bar(-0.5, False),
    charts.sparkline([0.3]),
    charts.sparkline([0.3, 0.4]),
    charts.histogram([0] * 20, 0, "nDCG@5"),
    charts.latency_dots([(0.0, 0.0, "q", "/q"), (1.0, 900.0, "r", "/r")]),
    SCATTER,
    charts.loss_bar({"retrieval": 0.0, "generation": 45.0, "both together": 0.01}),
]


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{svg}</div>")


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if name in (each.get("class") or "").split()]


@pytest.mark.parametrize("svg", ALL)
def test_every_chart_is_valid_and_has_words(svg: str) -> None:
    plot = next(parse(svg).iter("svg"))
    assert plot.get("role") in ("img", "group")
    assert plot.get("aria-label")
    for harm in ("style=", "<script", "nan", 'tabindex="0"'):
        assert harm not in svg.lower()


# --- a figure over time --------------------------------------------------------------------------


def points(number: int) -> list[RunLine]:
    """Two branches, gates, labels, a version of the data in between, and latency."""
    made = []
    for n in range(number):
        line = {
            "branch": "main" if n % 2 else "other",
            "label": f"label {n} <b>" if n % 3 == 0 else None,
            "git_commit": f"{n:07x}" * 5,
            "fingerprint": "f" if n < number - 2 else "g",
            "gates_failed": int(n == 2),
        }
        values = {"ndcg@5": Estimate(0.4 + (n % 50) / 100, 0.3, 0.6), LATENCY: Estimate(100.0 + n)}
        made.append(point(n, line, values=values, bounds={"ndcg@5": 0.35 if n < 4 else 0.45}))
    return made


def drawn(number: int = 6, figure: str = "ndcg@5") -> ElementTree.Element:
    return parse(trend_chart(build_trend(points(number), figure)))


def test_every_run_of_a_trend_is_a_point_that_leads_to_it() -> None:
    found = of_class(drawn(), "point")
    assert sorted(each.get("href") or "" for each in found) == [f"/runs/{n}" for n in range(6)]
    titles = [each.findtext("title") or "" for each in found]
    assert any(re.search(r"nDCG@5 0\.4200, .*other 0000002, gate failed", each) for each in titles)


def test_only_comparable_runs_are_joined_and_older_data_is_hollow() -> None:
    root = drawn()
    assert len(of_class(root, "joined")) == 4  # two on each branch, on the old data and the new
    assert len(of_class(root, "hollow")) == 2  # the smaller set, though it is the newest
    assert len(of_class(root, "failed")) == 1
    assert [each.text for each in of_class(root, "gate-words")] == ["gate 0.35", "gate 0.45"]
    low, high = (float(each.get("y1", "")) for each in of_class(root, "gate"))
    assert low > high  # the y of SVG points down


def test_many_runs_are_one_line_few_points_and_at_most_six_labels() -> None:
    root = drawn(1000)
    assert len(of_class(root, "point")) <= 160
    lines = [(each.get("points") or "").split() for each in of_class(root, "joined")]
    assert sum(map(len, lines)) == 1000
    assert {each.get("tabindex") for each in of_class(root, "point")} == {"-1"}
    assert len(of_class(root, "spread")) == 2
    assert 0 < len(of_class(root, "run-label")) <= MAX_LABELS


@pytest.mark.parametrize("number", [1, 2, 40])
@pytest.mark.parametrize("figure", ["ndcg@5", LATENCY])
def test_any_number_of_runs_can_be_drawn(number: int, figure: str) -> None:
    root = drawn(number, figure)
    assert "nan" not in ElementTree.tostring(root, "unicode")
    assert len(of_class(root, "point")) == number
