"""The metrics of answers that need no model, by name, one value per question.

Which questions a metric covers depends on the question alone, never on what the agent did: so
the values of two agents can be paired, and declining or failing never improves a mean.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from assay.answers.case import AnswerCase
from assay.answers.faithfulness import answer_relevance, faithfulness
from assay.answers.outcome import stated_facts


def share_relevant(found: Collection[str], relevant: Collection[str]) -> float:
    """The share of the documents found or cited that are relevant: precision, 0 for none.

    What is not judged is not relevant: with sparse judgments this is a lower bound.
    """
    distinct = set(found)
    return len(distinct & set(relevant)) / len(distinct) if distinct else 0.0


def share_found(found: Collection[str], wanted: Collection[str]) -> float:
    """The share of the wanted documents that were found or cited: recall."""
    return len(set(wanted) & set(found)) / len(set(wanted)) if wanted else 0.0


@dataclass(frozen=True)
class AnswerMetric:
    """A metric of answers."""

    name: str
    covers: Callable[[AnswerCase], bool]
    value: Callable[[AnswerCase], float]
    wants: Callable[[AnswerCase], int] = lambda _case: 0
    """How many documents a full score takes, if that can be more than an agent may return."""
    of_retrieval: bool = False  # what an agent retrieved counts even if it answered nothing

    def mean_ceiling(self, cases: Sequence[AnswerCase], top_k: int) -> float:
        """The best mean that an agent with `top_k` documents can reach on the covered cases."""
        wanted = [self.wants(case) for case in cases if self.covers(case)]
        best = [min(1.0, top_k / number) if number else 1.0 for number in wanted]
        return sum(best) / len(best) if best else 1.0


def _answerable(case: AnswerCase) -> bool:
    return case.answerable


def _judged(case: AnswerCase) -> bool:
    return case.answerable and bool(case.relevant_ids)


def _fact_recall(case: AnswerCase) -> float:
    facts = case.reference.facts
    return len(stated_facts(case.answer or "", facts, case.sources)) / len(facts)


def _faithful(case: AnswerCase) -> float:
    """Against what is cited or, for agents that do not cite, against what was retrieved."""
    if case.declined:
        return 0.0
    return faithfulness(case.answer or "", case.cited_texts, case.names)


_ALL = [
    AnswerMetric("fact_recall", lambda case: bool(case.reference.facts), _fact_recall),
    AnswerMetric("faithfulness", _answerable, _faithful),
    AnswerMetric(
        "answer_relevance",
        _answerable,
        lambda case: answer_relevance(case.question, case.answer or ""),
    ),
    AnswerMetric("abstention", lambda case: not case.answerable, lambda case: case.declined),
    AnswerMetric("attempted", _answerable, lambda case: not case.declined),
    AnswerMetric(
        "citation_precision",
        _judged,
        lambda case: share_relevant(case.citations, case.relevant_ids),
    ),
    AnswerMetric(
        "citation_recall",
        _judged,
        lambda case: share_found(case.citations, case.relevant_ids),
        lambda case: len(case.relevant_ids),
    ),
    AnswerMetric(
        "context_precision",
        _judged,
        lambda case: share_relevant(case.seen_ids, case.relevant_ids),
        of_retrieval=True,
    ),
    AnswerMetric(
        "context_recall",
        lambda case: case.answerable and bool(case.needed),
        lambda case: share_found(case.seen_ids, case.needed),
        lambda case: len(case.needed),
        of_retrieval=True,
    ),
    AnswerMetric(
        "multi_hop_coverage",
        lambda case: case.answerable and len(case.reference.documents) > 1,
        lambda case: share_found(case.citations, case.needed),
        lambda case: len(case.needed),
    ),
]

ANSWER_METRICS: Mapping[str, AnswerMetric] = {metric.name: metric for metric in _ALL}

Columns = dict[str, dict[str, float]]
"""By the name of each metric its values by query id: of the questions that it covers."""


def measure_answers(cases: Sequence[AnswerCase]) -> Columns:
    """Score every case by every metric that covers it; an agent that failed gets 0."""
    return {
        metric.name: {
            case.query_id: float(metric.value(case))
            if case.answer is not None or metric.of_retrieval
            else 0.0
            for case in cases
            if metric.covers(case)
        }
        for metric in _ALL
    }
