"""Plots: valid SVG, marks where the values are, and words for those who do not see them."""

from xml.etree import ElementTree

import pytest

from assay.report import plots
from assay.report.svg import Scale, round_steps


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


ALL = [
    plots.score_line(0.3, 0.2, 0.4, 0.6),
    plots.score_line(0.0, None, None, 1.0),
    plots.whisker(0.5, 0.4, 0.6),
    plots.whisker(-0.1, -0.2, 0.0, (-0.2, 0.2)),
    plots.histogram([0] * 20, 0, "nDCG@5"),
    plots.latency_lines([1, 2, 3], {"p50": [1, None, 3], "p95": [5, None, 900]}, "seconds"),
    plots.scatter([(0.1, 0.9, "a <b> & 'c'")], "x <i>", "y & z"),
    plots.win_loss([0.5, 0.0, -0.25], "queries"),
    plots.win_loss([0.0, 0.0], "queries"),
    plots.sparkline([0.3], [None], [None]),
    plots.sparkline([0.3, 0.3], [0.3, 0.3], [0.3, 0.3]),
]


@pytest.mark.parametrize("svg", ALL)
def test_every_plot_is_valid_and_has_words(svg: str) -> None:
    root = parse(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert "style=" not in svg
    assert "nan" not in svg.lower()


def test_dots_above_the_diagonal_are_better() -> None:
    root = parse(plots.scatter([(0.1, 0.9, ""), (0.9, 0.1, ""), (0.5, 0.5, "")], "a", "b"))
    classes = [circle.get("class") for circle in root.iter("circle")]
    assert classes == ["query better", "query worse", "query same"]


def test_the_bars_are_as_high_as_the_counts() -> None:
    root = parse(plots.histogram([1, 2, 4], 8, "x"))
    heights = [float(bar.get("height", "")) for bar in root.iter("rect")]
    assert heights[0] == pytest.approx(8 * heights[1], rel=0.01)
    assert heights[3] == pytest.approx(4 * heights[1], rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "steps"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0, 323, [0, 100, 200, 300]), (5, 5, [5])],
)
def test_axes_are_marked_at_round_numbers(low: float, high: float, steps: list[float]) -> None:
    assert round_steps(low, high, 5) == steps


def test_a_logarithmic_scale_gives_each_magnitude_the_same_room() -> None:
    scale = Scale(1, 100, 0, 10, logarithmic=True)
    assert scale(10) == pytest.approx(5)
    assert scale(1000) == 10  # beyond the end stays at the end
