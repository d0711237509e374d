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
from assay.answers.outcome import Outcome, lacks_part, outcome
from assay.metrics.answer_values import AnswerDiagnosis, AnswerFinding, DiagnosisReport, Quadrants
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


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """Whether the same question was answered correctly with another context; None: not tried."""

    gold: bool | None = None
    no_context: bool | None = None
    distractors: bool | None = None


NOT_TRIED = Counterfactuals()


def has_evidence(case: AnswerCase) -> bool:
    """Whether every needed document was retrieved, with the part that holds the answer."""
    return case.needed <= {*case.seen_ids} and not lacks_part(case)


def diagnose(case: AnswerCase, others: Counterfactuals = NOT_TRIED) -> AnswerDiagnosis | None:
    """Why an answer is wrong; None for one that is right or undecided."""
    half: Component | None = Component.GENERATION
    ended, settled = outcome(case), True
    if ended in (Outcome.RIGHT, Outcome.UNDECIDED):
        return None
    if ended is Outcome.FAILED:
        failure, half, why = Failure.AGENT_ERROR, Component.AGENT, "the agent gave no answer"
    elif not case.answerable:
        failure, why = Failure.SHOULD_HAVE_ABSTAINED, "no document holds an answer"
    elif not case.needed:
        failure, half, settled = Failure.NO_EXPECTED_IDS, None, False
        why = "no expected ids, so retrieval and generation cannot be told apart"
    elif not has_evidence(case):
        failure, half, settled = Failure.RETRIEVAL_MISSED, Component.RETRIEVAL, False
        why = "a needed document was not retrieved"
        if lacks_part(case):
            why = "the part of a needed document that holds the answer was not shown"
        if others.gold:
            settled, why = True, f"{why}, and with it the answer is right"
        elif others.gold is False:  # fixing one component alone gains nothing
            half, settled = Component.BOTH, True
            why += ", and the answer is wrong even with it"
    else:
        failure = Failure.UNUSED
        if ended is Outcome.DECLINED:
            failure = Failure.ABSTAINED_WRONGLY
        elif case_differences(case):
            failure = Failure.CONTRADICTS
        if others.gold and others.distractors:
            half = Component.RETRIEVAL
            why = "right with the needed documents, also with others added: this retrieval misleads"
        elif others.gold is False:
            why = "wrong even with the needed documents alone"
        elif others.gold and others.distractors is False:
            why = "right with only the needed documents, wrong when others are added"
        elif others.no_context:
            why = "right without any document: what was retrieved misleads"
        else:
            settled, why = False, "everything needed was retrieved"
    return AnswerDiagnosis(
        failure=failure.value, half=half and half.value, settled=settled, why=why
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
    right = f"{decided} of {len(cases)}" if undecided else f"all {decided}"
    if diagnoses:
        said = _advice(diagnoses, decided, tried)
    elif undecided > MAX_UNDECIDED * len(cases):
        said, unknown = f"{unknown} The other {decided} are right.", ""
    elif findings:
        said = f"{right.capitalize()} answers are right, but see the findings."
    else:
        said = f"Nothing to fix: {right} questions are right."
    counts = Counter(each.failure for each in diagnoses.values())
    components = Counter(each.half for each in diagnoses.values() if each.half)
    questions = decided + judged_open
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
        quadrants=_quadrants(cases),
        tried=tried,
    )


def _quadrants(cases: Sequence[AnswerCase]) -> Quadrants:
    found: Counter[tuple[bool, bool]] = Counter(
        (has_evidence(case), outcome(case) is Outcome.RIGHT)
        for case in cases
        if case.answerable
        and case.needed  # of others nobody knows what the evidence is
        and outcome(case) not in (Outcome.FAILED, Outcome.UNDECIDED)
    )
    return Quadrants(
        evidence_right=found[True, True],
        evidence_wrong=found[True, False],
        no_evidence_right=found[False, True],
        no_evidence_wrong=found[False, False],
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
