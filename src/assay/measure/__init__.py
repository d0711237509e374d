"""Scores of ranked lists, their ceilings, and their confidence intervals."""

from assay.measure.metrics import (
    AP,
    MRR,
    CappedRecall,
    Hit,
    Judged,
    Metric,
    Precision,
    Recall,
    Rprec,
    bpref,
    infNDCG,
    nDCG,
    parse_metric,
)
from assay.measure.scoring import Scores, score, score_rankings
from assay.measure.statistics import (
    PairedComparison,
    SampleSummary,
    compare_paired,
    holm,
    queries_needed,
    summarize,
)
from assay.measure.violations import Violation, Violations

__all__ = [
    "AP",
    "MRR",
    "CappedRecall",
    "Hit",
    "Judged",
    "Metric",
    "PairedComparison",
    "Precision",
    "Recall",
    "Rprec",
    "SampleSummary",
    "Scores",
    "Violation",
    "Violations",
    "bpref",
    "compare_paired",
    "holm",
    "infNDCG",
    "nDCG",
    "parse_metric",
    "queries_needed",
    "score",
    "score_rankings",
    "summarize",
]
