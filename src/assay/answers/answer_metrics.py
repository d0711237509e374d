"""The metrics of answers that need no model, by name, one value per question.

Which questions a metric covers depends on the question alone, never on what the agent did: so
the values of two agents can be paired, and declining or failing never improves a mean.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from assay.answers.abstention import abstained, declined
from assay.answers.lexical import answer_relevance, fact_recall, faithfulness
from assay.data.dataset import Document, ReferenceAnswer
from assay.llm.passages import ContextChunk
from assay.metrics.graded import Floats

Documents = Mapping[str, Document]

BY_FACTS = "every key fact stated by an accepted wording; declined where there is no answer"
BY_DECLINING = "declined where there is no answer; no other answer is decided"
"""How `correct_by_facts` decides, for tables and reports."""

MAX_ANSWER = 100_000
"""Characters of an answer that are measured and judged, some 30 pages: nobody reads more of one."""

FEW_UNDECIDED = 0.1
"""Up to this share of questions may be undecided where nothing is to fix, or a gate decides."""


@dataclass(frozen=True, slots=True)
class AnswerCase:
    """One question, what a correct answer needs, and what an agent answered.

    `answer` is None if the agent failed. `relevant` are the judgments of the question;
    `retrieved` and `citations` are document ids as the agent gave them, `contexts` the passages
    that its model was shown, where the agent says. Of an answer beyond `MAX_ANSWER` the rest is
    left out, and `answer_length` says how long it was.
    """

    query_id: str
    question: str
    reference: ReferenceAnswer
    relevant: Mapping[str, int] = field(default_factory=dict)
    answer: str | None = None
    retrieved: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    contexts: tuple[ContextChunk, ...] = ()
    repeated_citations: int = 0
    answer_length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer_length", len(self.answer or ""))
        if self.answer is not None:
            object.__setattr__(self, "answer", self.answer[:MAX_ANSWER])

    @property
    def answerable(self) -> bool:
        """Whether the documents hold an answer; if not, declining is correct."""
        return self.reference.answer is not None

    @property
    def relevant_ids(self) -> frozenset[str]:
        """The documents that are judged relevant."""
        return frozenset(doc_id for doc_id, grade in self.relevant.items() if grade > 0)

    @property
    def needed(self) -> frozenset[str]:
        """The documents that the reference answer rests on, else all that are judged relevant."""
        return frozenset(self.reference.documents) or self.relevant_ids

    @property
    def seen_ids(self) -> tuple[str, ...]:
        """The documents that the model was shown: those of the contexts, else what was found."""
        shown = tuple(dict.fromkeys(each.doc_id for each in self.contexts if each.doc_id))
        return shown or self.retrieved

    def seen_texts(self, documents: Documents) -> list[str]:
        """What the model was shown: the contexts themselves, else the documents found."""
        if self.contexts:
            return [chunk.text for chunk in self.contexts]
        return _texts(self.retrieved, documents)

    def cited_texts(self, documents: Documents) -> list[str]:
        """What the answer cites; all that was shown where it cites nothing."""
        if not self.citations:
            return self.seen_texts(documents)
        shown = [chunk.text for chunk in self.contexts if chunk.doc_id in self.citations]
        return shown or _texts(self.citations, documents)


def _texts(ids: Sequence[str], documents: Documents) -> list[str]:
    return [documents[each].full_text for each in ids if each in documents]


def correct_by_facts(case: AnswerCase) -> bool | None:
    """Correct or not without a judge: every key fact stated, or declined if there is no answer.

    None if there is nothing to compare the answer with: no facts, or no reference at all.
    """
    if not case.answerable:
        return case.answer is not None and declined(case.answer, case.question)
    if not case.reference.facts:
        return None
    if case.answer is None or abstained(case.answer):
        return False
    return fact_recall(case.answer, case.reference.facts) == 1.0


class Outcome(StrEnum):
    """How a question ended: an answer that is wrong is worse than none."""

    RIGHT = "right"
    DECLINED = "declined"
    INVENTED = "invented"
    FAILED = "failed"


def outcome_of(case: AnswerCase, correct: bool) -> Outcome:
    """How a question ended. `correct` where declining was right too."""
    if case.answer is None:
        return Outcome.FAILED
    if correct:
        return Outcome.RIGHT
    return Outcome.DECLINED if abstained(case.answer) else Outcome.INVENTED


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
    """A metric of answers. `how` says in words what it counts, for every table that shows it."""

    name: str
    how: str
    covers: Callable[[AnswerCase], bool]
    value: Callable[[AnswerCase, str, Documents], float]
    wants: Callable[[AnswerCase], int] = lambda _case: 0
    """How many documents a full score takes, where that can be more than an agent may return."""
    of_retrieval: bool = False
    """Needs no answer: what an agent retrieved counts even if it answered nothing."""

    def __repr__(self) -> str:
        return self.name

    def measure(self, case: AnswerCase, documents: Documents) -> float:
        """The value for one question; 0 for an agent that failed."""
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
    return faithfulness(answer, case.cited_texts(documents))


_ALL = [
    AnswerMetric(
        "fact_recall",
        "key facts found in the answer by their accepted wordings",
        lambda case: bool(case.reference.facts),
        lambda case, answer, _: fact_recall(answer, case.reference.facts),
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
        lambda case, answer, _: answer_relevance(case.question, answer),
    ),
    AnswerMetric(
        "abstention",
        "declined where there is no answer, by common phrases",
        lambda case: not case.answerable,
        lambda case, answer, _: float(declined(answer, case.question)),
    ),
    AnswerMetric(
        "attempted",
        "not declined where there is an answer, right or wrong",
        _answerable,
        lambda case, answer, _: float(not abstained(answer)),
    ),
    AnswerMetric(
        "citation_precision",
        "cited documents that are judged relevant",
        _judged,
        lambda case, answer, _: share_relevant(case.citations, case.relevant_ids),
    ),
    AnswerMetric(
        "citation_recall",
        "relevant documents that are cited",
        _judged,
        lambda case, answer, _: share_found(case.citations, case.relevant_ids),
        lambda case: len(case.relevant_ids),
    ),
    AnswerMetric(
        "context_precision",
        "retrieved documents that are judged relevant",
        _judged,
        lambda case, answer, _: share_relevant(case.seen_ids, case.relevant_ids),
        of_retrieval=True,
    ),
    AnswerMetric(
        "context_recall",
        "needed documents that were retrieved",
        lambda case: case.answerable and bool(case.needed),
        lambda case, answer, _: share_found(case.seen_ids, case.needed),
        lambda case: len(case.needed),
        of_retrieval=True,
    ),
    AnswerMetric(
        "multi_hop_coverage",
        "needed documents that are cited, where two or more are needed",
        lambda case: case.answerable and len(case.reference.documents) > 1,
        lambda case, answer, _: share_found(case.citations, case.needed),
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
    "hallucination_rate": "answers that are wrong and do not decline; lower is better",
}
"""What follows from whether answers are correct, by key facts or by a judge.

Correctness alone pays for inventing: a wrong answer costs no more than none. The score is that of
the CRAG benchmark (Yang et al. 2024).
"""

TRUTHFULNESS_BOUNDS = (-1.0, 1.0)
"""The ends of truthfulness; every other figure of answers lies between 0 and 1."""

CRITERION_PREFIX = "criterion."
"""What the names of criteria of the user's own begin with: `criterion.polite`."""
_CRITERION = re.compile(r"criterion[.:](\w{1,64})", re.ASCII)

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
    *POISON_METRICS,
)


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """For each metric the questions it covers, and one value for each of them in that order."""

    query_ids: dict[str, list[str]]
    values: dict[str, Floats]

    def mean(self, metric: str) -> float:
        """The mean over the covered questions; 0 where there are none."""
        values = self.values[metric]
        return float(values.mean()) if values.size else 0.0

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


def measure_answers(cases: Sequence[AnswerCase], documents: Documents) -> AnswerScores:
    """Score every case by every metric that covers it."""
    query_ids: dict[str, list[str]] = {}
    values: dict[str, Floats] = {}
    for metric in _ALL:
        covered = [case for case in cases if metric.covers(case)]
        query_ids[metric.name] = [case.query_id for case in covered]
        figures = [metric.measure(case, documents) for case in covered]
        values[metric.name] = np.array(figures, dtype=np.float64)
    return AnswerScores(query_ids, values)


def answer_metric_name(text: str) -> str | None:
    """The name of a metric of answers, in any spelling; None if there is no such metric."""
    name = "_".join(text.strip().lower().replace("-", " ").replace("_", " ").split())
    if criterion := _CRITERION.fullmatch(name):
        return CRITERION_PREFIX + criterion[1]
    return name if name in ANSWER_NAMES else None
