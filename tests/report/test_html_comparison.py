"""The comparison page: names, verdicts in words, what got better and what worse."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.report.page_reading import Page, assert_harmless, read_page

from assay import Dataset, Run, compare_runs, nDCG
from assay.report.changes import SHOWN, LargestChanges, gains_and_losses, pair_rows
from assay.report.html_comparison import (
    ComparedSide,
    comparison_view,
    render_comparison_page,
)
from assay.report.terminal import verdict
from assay.run.models import QueryRow


def side(run: Run) -> ComparedSide:
    return ComparedSide.read(run.folder)


@pytest.fixture(scope="module")
def page(hostile_run: Run, plain_run: Run, hostile_dataset: Dataset) -> Page:
    comparison = compare_runs(plain_run, hostile_run)
    sides = [side(plain_run), side(hostile_run)]
    return read_page(render_comparison_page(sides, [comparison], hostile_dataset))


def test_it_is_harmless(page: Page) -> None:
    assert_harmless(page)


def test_it_says_in_words_whether_the_difference_can_be_believed(
    page: Page, plain_run: Run, hostile_run: Run
) -> None:
    names = {"a": plain_run.report.target.name, "b": hostile_run.report.target.name}
    comparison = compare_runs(plain_run, hostile_run)
    assert verdict(comparison, **names) in page.text
    assert names["b"] in verdict(comparison, **names)


def test_changes_are_the_queries_that_changed_most(plain_run: Run, hostile_run: Run) -> None:
    comparison = compare_runs(plain_run, hostile_run)
    pair = comparison_view([side(plain_run), side(hostile_run)], [comparison]).pairs[0]
    gains = [change.difference for change in pair.better]
    losses = [change.difference for change in pair.worse]
    assert gains == sorted(gains, reverse=True)
    assert losses == sorted(losses)
    assert min(gains) > 0 > max(losses)


def test_a_run_against_itself_has_no_changes(plain_run: Run) -> None:
    comparison = compare_runs(plain_run, plain_run)
    sides = [side(plain_run), side(plain_run)]
    page = read_page(render_comparison_page(sides, [comparison]))
    assert page.text.count("Nothing.") == 2
    assert "score the same on every query" in page.text


def test_runs_of_one_target_are_told_apart_by_their_time(plain_run: Run) -> None:
    comparison = compare_runs(plain_run, plain_run)
    first = side(plain_run)
    header = first.header.model_copy(update={"started": "2020-01-02T03:04:05+00:00"})
    view = comparison_view([replace(first, header=header), first], [comparison])
    assert view.sides[0].label.endswith("(2020-01-02 03:04)")
    assert re.search(r"\(\d{4}-\d\d-\d\d \d\d:\d\d\)", view.sides[1].label)


def test_three_runs_make_two_pairs(plain_run: Run, hostile_run: Run) -> None:
    runs = [plain_run, hostile_run, plain_run]
    comparisons = [compare_runs(plain_run, other) for other in runs[1:]]
    html = render_comparison_page([side(run) for run in runs], comparisons)
    assert read_page(html).text.count("What got better") == 2


@pytest.fixture(scope="module")
def answers_page(answered_run: Run, timid_run: Run, answered_dataset: Dataset) -> Page:
    comparison = compare_runs(answered_run, timid_run)
    sides = [side(answered_run), side(timid_run)]
    return read_page(render_comparison_page(sides, [comparison], answered_dataset))


def test_answers_that_became_right_and_wrong_stand_side_by_side(
    answers_page: Page, answered_run: Run, timid_run: Run
) -> None:
    assert_harmless(answers_page)
    before, after = (
        {row.query_id: row.score("correctness") or 0.0 for row in run.answers()}
        for run in (answered_run, timid_run)
    )
    gains = sum(after[q] > before[q] for q in before)
    losses = sum(after[q] < before[q] for q in before)
    assert gains > 8 < losses
    assert f"Became right {gains} questions, the first 8" in answers_page.text
    assert f"Became wrong {losses} questions, the first 8" in answers_page.text
    both = sum(after[q] == before[q] == 1 for q in before)
    assert f"a right {both} {losses}" in answers_page.text
    ids = [each["id"] for _, each in answers_page.elements if "id" in each]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["correctness", "fact_recall"])
def test_a_figure_of_answers_can_be_the_headline(
    answered_run: Run, timid_run: Run, answered_dataset: Dataset, name: str
) -> None:
    sides = [side(answered_run), side(timid_run)]
    comparison = compare_runs(answered_run, timid_run, [name])
    view = comparison_view(sides, [comparison], answered_dataset)
    assert view.pairs[0].metric == name.replace("_", " ")
    assert (view.pairs[0].scatter is None) == (name == "correctness")
    page = read_page(render_comparison_page(sides, [comparison], answered_dataset))
    assert "What got better" not in page.text
    assert f"Answers, by {name.replace('_', ' ')}" in page.text
    assert ("Became right" if name == "correctness" else "Got better") in page.text


def test_slices_and_queries_that_got_worse_are_shown_beside_answers(
    answered_run: Run, timid_run: Run, answered_dataset: Dataset
) -> None:
    sides = [side(answered_run), side(timid_run)]
    comparison = compare_runs(answered_run, timid_run)
    pair = comparison_view(sides, [comparison], answered_dataset).pairs[0]
    assert (pair.metric, pair.ranking, pair.ranked) == ("correctness", "nDCG@5", False)
    assert pair.slices
    assert "nDCG@5" in pair.where
    page = read_page(render_comparison_page(sides, [comparison], answered_dataset))
    assert "What got worse in nDCG@5" in page.text


def test_without_correctness_the_rankings_come_before_other_figures_of_answers(
    answered_run: Run, judged_run: Run
) -> None:
    names = list(compare_runs(answered_run, judged_run).metrics)
    assert names[0] == "ndcg@5"
    assert "fact_recall" in names


def test_runs_that_were_judged_in_two_ways_share_no_correctness(
    answered_run: Run, judged_run: Run
) -> None:
    sides = [side(answered_run), side(judged_run)]
    comparison = compare_runs(answered_run, judged_run)
    view = comparison_view(sides, [comparison])
    assert view.correctness == []
    changes = view.pairs[0].answers
    assert changes is not None
    assert changes.figure == "fact recall"


def test_a_comparison_without_answers_says_nothing_about_them(page: Page) -> None:
    assert "Answers, by" not in page.text


def test_rows_of_two_runs_are_read_as_they_are_needed() -> None:
    """Of two runs in the same order, one row of each is in memory; another order works too."""
    ids = [f"q{number}" for number in range(50)]
    ahead: list[str] = []

    def rows(order: list[str]) -> Iterator[QueryRow]:
        for query_id in order:
            ahead.append(query_id)
            yield QueryRow.model_construct(query_id=query_id)

    for number, (a, b) in enumerate(pair_rows(rows(ids), rows(ids)), start=1):
        assert a.query_id == b.query_id
        assert len(ahead) == 2 * number
    backwards = [a.query_id for a, _ in pair_rows(rows(["none", *ids]), rows(ids[::-1]))]
    assert backwards == ids


def test_the_largest_changes_are_those_of_sorting_all() -> None:
    row = QueryRow.model_construct(query_id="q")
    pairs = [((number * 37 % 101 - 50) / 10, row, row) for number in range(3000)]
    largest = LargestChanges(nDCG @ 5)
    for pair in pairs:
        largest.add(pair)
    better, worse = gains_and_losses(pairs, nDCG @ 5)
    assert [[one[0] for one in each] for each in largest.found()] == [
        [one[0] for one in each[:SHOWN]] for each in (better, worse)
    ]
