from typing import Any

import numpy as np
import pytest

from assay.errors import RunError
from assay.evaluation.comparison import compare_reports, compare_with_each
from assay.measure.statistics import holm, queries_needed


def report(values: list[float], **changes: Any) -> dict[str, Any]:
    rows = [{"query_id": f"q{i}", "ndcg_at_5": value} for i, value in enumerate(values)]
    return {
        "target": {"name": "t"},
        "track": "zero-shot",
        "state": "complete",
        "dataset": {"name": "d", "fingerprint": "f", "split": "test"},
        "metrics": {"ndcg@5": 0.0},
        "per_query_results": rows,
        **changes,
    }


LOW = [0.1 * (i % 5) for i in range(30)]
HIGH = [value + 0.05 * (i % 3) for i, value in enumerate(LOW)]
HIGHER = [value + 0.1 * (i % 2) for i, value in enumerate(LOW)]


def test_several_systems_are_corrected_together() -> None:
    alone = [compare_reports(report(LOW), report(each)).metrics[0] for each in (HIGH, HIGHER)]
    together = compare_with_each(report(LOW), [report(HIGH), report(HIGHER)])
    expected = holm([each.paired.p_value for each in alone])
    assert [each.metrics[0].p_adjusted for each in together] == expected
    assert max(expected) > max(each.p_adjusted for each in alone) / 2


def test_other_data_or_another_split_is_refused() -> None:
    for changed in ({"fingerprint": "g"}, {"split": "dev"}):
        other = report(LOW, dataset={"name": "d", "fingerprint": "f", "split": "test"} | changed)
        with pytest.raises(RunError, match="the runs are on different"):
            compare_reports(report(LOW), other)


def test_what_limits_the_comparison_is_said() -> None:
    warnings = compare_reports(
        report(LOW), report(HIGH[:20], track="trained", state="interrupted")
    ).warnings
    assert "compared on the 20 queries" in warnings[0]
    assert "the tracks differ: zero-shot and trained" in warnings[1]
    assert warnings[2] == "t is interrupted"


def test_a_comparison_says_how_many_queries_its_difference_would_need() -> None:
    found = compare_reports(report(LOW), report(HIGH)).metrics[0]
    differences = np.array(HIGH) - np.array(LOW)
    needed = queries_needed(float(differences.std()), float(differences.mean()))
    assert found.queries_needed == needed
    assert found.paired.difference == pytest.approx(0.05)
    assert compare_reports(report(LOW), report(LOW)).metrics[0].queries_needed is None


def test_metrics_are_matched_whatever_their_spelling() -> None:
    rows = [{"query_id": "q", "capped_recall_at_5": 0.5}]
    old = report([], metrics={"cappedrecall@5": 0.5}, per_query_results=rows)
    new = report([], metrics={"capped_recall@5": 0.5}, per_query_results=rows)
    assert set(compare_reports(old, new).to_json()["metrics"]) == {"capped_recall@5"}
