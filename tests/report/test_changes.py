"""Slices of queries: which one a query belongs to, and where one run is worse than another."""

import random

import pytest

from assay.data import Dataset, Query
from assay.metrics.metric import nDCG
from assay.report.changes import SliceChange, compare_slices, where_it_changed
from assay.report.html_queries import (
    FAILURE,
    FORM,
    OUTCOMES,
    RELEVANT,
    RETRIEVED,
    TAG,
    WORDS,
    QueryGroup,
    slices_of,
)
from assay.report.html_templates import environment
from assay.run.models import QueryRow


def _row(number: int, text: str = "green tea", relevant: int = 1, score: float = 0.0) -> QueryRow:
    return QueryRow.model_validate(
        {
            "query_id": f"q{number}",
            "query_text": text,
            "retrieved_docs": [],
            "status": "ok",
            "latency_ms": 1.0,
            "relevant_docs_retrieved": 0,
            "total_relevant_docs": relevant,
            "ndcg_at_5": score,
        }
    )


Scores = list[tuple[float, float]]


def _compare(scores: Scores, tags: list[str]) -> list[SliceChange]:
    queries = {f"q{n}": Query(f"q{n}", "green tea", (tag,)) for n, tag in enumerate(tags)}
    pairs = [(b - a, _row(n, score=a), _row(n, score=b)) for n, (a, b) in enumerate(scores)]
    return compare_slices(pairs, nDCG @ 5, Dataset("d", {}, queries, {}))


def test_a_query_belongs_to_one_slice_of_each_kind_and_to_its_tags() -> None:
    found = list(slices_of(_row(1, "how long does tea steep?", 3), ["drinks", "short"]))
    assert found == [
        (WORDS, "5 to 7"),
        (RELEVANT, "2 to 3"),
        (FORM, "question"),
        (TAG, "drinks"),
        (TAG, "short"),
        (RETRIEVED, "nothing"),
    ]


def test_what_became_of_a_query_is_a_slice_of_lists_and_of_no_comparison() -> None:
    failed = _row(1).model_copy(update={"status": "failed", "failure": "timeout"})
    assert (FAILURE, "timeout") in slices_of(failed)
    half = _row(1, relevant=4).model_copy(update={"relevant_docs_retrieved": 2})
    assert (RETRIEVED, "some") in slices_of(half)
    pairs = [(0.5, failed, _row(n)) if n % 2 else (0.0, half, half) for n in range(40)]
    assert {each.title for each in compare_slices(pairs, nDCG @ 5, None)}.isdisjoint(OUTCOMES)


def test_the_slice_that_got_worse_is_named() -> None:
    rng = random.Random(1)
    scores: Scores = []
    tags = ["recipes" if number % 3 == 0 else "travel" for number in range(120)]
    for tag in tags:
        before = rng.uniform(0.6, 0.9)
        after = before - 0.4 if tag == "recipes" else before + rng.uniform(-0.05, 0.05)
        scores.append((before, after))
    slices = _compare(scores, tags)
    worse = [each for each in slices if each.significant and each.difference < 0]
    assert [each.name for each in worse] == ["recipes"]
    assert worse[0].n == 40
    sentence = where_it_changed(slices, "nDCG@5")
    assert sentence == "It got worse where the tag is recipes (by 0.400, 40 queries)."


def test_noise_in_many_slices_is_no_finding() -> None:
    """Twenty tags without any difference: uncorrected, one of them would often seem worse."""
    rng = random.Random(5)
    scores = [(rng.random(), rng.random()) for _ in range(400)]
    slices = _compare(scores, [f"tag-{number % 20}" for number in range(400)])
    assert len(slices) == 14  # the most frequent tags; the other kinds have one slice each
    assert not any(each.significant for each in slices)
    assert where_it_changed(slices, "nDCG@5").startswith("In none of 14 slices")


def test_slices_of_fewer_than_five_queries_are_left_out() -> None:
    scores = [(0.9, 0.1)] * 4 + [(0.5, 0.5)] * 16
    tags = ["rare" if number < 4 else "usual" for number in range(20)]
    assert [each.name for each in _compare(scores, tags)] == ["usual"]


@pytest.mark.parametrize("scores", [[], [(0.1, 0.2)]])
def test_nothing_to_compare_says_nothing(scores: Scores) -> None:
    assert where_it_changed(_compare(scores, ["x"] * len(scores)), "nDCG@5") == ""


def test_a_slice_links_to_its_queries_where_these_have_pages() -> None:
    template = environment().from_string(
        '{% from "pieces.html" import groups_table %}'
        "{{ groups_table(title, groups, whisker, links) }}"
    )
    group = QueryGroup("a&b", 3, 0.5, 0.4, 0.6)
    shown = template.render(title=TAG, groups=[group], links="/runs/x/queries/")
    assert 'href="/runs/x/queries?slice=Tag+of+the+query%3A+a%26b&amp;order=worst"' in shown
    assert "href" not in template.render(title=TAG, groups=[group], links="")
