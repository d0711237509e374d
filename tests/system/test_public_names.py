"""The Python names that others script against."""

import inspect
from typing import Any

import pytest

import assay

NAMES = {
    *("AP", "MRR", "AssayError", "CappedRecall", "Comparison", "Dataset", "Document", "Hit"),
    *("Judged", "Metric", "Precision", "Query", "Recall", "Report", "Run", "SanityWarning"),
    *("ScoredAnswers", "__version__", "compare_runs", "evaluate", "evaluate_agent"),
    *("load_dataset", "load_run", "nDCG", "parse_metric", "runs", "score", "score_answers"),
}


def test_the_public_names_are_these() -> None:
    assert set(assay.__all__) == NAMES
    assert set(dir(assay)) == NAMES
    assert all(getattr(assay, name) is not None for name in NAMES)


@pytest.mark.parametrize(
    ("call", "names", "defaults"),
    [
        (
            assay.evaluate,
            ("agent", "dataset"),
            {"top_k": 5, "split": "test", "answers": False, "out": "runs", "seed": 42}
            | {"gates": (), "num_queries": None, "concurrency": 8, "retries": 3},
        ),
        (assay.load_run, ("path",), {}),
        (assay.score, ("run", "qrels", "metrics"), {}),
        (assay.score_answers, ("rows",), {}),
        (assay.Run.compare, ("self", "other"), {}),
        (assay.Run.rows, ("self",), {}),
        (assay.Run.to_pandas, ("self",), {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_signature(call: Any, names: tuple[str, ...], defaults: dict[str, Any]) -> None:
    parameters = inspect.signature(call).parameters
    assert tuple(parameters)[: len(names)] == names
    assert {name: parameters[name].default for name in defaults} == defaults
