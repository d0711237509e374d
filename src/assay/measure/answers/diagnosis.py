"""Whose fault is a wrong answer? Retrieval's, generation's, or that of neither.

From one run alone this is a guess by what was retrieved. Asking the same question again with other
contexts settles it: with the needed documents alone (gold), with none, with those and others that
do not help (distractors).
"""

from dataclasses import dataclass
from enum import StrEnum

from assay.measure.answers.abstention import abstained
from assay.measure.answers.case import AnswerCase


class Half(StrEnum):
    RETRIEVAL = "retrieval"
    GENERATION = "generation"
    BOTH = "both together"
    AGENT = "agent"


class Failure(StrEnum):
    RETRIEVAL_MISSED = "retrieval missed"
    UNUSED = "retrieved but unused"
    CONTRADICTS = "answer contradicts the evidence"
    SHOULD_HAVE_ABSTAINED = "should have abstained"
    ABSTAINED_WRONGLY = "abstained wrongly"
    AGENT_ERROR = "agent error"

    @property
    def half(self) -> Half:
        if self is Failure.AGENT_ERROR:
            return Half.AGENT
        return Half.RETRIEVAL if self is Failure.RETRIEVAL_MISSED else Half.GENERATION


@dataclass(frozen=True, slots=True)
class Observation:
    """What one run shows of one question.

    `evidence` is whether every needed document was retrieved; `contradicted` whether the answer
    says something that the evidence denies, which takes a judge to see.
    """

    query_id: str
    correct: bool
    answerable: bool = True
    error: bool = False
    abstained: bool = False
    evidence: bool = False
    contradicted: bool = False


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """Whether the same question was answered right with another context; None: not tried."""

    gold: bool | None = None
    no_context: bool | None = None
    distractors: bool | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`failure` is what happened, `half` what to mend.

    `settled` means that nothing is guessed: the case is plain, or a counterfactual run decided it.
    """

    query_id: str
    failure: Failure
    half: Half
    settled: bool
    why: str


NOT_TRIED = Counterfactuals()


def observe(case: AnswerCase, *, correct: bool, contradicted: bool = False) -> Observation:
    return Observation(
        query_id=case.query_id,
        correct=correct and case.answer is not None,
        answerable=case.answerable,
        error=case.answer is None,
        abstained=case.answer is not None and abstained(case.answer),
        evidence=case.needed <= set(case.retrieved),
        contradicted=contradicted,
    )


def diagnose(seen: Observation, others: Counterfactuals = NOT_TRIED) -> Diagnosis | None:
    """None for a right answer."""
    if seen.error:
        return _found(seen, Failure.AGENT_ERROR, True, "the agent gave no answer")
    if seen.correct:
        return None
    if not seen.answerable:
        return _found(seen, Failure.SHOULD_HAVE_ABSTAINED, True, "no document holds an answer")
    if not seen.evidence:
        return _without_evidence(seen, others)
    return _with_evidence(seen, others)


def _without_evidence(seen: Observation, others: Counterfactuals) -> Diagnosis:
    if others.gold is False:
        # Neither half alone is worth anything here, so neither gets the point.
        why = "a needed document was not retrieved, and with it the answer is wrong as well"
        return _found(seen, Failure.RETRIEVAL_MISSED, True, why, half=Half.BOTH)
    why = "a needed document was not retrieved"
    if others.gold:
        why += ", and with it the answer is right"
    return _found(seen, Failure.RETRIEVAL_MISSED, others.gold is not None, why)


def _with_evidence(seen: Observation, others: Counterfactuals) -> Diagnosis:
    failure = _misuse(seen)
    if others.gold is False:
        return _found(seen, failure, True, "wrong even with the needed documents alone")
    if others.gold and others.distractors is False:
        return _found(
            seen,
            failure,
            True,
            "right with the needed documents alone, wrong as soon as others stand beside them",
        )
    if others.gold and others.distractors:
        return _found(
            seen,
            failure,
            True,
            "right with the needed documents and with others "
            "beside them: what this retrieval puts around them misleads",
            half=Half.RETRIEVAL,
        )
    if others.no_context:
        return _found(
            seen, failure, True, "right without any document: what was retrieved misleads"
        )
    return _found(seen, failure, False, "everything needed was retrieved")


def _misuse(seen: Observation) -> Failure:
    if seen.abstained:
        return Failure.ABSTAINED_WRONGLY
    return Failure.CONTRADICTS if seen.contradicted else Failure.UNUSED


def _found(
    seen: Observation, failure: Failure, settled: bool, why: str, half: Half | None = None
) -> Diagnosis:
    return Diagnosis(seen.query_id, failure, half or failure.half, settled, why)
