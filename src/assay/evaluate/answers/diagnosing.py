"""What the diagnoses of all questions come to, as a report keeps it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assay.evaluate.answers.examination import Verdict
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.diagnosis import Counterfactuals, Observation, diagnose, observe
from assay.measure.answers.fault_report import FaultReport, report_faults


def diagnosed(
    cases: Sequence[AnswerCase],
    verdicts: Mapping[str, Verdict],
    others: Mapping[str, Counterfactuals] | None,
) -> dict[str, Any] | None:
    """Only of questions whose answer could be told right or wrong: where there is no reference
    there is nothing to say. Those that a judge left undecided are counted apart.
    """
    seen = [
        observed(case, verdicts[case.query_id])
        for case in cases
        if case.query_id in verdicts and verdicts[case.query_id].correct is not None
    ]
    if not seen:
        return None
    undecided = sum(each.undecided for each in verdicts.values())
    faults = report_faults(seen, others, undecided=undecided)
    return _faults_json(faults) | {"quadrants": _quadrants(seen)}


def observed(case: AnswerCase, verdict: Verdict) -> Observation:
    return observe(case, correct=bool(verdict.correct), contradicted=verdict.contradicted)


def diagnosis_of(
    case: AnswerCase, verdict: Verdict, others: Counterfactuals
) -> dict[str, Any] | None:
    found = None if verdict.correct is None else diagnose(observed(case, verdict), others)
    if found is None:
        return None
    return {
        "failure": found.failure,
        "half": found.half,
        "settled": found.settled,
        "why": found.why,
    }


def _quadrants(seen: Sequence[Observation]) -> dict[str, int]:
    """Retrieval against generation: was the evidence there, and was the answer right?"""
    counts = Counter(
        ("evidence" if each.evidence else "no_evidence", "right" if each.correct else "wrong")
        for each in seen
        if each.answerable and not each.error
    )
    return {
        f"{evidence}_{answer}": counts[evidence, answer]
        for evidence in ("evidence", "no_evidence")
        for answer in ("right", "wrong")
    }


def _faults_json(faults: FaultReport) -> dict[str, Any]:
    return {
        "sentence": faults.sentence,
        "questions": faults.questions,
        "undecided": faults.undecided,
        "wrong": len(faults.diagnoses),
        "counts": {str(failure): number for failure, number in faults.counts.items() if number},
        "points": {str(half): points for half, points in faults.points.items()},
        "settled": faults.settled,
        "from_memory": faults.from_memory,
    }
