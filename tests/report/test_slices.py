"""Slices of queries: which one a query belongs to, and where one run is worse than another."""

import random

import pytest
from tests.report.conftest import query_row

from assay.report.html import OUTCOME, RELEVANT, TAG, WORDS, Slice, slices_of
from assay.report.html_comparison import compare_slices


def test_a_query_belongs_to_one_slice_of_each_kind_and_to_its_tags() -> None:
    row = query_row("q", relevant=3, query_text="how long does tea steep?")
    found = list(slices_of(row, ["drinks", "short"]))
    assert found == [
        *[(WORDS, "5–7"), (RELEVANT, "2–3")],
        *[(TAG, "drinks"), (TAG, "short"), (OUTCOME, "nothing found")],
    ]
    assert [one.title for one in found[:3]] == [
        "5–7 words",
        "2–3 relevant",
        "tag drinks",
    ]
    assert Slice(WORDS, "1").title == "1 word"
    failed = query_row("q", status="failed", failure="timeout")
    assert Slice(OUTCOME, "failed: timeout") in slices_of(failed)


def test_the_slice_that_got_worse_is_the_first() -> None:
    rng = random.Random(1)
    scores: dict[Slice, list[tuple[float, float]]] = {
        Slice(TAG, name): [] for name in ("recipes", "travel", "rare")
    }
    for number in range(120):
        tag = "recipes" if number % 3 == 0 else "travel"
        before = rng.uniform(0.6, 0.9)
        after = before - 0.4 if tag == "recipes" else before + rng.uniform(-0.05, 0.05)
        scores[Slice(TAG, tag)].append((before, after))
    scores[Slice(TAG, "rare")] = [(0.9, 0.1)] * 4  # nothing can be told about four queries
    scores[Slice(OUTCOME, "nothing found")] = scores[Slice(OUTCOME, "all found")] = [(0.0, 0.9)] * 9
    (worst, first), (_, second) = compare_slices(scores)
    assert (worst.name, first.n, first.significant) == ("recipes", 40, True)
    assert first.difference == pytest.approx(-0.4)
    assert not second.significant


def test_noise_in_many_slices_is_no_finding() -> None:
    """Twenty tags without any difference: uncorrected, one of them would often seem worse."""
    rng = random.Random(5)
    tags = [Slice(TAG, f"tag-{number}") for number in range(20)]
    found = compare_slices({tag: [(rng.random(), rng.random()) for _ in range(20)] for tag in tags})
    assert len(found) == 14
    assert not any(one.significant for _, one in found)
