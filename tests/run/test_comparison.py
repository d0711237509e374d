from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from assay import Dataset, evaluate
from assay.errors import RunError
from assay.metrics.metric import MRR
from assay.metrics.statistics import PairedResult, holm, queries_needed
from assay.run.comparison import ComparedRun, compare_reports, compare_with_each
from assay.run.models import Comparison


@cache
def base() -> ComparedRun:
    queries = {f"q{i}": f"query {i}" for i in range(30)}
    data = Dataset.from_dicts(queries, {each: {"d": 1} for each in queries})
    with TemporaryDirectory() as out:
        return ComparedRun.read(
            evaluate(lambda query, top_k: ["d"], data, out=out, track="zero-shot").folder
        )


def run(values: list[float], key: str = "ndcg_at_5", **changes: Any) -> ComparedRun:
    report = base().report.model_copy(update={"metrics": {"ndcg@5": 0.0}} | changes)
    scores = {f"q{i}": {key: value} for i, value in enumerate(values)}
    return replace(base(), report=report, scores=scores, texts={}, references={})


def first_of(comparison: Comparison) -> PairedResult:
    return next(iter(comparison.metrics.values()))


LOW = [0.1 * (i % 5) for i in range(30)]
HIGH = [value + 0.05 * (i % 3) for i, value in enumerate(LOW)]
HIGHER = [value + 0.1 * (i % 2) for i, value in enumerate(LOW)]


def test_several_systems_are_corrected_together() -> None:
    alone = [first_of(compare_reports(run(LOW), run(each))) for each in (HIGH, HIGHER)]
    together = compare_with_each(run(LOW), [run(HIGH), run(HIGHER)])
    expected = holm([each.p_value for each in alone])
    assert [first_of(each).p_adjusted for each in together] == expected
    assert max(expected) > max(each.p_adjusted for each in alone) / 2


def test_runs_without_a_common_query_are_refused() -> None:
    other = replace(run(LOW), scores={"other": {"ndcg_at_5": 1.0}})
    with pytest.raises(RunError, match="no query in common"):
        compare_reports(run(LOW), other)


def test_runs_without_a_common_figure_are_refused() -> None:
    other = run(LOW, "ndcg_at_3", metrics={"ndcg@3": 0.0})
    with pytest.raises(RunError, match="no figure in common"):
        compare_reports(run(LOW), other)
    with pytest.raises(RunError, match="no MRR@5 in common"):
        compare_reports(run(LOW), run(HIGH), [MRR @ 5])


def test_a_query_whose_text_changed_is_another_query() -> None:
    a, b = (replace(run(LOW), texts={"q0": text, "q1": "same"}) for text in ("old", "new"))
    assert first_of(compare_reports(a, b)).n == len(LOW) - 1


def test_what_limits_the_comparison_is_said() -> None:
    other = run(
        HIGH[:20],
        track="trained",
        state="interrupted",
        dataset=base().report.dataset.model_copy(update={"labels": "other"}),
    )
    first, *others = compare_reports(run(LOW), other).warnings
    assert first == "compared on the 20 queries of both runs, of 30 of a and 20 of b"
    assert others == [
        "the labels or questions differ between the runs: scores are as recorded",
        "the tracks differ: zero-shot and trained",
        "b is interrupted",
    ]


def test_a_comparison_says_how_many_queries_its_difference_would_need() -> None:
    differences = np.array(HIGH) - np.array(LOW)
    spread, mean = float(differences.std()), float(differences.mean())
    alone = first_of(compare_reports(run(LOW), run(HIGH)))
    assert alone.difference == pytest.approx(0.05)
    assert alone.queries_needed == queries_needed(spread, mean)
    together = first_of(compare_with_each(run(LOW), [run(HIGH), run(HIGHER)])[0])
    assert together.queries_needed == queries_needed(spread, mean, 2)
    assert first_of(compare_reports(run(LOW), run(LOW))).queries_needed is None


def test_metrics_are_matched_whatever_their_spelling() -> None:
    old = run([0.5], "capped_recall_at_5", metrics={"cappedrecall@5": 0.5})
    new = run([0.5], "capped_recall_at_5", metrics={"capped_recall@5": 0.5})
    assert set(compare_reports(old, new).metrics) == {"capped_recall@5"}
