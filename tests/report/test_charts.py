"""Charts: valid SVG, marks where the values are, and words for those who do not see them."""

from xml.etree import ElementTree

import pytest

from assay.report import charts
from assay.report.charts import Scale, shortened, without_overlap


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


DOTS = [(0.1, 0.9, "a <b>", "/q1"), (0.9, 0.1, "c", "/q2"), (0.5, 0.5, "d", "/q3")]
ALL = [
    charts.whisker(0.5, 0.4, 0.6),
    charts.whisker(-0.1, None, None, (-0.2, 0.2)),
    charts.change_bar(-0.5, False),
    charts.sparkline([0.3]),
    charts.sparkline([0.3, 0.4]),
    charts.histogram([0] * 20, 0, "nDCG@5"),
    charts.latency_dots([(0.0, 0.0, "q", "/q"), (1.0, 900.0, "r", "/r")], "seconds"),
    charts.scatter(DOTS, ("x <i>", "y & z")),
    charts.loss_bar({"retrieval": 0.0, "generation": 45.0, "both together": 0.01}),
]


@pytest.mark.parametrize("svg", ALL)
def test_every_chart_is_valid_and_has_words(svg: str) -> None:
    root = parse(f"<div>{svg}</div>")
    plot = root if root.tag == "svg" else next(root.iter("svg"))
    assert plot.get("role") in ("img", "group")
    assert plot.get("aria-label")
    for harm in ("style=", "<script", "nan"):
        assert harm not in svg.lower()
    stops = [each for each in root.iter() if each.get("tabindex") == "0"]
    assert stops == []  # a point that leads nowhere is no stop of the Tab key


def test_a_dot_leads_to_its_query_and_is_better_above_the_diagonal() -> None:
    root = parse(ALL[7])
    classes = [circle.get("class") for circle in root.iter("circle")]
    assert classes == ["query better", "query worse", "query same"]
    assert [link.get("href") for link in root.iter("a")] == ["/q1", "/q2", "/q3"]
    rows = list(next(root.iter("tbody")))
    assert rows[0][0].text == "a <b>"  # the largest difference first
    lower = parse(charts.scatter(DOTS[:1], ("x", "y"), higher_is_better=False))
    assert next(lower.iter("circle")).get("class") == "query worse"


def test_negative_scores_have_their_place() -> None:
    root = parse(charts.scatter([(-1.0, 0.0, "a", ""), (0.0, 1.0, "b", "")], ("x", "y"), (-1, 1)))
    (left, low), (middle, high) = (
        (float(each.get("cx", "")), float(each.get("cy", ""))) for each in root.iter("circle")
    )
    assert left < middle
    assert high < low


def test_bars_are_as_high_and_as_wide_as_the_counts() -> None:
    heights = [
        float(bar.get("height", ""))
        for bar in parse(charts.histogram([1, 2, 4], 8, "x")).iter("rect")
    ]
    assert heights[0] == pytest.approx(8 * heights[1], rel=0.01)
    widths = [
        float(r.get("width", ""))
        for r in parse(f"<p>{charts.loss_bar({'a': 30, 'none': 0, 'b': 90})}</p>").iter("rect")
    ]
    assert widths == pytest.approx([450, 150], rel=0.01)


@pytest.mark.parametrize(
    ("low", "high", "steps"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0, 323, [0, 100, 200, 300]), (5, 5, [5])],
)
def test_axes_are_marked_at_round_numbers(low: float, high: float, steps: list[float]) -> None:
    assert Scale(low, high, 0, 100).ticks() == steps


def test_a_logarithmic_scale_gives_each_magnitude_the_same_room() -> None:
    scale = Scale(1, 100, 0, 10, logarithmic=True)
    assert scale(10) == pytest.approx(5)
    assert scale(1000) == 10  # beyond the end stays at the end
    assert scale.ticks() == [1, 2, 5, 10, 20, 50, 100]


def test_words_are_cut_to_their_room_and_do_not_overlap() -> None:
    kept = without_overlap([(0, "aaaa"), (5, "bbbb"), (90, "cccc")])
    assert [words for _, words in kept] == ["aaaa", "cccc"]
    assert shortened("a long name", 40) == "a lo…"
    assert shortened("x" * 100_000, 40).endswith("…")
