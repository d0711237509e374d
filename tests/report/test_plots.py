"""Plots: valid SVG, marks where the values are, and words for those who do not see them."""

from xml.etree import ElementTree

import pytest

from assay.answers.diagnosis import Quadrants
from assay.report import plots
from assay.report.svg import Scale, round_steps


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


@pytest.mark.parametrize("svg", [each for each in ALL if each.startswith("<div")])
def test_every_chart_has_points_for_the_keyboard_and_its_data_behind_it(svg: str) -> None:
    root = parse(svg)
    assert root.get("data-name")
    points = [each for each in root.iter("g") if each.get("class") == "point"]
    assert all(each.get("tabindex") == "0" and each.findtext("title") for each in points)
    rows = list(next(root.iter("tbody")))
    assert rows
    headings = list(root.iter("th"))
    assert all(len(row) == len(headings) for row in rows)


def test_most_charts_are_charts_and_marks_in_tables_are_not() -> None:
    assert [each.startswith("<div") for each in ALL] == [False] * 4 + [True] * 5 + [False] + [
        True
    ] * 4 + [False]


def test_of_many_points_only_a_script_makes_a_stop() -> None:
    many = plots.scatter([(0.1, i / 500, f"query {i}") for i in range(500)], "a", "b")
    root = parse(many)
    points = [each for each in root.iter("g") if each.get("class") == "point"]
    assert len(points) == 500
    assert not any(each.get("tabindex") for each in points)
    assert "say" not in {each.get("class") for each in root.iter("text")}
    rows = list(next(root.iter("tbody")))
    assert len(rows) == 200
    assert rows[0][0].text == "query 499"  # the largest difference first
    assert "The first 200 of 500." in many


def test_latencies_of_zero_are_drawn_at_the_bottom() -> None:
    root = parse(plots.latency_lines([1, 2], {"p50": [0, 0], "p95": [0, None]}, "seconds"))
    bottoms = {each.get("y2") for each in root.iter("line") if each.get("class") == "axis"}
    assert {each.get("cy") for each in root.iter("circle")} == bottoms


@pytest.mark.parametrize("values", [[None, None], []])
def test_a_run_without_latencies_has_an_empty_plot(values: list[None]) -> None:
    series = {"p50": values, "p95": values}
    root = parse(plots.latency_lines(list(range(len(values))), series, "queries"))
    assert not list(root.iter("circle"))


def test_no_differences_are_an_empty_plot() -> None:
    root = parse(plots.win_loss([], "queries"))
    assert not list(root.iter("polygon"))


def test_names_at_the_ends_of_lines_do_not_overlap() -> None:
    series = {"p50": [10.0, 10.0], "p95": [10.1, 10.1]}
    root = parse(plots.latency_lines([1, 2], series, "seconds"))
    ends = [
        float(each.get("y", ""))
        for each in root.iter("text")
        if each.get("class") in ("tick p50", "tick p95")
    ]
    assert abs(ends[0] - ends[1]) >= 13


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


def test_negative_scores_have_places_of_their_own() -> None:
    dots = [(-1.0, 0.0, "a"), (0.0, 1.0, "b")]
    marks = [
        (each.get("cx"), each.get("cy"))
        for each in parse(plots.scatter(dots, "truthfulness of a", "truthfulness of b")).iter(
            "circle"
        )
    ]
    assert len(set(marks)) == 2
    (left, low), (middle, high) = (map(float, mark) for mark in marks)  # type: ignore[arg-type]
    assert left < middle
    assert high < low
