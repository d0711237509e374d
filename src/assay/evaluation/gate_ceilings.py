"""The best that a gate's figure can be in a planned run, before anything is asked."""

import math
from collections.abc import Sequence

from assay.data.dataset import Dataset, Query
from assay.errors import UsageError
from assay.evaluation.gates import Gate
from assay.evaluation.plan import RunConfig, judgments_of
from assay.measure.answers.answer_metrics import ANSWER_METRICS, correct_by_facts
from assay.measure.scoring import score_rankings


def ceiling_of(gate: Gate, dataset: Dataset, config: RunConfig, queries: Sequence[Query]) -> float:
    """Raise `UsageError` for a figure that this run will not have."""
    if gate.answers:
        return _ceiling_of_answers(gate, dataset, config, queries)
    if gate.metric is None:
        return math.inf
    judgments = judgments_of(dataset, config, queries)
    known = dataset.documents.keys()
    scores = score_rankings({}, judgments, [gate.metric], known=known, top_k=config.top_k)
    return scores.mean_ceiling(gate.metric)


def _ceiling_of_answers(
    gate: Gate, dataset: Dataset, config: RunConfig, queries: Sequence[Query]
) -> float:
    if not config.answers:
        raise UsageError(f"gate {gate.text!r} is about answers; add --answers")
    from assay.evaluation.answers.cases import cases_of

    cases = cases_of(dataset, config.split, queries, [None] * len(queries), config.top_k)
    if gate.name in ANSWER_METRICS:
        return ANSWER_METRICS[gate.name].mean_ceiling(cases, config.top_k)
    by_facts = any(correct_by_facts(case) is not None for case in cases)
    if not config.judge and not (gate.name == "correctness" and by_facts):
        raise UsageError(f"gate {gate.text!r} needs a model that judges; add --judge")
    return 1.0
