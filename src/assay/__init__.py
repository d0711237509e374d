"""Assay measures retrieval agents: how good, how sure, where they fail, and what changed.

    import assay

    def search(query: str, top_k: int) -> list[str]: ...

    run = assay.evaluate_agent(search, "notes")
    print(run.metrics["ndcg@5"], run.folder.path)

Names are imported when they are first used, so that `import assay` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.data.dataset import Dataset, Document, Query
    from assay.data.load import load_dataset
    from assay.errors import AssayError
    from assay.evaluation.comparison import Comparison
    from assay.evaluation.evaluation import Outcome
    from assay.evaluation.library import compare_runs, evaluate_agent
    from assay.measure.metrics import Metric, parse_metric
    from assay.measure.scoring import score

__all__ = [
    "AssayError",
    "Comparison",
    "Dataset",
    "Document",
    "Metric",
    "Outcome",
    "Query",
    "compare_runs",
    "evaluate_agent",
    "load_dataset",
    "parse_metric",
    "score",
]

_HOMES = {
    "AssayError": "assay.errors",
    "Comparison": "assay.evaluation.comparison",
    "Dataset": "assay.data.dataset",
    "Document": "assay.data.dataset",
    "Metric": "assay.measure.metrics",
    "Outcome": "assay.evaluation.evaluation",
    "Query": "assay.data.dataset",
    "compare_runs": "assay.evaluation.library",
    "evaluate_agent": "assay.evaluation.library",
    "load_dataset": "assay.data.load",
    "parse_metric": "assay.measure.metrics",
    "score": "assay.measure.scoring",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
