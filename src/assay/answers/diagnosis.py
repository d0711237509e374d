"""Diagnoses wrong answers: whether retrieval or generation is at fault, or neither.

From one run alone this is an estimate by what was retrieved. Asking the same question again with
other contexts settles it: with the needed documents alone (gold), with none, with those and others
that do not help (distractors).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay.answers.case import AnswerCase
from assay.answers.differences import case_differences
from assay.answers.outcome import Outcome, has, outcome
from assay.metrics.answer_values import (
    AnswerDiagnosis,
    AnswerFinding,
    DiagnosisReport,
    Quadrants,
)
from assay.metrics.figures import MAX_UNDECIDED


class Component(StrEnum):
    """The part of a system that has to be fixed."""

    RETRIEVAL = "retrieval"
    GENERATION = "generation"
    BOTH = "both together"
    AGENT = "agent"


class Failure(StrEnum):
    """What went wrong with one answer."""

    RETRIEVAL_MISSED = "retrieval missed"
    UNUSED = "retrieved but unused"
    CONTRADICTS = "answer contradicts the evidence"
    SHOULD_HAVE_ABSTAINED = "should have abstained"
    ABSTAINED_WRONGLY = "abstained wrongly"
    AGENT_ERROR = "agent error"
    NO_EXPECTED_IDS = "wrong, and no expected ids"

    @property
    def component(self) -> Component | None:
        """The component that this failure usually comes from; None if nobody can tell."""
        if self is Failure.NO_EXPECTED_IDS:
            return None
        if self is Failure.AGENT_ERROR:
            return Component.AGENT
        return Component.RETRIEVAL if self is Failure.RETRIEVAL_MISSED else Component.GENERATION


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """Whether the same question was answered correctly with another context; None: not tried."""

    gold: bool | None = None
    no_context: bool | None = None
    distractors: bool | None = None


NOT_TRIED = Counterfactuals()


def shows_another_part(case: AnswerCase) -> bool:
    """Whether chunks of the right documents were shown, but not those that hold the answer."""
    if not case.contexts or not case.needed or not case.needed <= {*case.seen_ids}:
        return False
    wordings = [wording for fact in case.reference.facts for wording in fact.accept]
    needed = [case.documents[each].full_text for each in case.needed if each in case.documents]
    shown, held = (
        any(has(text, wording) for text in texts for wording in wordings)
        for texts in (case.shown.values(), needed)
    )
    return held and not shown


def has_evidence(case: AnswerCase) -> bool:
    """Whether every needed document was retrieved, with the part that holds the answer."""
    return case.needed <= {*case.seen_ids} and not shows_another_part(case)


def diagnose(
    case: AnswerCase, others: Counterfactuals = NOT_TRIED, *, contradicted: bool = False
) -> AnswerDiagnosis | None:
    """Why an answer is wrong; None for one that is right or undecided.

    `contradicted` says that a judge found a fact of the reference denied.
    """
    ended = outcome(case)
    if ended is Outcome.FAILED:
        return _diagnosis(Failure.AGENT_ERROR, True, "the agent gave no answer")
    if ended in (Outcome.RIGHT, Outcome.UNDECIDED):
        return None
    if not case.answerable:
        return _diagnosis(Failure.SHOULD_HAVE_ABSTAINED, True, "no document holds an answer")
    if not case.needed:
        why = "no expected ids, so retrieval and generation cannot be told apart"
        return _diagnosis(Failure.NO_EXPECTED_IDS, False, why)
    if not has_evidence(case):
        return _without_evidence(case, others)
    failure = Failure.UNUSED
    if ended is Outcome.DECLINED:
        failure = Failure.ABSTAINED_WRONGLY
    elif contradicted or case_differences(case):
        failure = Failure.CONTRADICTS
    return _with_evidence(failure, others)


def _without_evidence(case: AnswerCase, others: Counterfactuals) -> AnswerDiagnosis:
    why = "a needed document was not retrieved"
    if shows_another_part(case):
        why = "the part of a needed document that holds the answer was not shown"
    component = None
    if others.gold is False:
        # Fixing one component alone gains nothing here, so neither gets the point.
        component = Component.BOTH
        why += ", and the answer is wrong even with it"
    elif others.gold:
        why += ", and with it the answer is right"
    return _diagnosis(Failure.RETRIEVAL_MISSED, others.gold is not None, why, component)


def _with_evidence(failure: Failure, others: Counterfactuals) -> AnswerDiagnosis:
    if others.gold and others.distractors:
        why = "right with the needed documents, also with others added: this retrieval misleads"
        return _diagnosis(failure, True, why, Component.RETRIEVAL)
    if others.gold is False:
        return _diagnosis(failure, True, "wrong even with the needed documents alone")
    if others.gold and others.distractors is False:
        why = "right with only the needed documents, wrong when others are added"
        return _diagnosis(failure, True, why)
    if others.no_context:
        why = "right without any document: what was retrieved misleads"
        return _diagnosis(failure, True, why)
    return _diagnosis(failure, False, "everything needed was retrieved")


def _diagnosis(
    failure: Failure, settled: bool, why: str, component: Component | None = None
) -> AnswerDiagnosis:
    half = component or failure.component
    return AnswerDiagnosis(
        failure=str(failure), half=None if half is None else str(half), settled=settled, why=why
    )


def summarize_diagnoses(
    cases: Sequence[AnswerCase],
    diagnoses: Mapping[str, AnswerDiagnosis],
    others: Mapping[str, Counterfactuals] | None = None,
    *,
    findings: Sequence[AnswerFinding] = (),
    tried: bool = False,
    why_undecided: str = "",
) -> DiagnosisReport | None:
    """Which component to fix, and what that is worth; None if no question is decided.

    `diagnoses` and `others`, what counterfactual runs found, are by query id. "Nothing to fix" is
    not said while there are `findings`. `tried` is whether counterfactual runs were asked for, or
    cannot be.
    """
    ended = {case.query_id: outcome(case) for case in cases}
    undecided = sum(each is Outcome.UNDECIDED for each in ended.values())
    judged_open = sum(case.verdict == "undecided" for case in cases)
    decided = len(cases) - undecided
    if not decided:
        return None
    why = f": {why_undecided}" if why_undecided else ""
    unknown = f"{undecided} of {len(cases)} questions are undecided{why}." if undecided else ""
    if diagnoses:
        said = _advice(diagnoses, decided, tried)
    elif undecided > MAX_UNDECIDED * len(cases):
        said, unknown = f"{unknown} The other {decided} are right.", ""
    elif findings:
        right = f"{decided} of {len(cases)}" if undecided else f"All {decided}"
        said = f"{right} answers are right, but see the findings."
    else:
        right = f"{decided} of {len(cases)}" if undecided else f"all {decided}"
        said = f"Nothing to fix: {right} questions are right."
    counts = Counter(each.failure for each in diagnoses.values())
    components = Counter(each.half for each in diagnoses.values() if each.half)
    questions = decided + judged_open
    found: Counter[tuple[bool, bool]] = Counter(
        (has_evidence(case), ended[case.query_id] is Outcome.RIGHT)
        for case in cases
        if case.answerable
        and case.needed  # of others nobody knows what the evidence is
        and ended[case.query_id] not in (Outcome.FAILED, Outcome.UNDECIDED)
    )
    return DiagnosisReport(
        sentence=f"{said} {unknown}".strip(),
        questions=questions,
        undecided=judged_open,
        wrong=len(diagnoses),
        counts={str(each): counts[each] for each in Failure if counts[each]},
        points={str(part): 100 * components[part] / questions for part in Component},
        settled=sum(each.settled for each in diagnoses.values()),
        from_memory=sum(
            bool(each.no_context) and ended[query_id] is Outcome.RIGHT
            for query_id, each in (others or {}).items()
        ),
        quadrants=Quadrants(
            evidence_right=found[True, True],
            evidence_wrong=found[True, False],
            no_evidence_right=found[False, True],
            no_evidence_wrong=found[False, False],
        ),
        tried=tried,
    )


def _advice(diagnoses: Mapping[str, AnswerDiagnosis], decided: int, tried: bool) -> str:
    """What to fix first, and how sure that is."""
    wrong = len(diagnoses)
    halves = Counter(each.half for each in diagnoses.values() if each.half)
    if not halves:
        return (
            f"{wrong} of {decided} answers are wrong; without expected ids, retrieval and "
            "generation cannot be told apart."
        )
    # What takes both components comes first only if nothing else is lost.
    alone = {half: number for half, number in halves.items() if half != Component.BOTH}
    first = max(alone or halves, key=lambda half: halves[half])
    several = {Component.BOTH: "retrieval and generation", Component.AGENT: "the agent's errors"}
    named = several.get(Component(first))
    explains = "they explain" if named else "it explains"
    rest = [f"{half} {number}" for half, number in halves.most_common() if half != first]
    if unknown := wrong - halves.total():
        rest.append(f"no expected ids {unknown}")
    shares = ", ".join([f"{halves[first]} of {wrong} wrong answers", *rest])
    advice = f"Fix {named or first} first: {explains} {shares}."
    if all(each.settled for each in diagnoses.values() if each.half):
        return advice
    return f"{advice} This is an estimate{'' if tried else '; --counterfactuals confirms it'}."
