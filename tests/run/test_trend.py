"""Trends: only what compares is joined, and what changed in between is told."""

from dataclasses import replace
from typing import Any

import pytest

from assay.metrics.statistics import Estimate
from assay.run.listing import RunLine, build_trend

LINE = RunLine(
    *("0", "complete", "2026-10-01T08:00:00+00:00", "agent"),
    dataset="d",
    fingerprint="f",
    split="test",
    track="zero-shot",
    top_k=5,
    metric="ndcg@5",
    queries=30,
    failed=0,
    branch="main",
)


def point(number: int, line: dict[str, Any] | None = None, **changes: Any) -> RunLine:
    values = {"ndcg@5": Estimate(0.5, 0.4, 0.6)}
    made = replace(LINE, name=str(number), moment=86400.0 * number, values=values)
    return replace(made, **(line or {}), **changes)


def joined(*points: RunLine, figure: str = "ndcg@5") -> list[list[str]]:
    trend = build_trend(points, figure)
    return [[each.name for each in series.points] for series in trend.series]


def test_runs_of_one_branch_that_compare_are_one_series() -> None:
    assert joined(point(1), point(2), point(3, {"branch": "other"}), point(4)) == [
        ["1", "2", "4"],
        ["3"],
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fingerprint": "g"}, "the data changed"),
        (
            {"seed": 42, "queries": 10},
            "a sample of 10 queries (seed 42) (before: all 30 queries)",
        ),
        ({"top_k": 10}, "asked for 10 documents (before: 5)"),
        ({"track": "trained"}, "trained track (before: zero-shot)"),
    ],
)
def test_runs_that_do_not_compare_are_never_joined(change: dict[str, Any], words: str) -> None:
    points = (point(1), point(2, change), point(3))
    assert joined(*points) == [["1", "3"], ["2"]]
    (found,) = build_trend(points, "ndcg@5").changes
    assert (found.point.name, found.words, found.breaks) == ("2", words, True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"queries": 10, "seed": 1}, {"queries": 10, "seed": 2}),
        ({"shard": (0, 2)}, {"shard": (1, 2)}),
    ],
)
def test_samples_and_shards_are_never_joined(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert joined(point(1, one), point(2, other)) == [["1"], ["2"]]


def test_answers_that_were_judged_in_another_way_are_not_joined_but_their_rankings_are() -> None:
    values = {"ndcg@5": Estimate(0.5), "correctness": Estimate(0.5)}
    points = [point(n, values=values, answers_by=by) for n, by in ((1, "facts"), (2, "judge"))]
    assert joined(*points) == [["1", "2"]]
    assert joined(*points, figure="correctness") == [["1"], ["2"]]


def test_another_setting_is_told_and_does_not_break_the_line() -> None:
    points = (
        point(1, settings={"agent": "Finder 1", "reranker": "--reranker a"}),
        point(2, settings={"agent": "Finder 2"}),
    )
    trend = build_trend(points, "ndcg@5")
    assert len(trend.series) == 1
    assert [(each.words, each.breaks) for each in trend.changes] == [
        ("Finder 1 → Finder 2; without --reranker a", False)
    ]


def test_a_run_in_which_nothing_was_answered_has_no_place() -> None:
    trend = build_trend((point(1), point(2, {"failed": 30})), "ndcg@5")
    assert [each.name for each in trend.points] == ["1"]
