"""Rates of faults: less of them is better wherever a direction is said, colored or ranked."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.conftest import SCRIPT
from tests.report.page_reading import read_page
from tests.run.test_trend import point

from assay import Dataset, Run, compare_runs, evaluate
from assay.answers.figures import parse_figure
from assay.evaluation.compare_to import regression_gate
from assay.evaluation.leaderboard import make_board
from assay.report.changes import gains_and_losses
from assay.report.html_comparison import ComparedSide, comparison_view, render_comparison_page
from assay.report.html_templates import render_fragment
from assay.report.terminal import verdict
from assay.run.models import AnswerRow, Comparison
from assay.run.trend import TrendValue

RATE = "hallucination_rate"


def inventing_agent(query: str, top_k: int) -> dict[str, object]:
    """Right on every fourth question, wrong on all others."""
    number = int(query.split()[1])
    answer = (
        f"fact {number} is right"
        if number % 4 == 1
        else f"Dragons dwell in deep dungeons. {SCRIPT}"
    )
    return {"doc_ids": [f"d{number}"], "answer": answer, "citations": [f"d{number}"]}


@pytest.fixture(scope="module")
def inventing_run(answered_dataset: Dataset, out: Path) -> Run:
    return evaluate(inventing_agent, answered_dataset, out=out, retries=0, answers=True)


@pytest.fixture(scope="module")
def worse(timid_run: Run, inventing_run: Run) -> Comparison:
    return compare_runs(timid_run, inventing_run, [RATE])


@pytest.fixture(scope="module")
def better(timid_run: Run, inventing_run: Run) -> Comparison:
    return compare_runs(inventing_run, timid_run, [RATE])


@pytest.mark.parametrize("name", ["poisoned", "poisoned_exfiltration", RATE])
def test_only_rates_of_faults_are_better_lower(name: str) -> None:
    assert not parse_figure(name).higher_is_better
    assert all(parse_figure(each).higher_is_better for each in ("correctness", "criterion.polite"))


def test_the_verdict_calls_more_hallucinations_worse(worse: Comparison, better: Comparison) -> None:
    assert worse.metrics[RATE].difference == -better.metrics[RATE].difference > 0.3
    assert " worse in hallucination rate" in verdict(worse)
    assert " better in hallucination rate" in verdict(better)


def test_a_query_is_won_by_the_run_that_hallucinates_less(better: Comparison) -> None:
    row = better.metrics[RATE]
    assert row.wins > row.losses == 0


def test_more_hallucinations_are_a_regression_and_fewer_are_none(
    worse: Comparison, better: Comparison
) -> None:
    found = regression_gate(worse)
    assert not found.passed
    assert "regression: hallucination rate +" in str(found.reason)
    assert regression_gate(better).passed


def test_the_page_colors_and_lists_them_as_worse(
    timid_run: Run, inventing_run: Run, answered_dataset: Dataset, worse: Comparison
) -> None:
    sides = [ComparedSide.read(run.folder) for run in (timid_run, inventing_run)]
    pair = comparison_view(sides, [worse], answered_dataset).pairs[0]
    assert pair.answers is not None
    assert pair.answers.gains == 0 < pair.answers.losses
    assert not any(change.better for change in pair.answers.worse)
    shown = render_comparison_page(sides, [worse], answered_dataset)
    assert 'class="number worse"' in shown
    assert 'class="score worse"' in shown
    assert not any(f'class="{kind} better"' in shown for kind in ("number", "score", "query"))
    text = read_page(shown).text
    assert "below the line, b is better" in text
    assert "0 queries better" in pair.win_loss


def test_the_interval_lies_on_the_side_of_worse(
    timid_run: Run, inventing_run: Run, worse: Comparison, better: Comparison
) -> None:
    def dot(comparison: Comparison) -> float:
        drawn = render_fragment("comparison_table.html", comparison=comparison)
        return float(drawn.split('<circle cx="')[1].split('"')[0])

    assert dot(worse) < 90 < dot(better)


def test_the_board_has_the_fewest_hallucinations_first(
    timid_run: Run, inventing_run: Run, out: Path
) -> None:
    points = []
    for number, run in enumerate((inventing_run, timid_run)):
        assert run.report.answers is not None
        rate = run.report.answers.statistics[RATE]
        value = TrendValue(rate.mean, rate.low, rate.high)
        made = point(number, {"target": run.name}, values={RATE: value})
        points.append(replace(made, line=replace(made.line, name=run.name)))
    board = make_board(out, points, RATE)
    assert [place.point.line.name for place in board.places] == [timid_run.name, inventing_run.name]
    assert [place.ranks for place in board.places] == ["1", "2"]


def test_the_largest_gain_is_the_largest_fall() -> None:
    row = AnswerRow.model_construct(query_id="q")
    pairs = [(size, row, row) for size in (0.5, -0.2, 0.0, -1.0)]
    gains, losses = gains_and_losses(pairs, parse_figure(RATE))
    assert [size for size, _, _ in gains] == [-1.0, -0.2]
    assert [size for size, _, _ in losses] == [0.5]
