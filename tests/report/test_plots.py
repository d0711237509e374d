"""Plots: valid SVG, marks where the values are, and words for those who do not see them."""

from xml.etree import ElementTree

import pytest

from assay.report import plots
from assay.report.svg import Scale, round_steps
from assay.run.answers import Quadrants


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def quadrants(*numbers: int) -> Quadrants:
    names = ("evidence_right", "evidence_wrong", "no_evidence_right", "no_evidence_wrong")
    return Quadrants(**dict(zip(names, numbers, strict=True)))


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
    plots.mosaic(quadrants(34, 40, 0, 30)),
    plots.mosaic(quadrants(0, 0, 0, 1)),
    plots.mosaic(quadrants(1, 1000, 1, 1)),
    plots.point_bars({"retrieval": 0.0, "generation": 45.0, "both together": 0.01}),
    plots.sparkline([0.3, 0.3], [0.3, 0.3], [0.3, 0.3]),
]


@pytest.mark.parametrize("svg", ALL)
def test_every_plot_is_valid_and_has_words(svg: str) -> None:
    root = parse(svg)
    plot = root if root.tag == "svg" else next(root.iter("svg"))
    assert plot.get("role") in ("img", "group")
    assert plot.get("aria-label")
    assert "style=" not in svg
    assert "<script" not in svg
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


def test_the_cells_of_the_mosaic_are_as_large_as_their_numbers() -> None:
    root = parse(plots.mosaic(quadrants(30, 30, 30, 90)))
    sizes = [float(r.get("width", "")) * float(r.get("height", "")) for r in root.iter("rect")]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)
    assert sizes[3] == pytest.approx(3 * sizes[2], rel=0.05)
    assert sum(sizes[2:]) == pytest.approx(2 * sum(sizes[:2]), rel=0.05)


@pytest.mark.parametrize("numbers", [(1, 1000, 1, 1), (1, 1, 1, 1000), (1000, 1, 0, 1)])
def test_even_a_small_cell_has_room_for_its_number(numbers: tuple[int, ...]) -> None:
    root = parse(plots.mosaic(quadrants(*numbers)))
    cells = list(root.iter("rect"))
    assert len(cells) == sum(number > 0 for number in numbers)
    for cell in cells:
        x, y, width, height = (float(cell.get(k, "")) for k in ("x", "y", "width", "height"))
        assert width >= 120  # as wide as the words above it
        assert height >= 24
        assert x + width <= 440
        assert y + height <= 280
