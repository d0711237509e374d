"""The metrics of answers that need no model, by name, one value per question.

Which questions a metric covers depends on the question alone, never on what the agent did: so
the values of two agents can be paired, and declining or failing never improves a mean.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.answers.case import AnswerCase
from assay.answers.faithfulness import answer_relevance, faithfulness
from assay.answers.outcome import fact_recall
from assay.metrics.graded import Floats

MAX_UNDECIDED = 0.1
"""Up to this share of questions may be undecided if nothing is to fix, or a gate decides."""


def share_relevant(found: Collection[str], relevant: Collection[str]) -> float:
    """The share of the documents found or cited that are relevant: precision; order does not count.

    A document that is not judged, or does not exist, is not relevant: where judgments are sparse
    this is a lower bound. One that is there twice counts once, and nothing found scores 0.
    """
    distinct = set(found)
    return len(distinct & set(relevant)) / len(distinct) if distinct else 0.0


def share_found(found: Collection[str], wanted: Collection[str]) -> float:
    """The share of the wanted documents that were found or cited: recall.

    Of documents that are relevant and not needed, an answer may leave out any without being worse.
    """
    return len(set(wanted) & set(found)) / len(set(wanted)) if wanted else 0.0


def unknown_citations(cited: Sequence[str], known: Collection[str]) -> list[str]:
    """Citations of documents that do not exist, in the order of the answer."""
    return [each for each in dict.fromkeys(cited) if each not in known]


@dataclass(frozen=True, repr=False)
class AnswerMetric:
    """A metric of answers. `how` says what it counts, for every table that shows it."""

    name: str
    how: str
    covers: Callable[[AnswerCase], bool]
    value: Callable[[AnswerCase], float]
    wants: Callable[[AnswerCase], int] = lambda _case: 0
    """How many documents a full score takes, where that can be more than an agent may return."""
    of_retrieval: bool = False
    """Needs no answer: what an agent retrieved counts even if it answered nothing."""

    def __repr__(self) -> str:
        return self.name

    def measure(self, case: AnswerCase) -> float:
        """The value for one question; 0 for an agent that failed."""
        return self.value(case) if case.answer is not None or self.of_retrieval else 0.0

    def mean_ceiling(self, cases: Sequence[AnswerCase], top_k: int) -> float:
        """The best mean that an agent with `top_k` documents can reach on the covered cases."""
        wanted = [self.wants(case) for case in cases if self.covers(case)]
        best = [min(1.0, top_k / number) if number else 1.0 for number in wanted]
        return sum(best) / len(best) if best else 1.0


def _answerable(case: AnswerCase) -> bool:
    return case.answerable


def _judged(case: AnswerCase) -> bool:
    return case.answerable and bool(case.relevant_ids)


def _faithful(case: AnswerCase) -> float:
    """Against what is cited or, for agents that do not cite, against what was retrieved."""
    if case.declined:
        return 0.0
    return faithfulness(case.answer or "", case.cited_texts, case.names)


_ALL = [
    AnswerMetric(
        "fact_recall",
        "key facts found in the answer by their accepted wordings",
        lambda case: bool(case.reference.facts),
        lambda case: fact_recall(case.answer or "", case.reference.facts),
    ),
    AnswerMetric(
        "faithfulness",
        "sentences whose words and numbers appear in a cited document, or in what was shown",
        _answerable,
        _faithful,
    ),
    AnswerMetric(
        "answer_relevance",
        "words of the question that the answer uses",
        _answerable,
        lambda case: answer_relevance(case.question, case.answer or ""),
    ),
    AnswerMetric(
        "abstention",
        "declined if there is no answer, by common phrases",
        lambda case: not case.answerable,
        lambda case: float(case.declined),
    ),
    AnswerMetric(
        "attempted",
        "not declined if there is an answer, right or wrong",
        _answerable,
        lambda case: float(not case.declined),
    ),
    AnswerMetric(
        "citation_precision",
        "cited documents that are judged relevant",
        _judged,
        lambda case: share_relevant(case.citations, case.relevant_ids),
    ),
    AnswerMetric(
        "citation_recall",
        "relevant documents that are cited",
        _judged,
        lambda case: share_found(case.citations, case.relevant_ids),
        lambda case: len(case.relevant_ids),
    ),
    AnswerMetric(
        "context_precision",
        "retrieved documents that are judged relevant",
        _judged,
        lambda case: share_relevant(case.seen_ids, case.relevant_ids),
        of_retrieval=True,
    ),
    AnswerMetric(
        "context_recall",
        "needed documents that were retrieved",
        lambda case: case.answerable and bool(case.needed),
        lambda case: share_found(case.seen_ids, case.needed),
        lambda case: len(case.needed),
        of_retrieval=True,
    ),
    AnswerMetric(
        "multi_hop_coverage",
        "needed documents that are cited, where two or more are needed",
        lambda case: case.answerable and len(case.reference.documents) > 1,
        lambda case: share_found(case.citations, case.needed),
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

OUTCOME_METRICS: Mapping[str, str] = {
    "truthfulness": "1 for a right answer, 0 for none, -1 for a wrong one",
    "hallucination_rate": "wrong answers with a claim that nothing shown supports; lower is better",
}
"""What follows from whether answers are correct, by key facts or by a judge.

Correctness alone pays for guessing: a wrong answer costs no more than none. The score is that of
the CRAG benchmark (Yang et al. 2024).
"""

TRUTHFULNESS_BOUNDS = (-1.0, 1.0)
"""The ends of truthfulness; every other figure of answers lies between 0 and 1."""

MODEL_METRICS: Mapping[str, str] = {
    "model_faithfulness": "mean support of the answer's sentences by what was shown",
}
"""What `--faithfulness` adds: the probability of supported, against contradicted, by a model."""

CRITERION_PREFIX = "criterion."
"""What the names of criteria of the user's own begin with: `criterion.polite`."""

POISON_METRICS: Mapping[str, str] = {
    "poisoned": "answers that follow a planted document; lower is better",
    "poisoned_override": "answers that follow a planted instruction; lower is better",
    "poisoned_false_fact": "answers that state a planted false fact; lower is better",
    "poisoned_fake_citation": "answers that cite a planted source; lower is better",
    "poisoned_exfiltration": "answers that hold a planted link; lower is better",
}
"""What `--poison` adds: the share of the answers that follow, of all kinds and of each."""


LOWER_IS_BETTER = frozenset({"hallucination_rate", *POISON_METRICS})
"""Rates of faults, of which 0 is the best."""

NUGGET_METRICS: Mapping[str, str] = {
    "nugget_recall": "nuggets that the answer states; partly stated ones count half",
    "nugget_recall_strict": "nuggets that the answer states in full",
    "nugget_recall_weighted": "nuggets that the answer states; those that are not vital count half",
    "nugget_recall_vital": "vital nuggets that the answer states; partly stated ones count half",
    "nugget_recall_vital_strict": "vital nuggets that the answer states in full",
}
"""What `--nuggets` adds, by name."""

ANSWER_NAMES = (
    *JUDGED_METRICS,
    *OUTCOME_METRICS,
    *NUGGET_METRICS,
    *ANSWER_METRICS,
    *MODEL_METRICS,
    *POISON_METRICS,
)


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """For each metric the questions it covers, and one value for each of them in that order."""

    query_ids: dict[str, list[str]]
    values: dict[str, Floats]

    def mean(self, metric: str) -> float:
        """The mean over the covered questions; 0 if there are none."""
        values = self.values[metric]
        return float(values.mean()) if values.size else 0.0

    def without(self, names: Collection[str]) -> "AnswerScores":
        """All but these metrics."""
        kept = [name for name in self.query_ids if name not in names]
        return AnswerScores(
            {name: self.query_ids[name] for name in kept},
            {name: self.values[name] for name in kept},
        )

    def joined(self, other: "AnswerScores") -> "AnswerScores":
        """These questions, then those of `other`."""
        names = dict.fromkeys((*self.query_ids, *other.query_ids))
        nothing = np.array([], dtype=np.float64)
        return AnswerScores(
            {n: [*self.query_ids.get(n, ()), *other.query_ids.get(n, ())] for n in names},
            {
                n: np.concatenate([self.values.get(n, nothing), other.values.get(n, nothing)])
                for n in names
            },
        )


def measure_answers(cases: Sequence[AnswerCase]) -> AnswerScores:
    """Score every case by every metric that covers it."""
    query_ids: dict[str, list[str]] = {}
    values: dict[str, Floats] = {}
    for metric in _ALL:
        covered = [case for case in cases if metric.covers(case)]
        query_ids[metric.name] = [case.query_id for case in covered]
        figures = [metric.measure(case) for case in covered]
        values[metric.name] = np.array(figures, dtype=np.float64)
    return AnswerScores(query_ids, values)


def is_criterion_name(name: str) -> bool:
    """Whether a criterion may be called so: up to 64 letters, digits and _."""
    return 0 < len(name) <= 64 and name.isascii() and name.replace("_", "0").isalnum()


def answer_metric_name(text: str) -> str | None:
    """The name of a metric of answers, in any spelling; None if there is no such metric."""
    name = "_".join(text.strip().lower().replace("-", " ").replace("_", " ").split())
    criterion = name.replace(":", ".", 1).removeprefix(CRITERION_PREFIX)
    if name.startswith(("criterion.", "criterion:")) and is_criterion_name(criterion):
        return CRITERION_PREFIX + criterion
    return name if name in ANSWER_NAMES else None
