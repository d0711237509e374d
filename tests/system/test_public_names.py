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
            {
                "top_k": 5,
                "split": "test",
                "gates": (),
                "answers": False,
                "out": "runs",
                "seed": 42,
                "num_queries": None,
                "concurrency": 8,
                "retries": 3,
            },
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


@pytest.mark.parametrize("name", ["report", "folder", "metrics", "comparison"])
def test_a_run_has(name: str) -> None:
    assert hasattr(assay.Run, name) or name in inspect.get_annotations(assay.Run)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (assay.nDCG @ 10, "ndcg@10"),
        (assay.Recall @ 100, "recall@100"),
        (assay.MRR @ 5, "mrr@5"),
        (assay.Precision @ 5, "precision@5"),
        (assay.Hit @ 1, "hit@1"),
        (assay.AP, "ap"),
    ],
)
def test_a_metric_by_its_name(metric: assay.Metric, name: str) -> None:
    assert assay.parse_metric(name) == metric


def test_a_data_set_from_dicts_is_evaluated(tmp_path: Any) -> None:
    data = assay.Dataset.from_dicts({"q1": "tea", "q2": "soup"}, {"q1": {"d1": 1}, "q2": {"d2": 1}})
    run = assay.evaluate(lambda query, top_k: ["d1"], data, out=tmp_path)
    assert run.metrics["ndcg@5"] == 0.5
    assert assay.load_run(run.folder).metrics == run.metrics
    assert [row.query_id for row in run.rows()] == ["q1", "q2"]
    assert run.compare(run).metrics["ndcg@5"].difference == 0
