"""The measures of answers that need no model, by name, one figure a question.

Which questions a metric covers depends on the question alone, never on what the agent did: so
the figures of two agents can be paired, and declining or failing is never a way out of the mean.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.data.dataset import Document
from assay.measure.answers.abstention import abstained, abstention
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.facts import fact_recall
from assay.measure.answers.faithfulness import faithfulness
from assay.measure.answers.relevance import answer_relevance
from assay.measure.answers.sources import (
    citation_precision,
    citation_recall,
    context_precision,
    context_recall,
    multi_hop_coverage,
)
from assay.measure.graded import Floats

Documents = Mapping[str, Document]


@dataclass(frozen=True, repr=False)
class AnswerMetric:
    """`how` says what stands behind the figure, for every table that shows it."""

    name: str
    how: str
    covers: Callable[[AnswerCase], bool]
    value: Callable[[AnswerCase, str, Documents], float]
    wants: Callable[[AnswerCase], int] = lambda _case: 0
    """How many documents a full score takes, where that can be more than an agent may return."""
    of_retrieval: bool = False
    """Needs no answer: what an agent found counts although it said nothing."""

    def __repr__(self) -> str:
        return self.name

    @property
    def key(self) -> str:
        return self.name

    @property
    def higher_is_better(self) -> bool:
        return True

    def measure(self, case: AnswerCase, documents: Documents) -> float:
        """0 for an agent that failed."""
        if case.answer is None and not self.of_retrieval:
            return 0.0
        return self.value(case, case.answer or "", documents)

    def mean_ceiling(self, cases: Sequence[AnswerCase], top_k: int) -> float:
        """The best mean that an agent with `top_k` documents can reach on the covered cases."""
        wanted = [self.wants(case) for case in cases if self.covers(case)]
        best = [min(1.0, top_k / number) if number else 1.0 for number in wanted]
        return sum(best) / len(best) if best else 1.0


def _answerable(case: AnswerCase) -> bool:
    return case.answerable


def _judged(case: AnswerCase) -> bool:
    return case.answerable and bool(case.relevant_ids)


def _faithful(case: AnswerCase, answer: str, documents: Documents) -> float:
    """Against what is cited or, for agents that do not cite, against what was retrieved."""
    if abstained(answer):
        return 0.0
    ids = case.citations or case.retrieved
    return faithfulness(answer, [documents[i].full_text for i in ids if i in documents])


_ALL = [
    AnswerMetric(
        "fact_recall",
        "key facts found in the answer by their accepted wordings",
        lambda case: bool(case.reference.facts),
        lambda case, answer, _: fact_recall(answer, case.reference.facts),
    ),
    AnswerMetric(
        "faithfulness",
        "sentences whose words and numbers stand in a cited document",
        _answerable,
        _faithful,
    ),
    AnswerMetric(
        "answer_relevance",
        "words of the question that the answer takes up",
        _answerable,
        lambda case, answer, _: answer_relevance(case.question, answer),
    ),
    AnswerMetric(
        "abstention",
        "declined exactly where there is no answer, by the usual phrases",
        lambda case: True,
        lambda case, answer, _: abstention(answer, answerable=case.answerable),
    ),
    AnswerMetric(
        "citation_precision",
        "cited documents that are judged relevant",
        _judged,
        lambda case, answer, _: citation_precision(case.citations, case.relevant_ids),
    ),
    AnswerMetric(
        "citation_recall",
        "relevant documents that are cited",
        _judged,
        lambda case, answer, _: citation_recall(case.citations, case.relevant_ids),
        lambda case: len(case.relevant_ids),
    ),
    AnswerMetric(
        "context_precision",
        "retrieved documents that are judged relevant",
        _judged,
        lambda case, answer, _: context_precision(case.retrieved, case.relevant_ids),
        of_retrieval=True,
    ),
    AnswerMetric(
        "context_recall",
        "needed documents that were retrieved",
        lambda case: case.answerable and bool(case.needed),
        lambda case, answer, _: context_recall(case.retrieved, case.needed),
        lambda case: len(case.needed),
        of_retrieval=True,
    ),
    AnswerMetric(
        "multi_hop_coverage",
        "needed documents that are cited, where two or more are needed",
        lambda case: case.answerable and len(case.reference.documents) > 1,
        lambda case, answer, _: multi_hop_coverage(case.citations, case.needed),
        lambda case: len(case.needed),
    ),
]

ANSWER_METRICS: Mapping[str, AnswerMetric] = {metric.name: metric for metric in _ALL}

JUDGED_METRICS: Mapping[str, str] = {
    "correctness": "the answer says what the reference says",
    "judged_facts": "key facts that the judge finds stated",
    "judged_faithfulness": "sentences that the judge finds supported by the cited documents",
}
"""What a judge adds, by name. `correctness` is there without one as well, by key facts."""


ANSWER_NAMES = (*JUDGED_METRICS, *ANSWER_METRICS)


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """For each metric the questions it covers, and one figure for each of them in that order."""

    query_ids: dict[str, list[str]]
    values: dict[str, Floats]

    def mean(self, metric: str) -> float:
        values = self.values[metric]
        return float(values.mean()) if values.size else 0.0


def measure_answers(
    cases: Sequence[AnswerCase],
    documents: Documents,
    metrics: Sequence[AnswerMetric] = tuple(_ALL),
) -> AnswerScores:
    query_ids: dict[str, list[str]] = {}
    values: dict[str, Floats] = {}
    for metric in metrics:
        covered = [case for case in cases if metric.covers(case)]
        query_ids[metric.name] = [case.query_id for case in covered]
        figures = [metric.measure(case, documents) for case in covered]
        values[metric.name] = np.array(figures, dtype=np.float64)
    return AnswerScores(query_ids, values)


def answer_metric_name(text: str) -> str | None:
    """The name of a metric of answers, however it is spelt; None where there is none so called."""
    name = "_".join(text.strip().lower().replace("-", " ").replace("_", " ").split())
    return name if name in ANSWER_NAMES else None
