"""The comparison page: names, verdicts in words, what got better and what worse."""

import re

import pytest
from tests.report.page_reading import Page, assert_harmless, read_page

from assay import Dataset, Outcome, compare_runs
from assay.evaluation.comparison import compare_reports
from assay.measure.figures import parse_figure
from assay.report.html_comparison import Side, comparison_view, render_comparison_page
from assay.report.terminal import verdict


def side(run: Outcome) -> Side:
    return Side(run.folder.name, run.folder.read_report())


@pytest.fixture(scope="module")
def page(hostile_run: Outcome, plain_run: Outcome, hostile_dataset: Dataset) -> Page:
    comparison = compare_runs(plain_run, hostile_run).to_json()
    sides = [side(plain_run), side(hostile_run)]
    return read_page(render_comparison_page(sides, [comparison], hostile_dataset))


def test_it_is_harmless(page: Page) -> None:
    assert_harmless(page)


def test_it_says_in_words_whether_the_difference_can_be_believed(
    page: Page, plain_run: Outcome, hostile_run: Outcome
) -> None:
    names = {"a": plain_run.head["target"]["name"], "b": hostile_run.head["target"]["name"]}
    comparison = compare_runs(plain_run, hostile_run).to_json()
    assert verdict(comparison, **names) in page.text
    assert names["b"] in verdict(comparison, **names)


def test_changes_are_the_queries_that_changed_most(
    plain_run: Outcome, hostile_run: Outcome
) -> None:
    comparison = compare_runs(plain_run, hostile_run).to_json()
    pair = comparison_view([side(plain_run), side(hostile_run)], [comparison])["pairs"][0]
    gains = [change.difference for change in pair["better"]]
    losses = [change.difference for change in pair["worse"]]
    assert gains == sorted(gains, reverse=True)
    assert losses == sorted(losses)
    assert min(gains) > 0 > max(losses)


def test_a_run_against_itself_has_no_changes(plain_run: Outcome) -> None:
    comparison = compare_runs(plain_run, plain_run).to_json()
    sides = [side(plain_run), side(plain_run)]
    page = read_page(render_comparison_page(sides, [comparison]))
    assert page.text.count("Nothing.") == 2
    assert "score the same nDCG@5 on every query" in page.text


def test_runs_of_one_target_are_told_apart_by_their_time(plain_run: Outcome) -> None:
    comparison = compare_runs(plain_run, plain_run).to_json()
    view = comparison_view([side(plain_run), side(plain_run)], [comparison])
    assert re.search(r"\(\d{4}-\d\d-\d\d \d\d:\d\d\)", view["sides"][0]["label"])


def test_three_runs_make_two_pairs(plain_run: Outcome, hostile_run: Outcome) -> None:
    runs = [plain_run, hostile_run, plain_run]
    comparisons = [compare_runs(plain_run, other).to_json() for other in runs[1:]]
    html = render_comparison_page([side(run) for run in runs], comparisons)
    assert read_page(html).text.count("What got better") == 2


@pytest.fixture(scope="module")
def answers_page(answered_run: Outcome, timid_run: Outcome, answered_dataset: Dataset) -> Page:
    comparison = compare_runs(answered_run, timid_run).to_json()
    sides = [side(answered_run), side(timid_run)]
    return read_page(render_comparison_page(sides, [comparison], answered_dataset))


def test_answers_that_became_right_and_wrong_stand_side_by_side(
    answers_page: Page, answered_run: Outcome, timid_run: Outcome
) -> None:
    assert_harmless(answers_page)
    before, after = (
        {row["query_id"]: row["correctness"] for row in run.folder.read_answers()}
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
    answered_run: Outcome, timid_run: Outcome, answered_dataset: Dataset, name: str
) -> None:
    sides = [side(answered_run), side(timid_run)]
    figures = [parse_figure(name)]
    comparison = compare_reports(sides[0].report, sides[1].report, figures).to_json()
    view = comparison_view(sides, [comparison], answered_dataset)
    assert view["pairs"][0]["metric"] == name
    assert (view["pairs"][0]["scatter"] is None) == (name == "correctness")
    page = read_page(render_comparison_page(sides, [comparison], answered_dataset))
    assert "What got better" not in page.text
    assert f"Answers, by {name}" in page.text
    assert ("Became right" if name == "correctness" else "Got better") in page.text


def test_runs_that_were_judged_in_two_ways_share_no_correctness(
    answered_run: Outcome, judged_run: Outcome
) -> None:
    sides = [side(answered_run), side(judged_run)]
    comparison = compare_runs(answered_run, judged_run).to_json()
    view = comparison_view(sides, [comparison])
    assert view["correctness"] == []
    assert view["pairs"][0]["answers"]["figure"] == "fact_recall"


def test_a_comparison_without_answers_says_nothing_about_them(page: Page) -> None:
    assert "Answers, by" not in page.text
