"""Queries by runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

import assay
from assay.data import Dataset
from assay.errors import RunError
from assay.report.matrix import MATRIX_ORDERS, MatrixRow, read_matrix


def _first(query: str, top_k: int) -> list[str]:
    return [f"d{query.split()[1]}"]


def _second(query: str, top_k: int) -> list[str]:
    return [] if query == "query 3" else _first(query, top_k)


def test_scores_of_each_run_stand_in_its_column(
    make_dataset: Callable[[int], Dataset], tmp_path: Path
) -> None:
    data = make_dataset(8)
    runs = [assay.evaluate(each, data, out=tmp_path) for each in (_first, _second)]
    matrix = read_matrix([run.folder for run in runs], {"q3": ("odd",)})
    assert [column.mean for column in matrix.columns] == [
        run.report.headline[1].mean for run in runs
    ]
    worst = matrix.ordered("spread")[0]
    assert worst.query_id == "q3"
    assert worst.scores[1] == 0.0
    assert worst.change == -worst.known[0]
    assert "Tag of the query: odd" in worst.slices
    assert [row.query_id for row in matrix.ordered("plan")] == [f"q{n}" for n in range(8)]
    assert {len(matrix.ordered(order)) for order in MATRIX_ORDERS} == {8}
    assert {column.label.split(":")[0] for column in matrix.columns} == {"python"}


def test_runs_on_other_data_are_refused(
    make_dataset: Callable[[int], Dataset], tmp_path: Path
) -> None:
    runs = [assay.evaluate(_first, make_dataset(size), out=tmp_path) for size in (4, 5)]
    with pytest.raises(RunError, match="were made on different data"):
        read_matrix([run.folder for run in runs], {})


def test_a_query_that_a_run_did_not_ask_has_no_score() -> None:
    row = MatrixRow("q", "text", [0.5, None, 1.0])
    assert row.tones == ["step-2", "none", "step-4"]
    assert row.mean == 0.75
    assert row.change == 0.5
