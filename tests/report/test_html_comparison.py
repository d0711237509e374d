"""Comparisons: the verdict in words, queries worst first, what was lost, slices, settings."""

import random
from pathlib import Path

import pytest
from tests.report.conftest import SCRIPT, query_row
from tests.report.page_reading import assert_harmless, read_page

from assay import Dataset, Run, compare_runs, evaluate
from assay.evaluation.gates import regression_gate
from assay.report.html import IN_FILE, OUTCOME, RELEVANT, TAG, WORDS, Slice, slices_of
from assay.report.html_comparison import (
    ComparePage,
    compare_page,
    compare_slices,
    render_compare_file,
)
from assay.report.terminal import verdict
from assay.run.comparison import ComparedRun

RATE = "hallucination_rate"


def compared(a: Run, *others: Run, dataset: Dataset | None = None, metric: str = "") -> ComparePage:
    sides = [ComparedRun.read(run.folder, keep_rows=True) for run in (a, *others)]
    figures = [metric] if metric else []
    comparisons = [compare_runs(a, other, figures) for other in others]
    return compare_page(sides, comparisons, dataset).choose(0, metric)


def test_the_file_is_harmless_and_has_every_section(
    plain_run: Run, hostile_run: Run, hostile_dataset: Dataset
) -> None:
    found = compared(plain_run, hostile_run, dataset=hostile_dataset)
    page = read_page(render_compare_file(found))
    assert_harmless(page)
    for words in ("Queries", "Documents", "Metrics", "Settings that differ", "Lost: Title"):
        assert words in page.text
    assert "ndcg@5>=0.9 failed" in page.text
    assert hostile_run.name in page.text
    assert len(page.tags("details")) >= IN_FILE
    ids = [each["id"] for _, each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))


def test_answers_side_by_side(answered_run: Run, timid_run: Run, answered_dataset: Dataset) -> None:
    found = compared(answered_run, timid_run, dataset=answered_dataset)
    assert str(found.figure) == "correctness"
    page = read_page(render_compare_file(found))
    assert_harmless(page)
    assert "I do not know." in page.text
    assert SCRIPT in page.text
    assert ">-1.0<" in compared(answered_run, timid_run, metric="truthfulness").scatter()
    ranked = compared(answered_run, timid_run, metric="ndcg@5")
    assert str(ranked.figure) == "nDCG@5"
    assert ">-1.0<" not in ranked.scatter()


# --- rates of faults, of which less is better --------------------------------------------------


def inventing_agent(query: str, top_k: int) -> dict[str, object]:
    """Right on every fourth question, wrong on all others."""
    number = int(query.split()[1])
    answer = f"fact {number} is right" if number % 4 == 1 else f"Dragons dwell here. {SCRIPT}"
    return {"doc_ids": [f"d{number}"], "answer": answer, "citations": [f"d{number}"]}


def test_more_hallucinations_are_worse_everywhere(
    timid_run: Run, answered_dataset: Dataset, tmp_path: Path
) -> None:
    inventing_run = evaluate(inventing_agent, answered_dataset, out=tmp_path, answers=True)
    worse = compare_runs(timid_run, inventing_run, [RATE])
    better = compare_runs(inventing_run, timid_run, [RATE])
    assert worse.metrics[RATE].difference == -better.metrics[RATE].difference > 0.3
    assert " worse in hallucination rate" in verdict(worse)
    assert " better in hallucination rate" in verdict(better)
    assert better.metrics[RATE].wins > better.metrics[RATE].losses == 0
    assert "regression: hallucination rate +" in str(regression_gate(worse).reason)
    assert regression_gate(better).passed
    found = compared(timid_run, inventing_run, metric=RATE)
    assert found.outcome == "got worse"
    assert found.better == 0 < found.worse
    assert found.queries[0].b > found.queries[0].a


def test_a_query_belongs_to_one_slice_of_each_kind_and_to_its_tags() -> None:
    row = query_row("q", relevant=3, query_text="how long does tea steep?")
    found = list(slices_of(row, ["drinks", "short"]))
    assert found == [
        *[(WORDS, "5–7"), (RELEVANT, "2–3")],
        *[(TAG, "drinks"), (TAG, "short"), (OUTCOME, "nothing found")],
    ]
    assert [one.title for one in found[:3]] == ["5–7 words", "2–3 relevant", "tag drinks"]
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
