"""The comparison page: names, verdicts in words, what got better and what worse."""

import re

import pytest
from tests.report.page_reading import Page, assert_harmless, read_page

from assay import Dataset, Outcome, compare_runs
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
