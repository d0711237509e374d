"""Assay measures retrieval agents: how good they are, where they fail and what changed.

    import assay

    def search(query: str, top_k: int) -> list[str]: ...

    run = assay.evaluate(search, "notes", baseline="builtin:bm25")
    print(run.metrics["ndcg@5"], run.comparison, run.folder)

Names are imported when they are first used, so that `import assay` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.data.dataset import Dataset, Document, Query
    from assay.data.load import load_dataset
    from assay.errors import AssayError, SanityWarning
    from assay.evaluation.answers.logged_rows import ScoredAnswers, score_answers
    from assay.evaluation.api import evaluate, evaluate_agent
    from assay.evaluation.run import Run, compare_runs, load_run, runs
    from assay.metrics.metric import (
        AP,
        MRR,
        CappedRecall,
        Hit,
        Judged,
        Metric,
        Precision,
        Recall,
        nDCG,
        parse_metric,
    )
    from assay.metrics.scoring import score
    from assay.run.models import Comparison, Report

    __version__: str

__all__ = [
    "AP",
    "MRR",
    "AssayError",
    "CappedRecall",
    "Comparison",
    "Dataset",
    "Document",
    "Hit",
    "Judged",
    "Metric",
    "Precision",
    "Query",
    "Recall",
    "Report",
    "Run",
    "SanityWarning",
    "ScoredAnswers",
    "__version__",
    "compare_runs",
    "evaluate",
    "evaluate_agent",
    "load_dataset",
    "load_run",
    "nDCG",
    "parse_metric",
    "runs",
    "score",
    "score_answers",
]

_HOMES = {
    "assay.data.dataset": ("Dataset", "Document", "Query"),
    "assay.data.load": ("load_dataset",),
    "assay.errors": ("AssayError", "SanityWarning"),
    "assay.evaluation.answers.logged_rows": ("ScoredAnswers", "score_answers"),
    "assay.evaluation.api": ("evaluate", "evaluate_agent"),
    "assay.evaluation.run": ("Run", "compare_runs", "load_run", "runs"),
    "assay.metrics.metric": (
        *("AP", "MRR", "CappedRecall", "Hit", "Judged", "Metric", "Precision", "Recall", "nDCG"),
        "parse_metric",
    ),
    "assay.metrics.scoring": ("score",),
    "assay.run.models": ("Comparison", "Report"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("agent-assay")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'assay' has no attribute {name!r}")
        return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
