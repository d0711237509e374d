"""Computes answer metrics from verdicts: correctness, what follows from it, what a judge adds."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from assay.answers.answer_metrics import (
    AnswerCase,
    AnswerScores,
    Documents,
    Outcome,
    measure_answers,
    outcome_of,
)
from assay.answers.assertion import Assertion
from assay.answers.diagnosis import Observation, observe
from assay.answers.lexical import fact_assertion
from assay.data.dataset import Dataset, Document
from assay.evaluation.answers.examination import AnswerExamination
from assay.evaluation.answers.judging import Verdict
from assay.evaluation.answers.poisoning import poison_columns
from assay.metrics.graded import Floats
from assay.run.answers import Quadrants, UndecidedAnswers
from assay.run.config import RunConfig

_OF_TEXTS = ("faithfulness", "judged_faithfulness")


def measure_examined(
    cases: Sequence[AnswerCase], found: AnswerExamination, documents: Mapping[str, Document]
) -> AnswerScores:
    """The metrics that need no model and those of the judge, correctness first."""
    outcomes: list[tuple[str, Mapping[str, float]]] = [
        ("correctness", _column(cases, found, _correct)),
        ("truthfulness", _column(cases, found, _truthfulness)),
        ("hallucination_rate", _column(cases, found, _hallucination)),
    ]
    columns: list[tuple[str, Mapping[str, float]]] = [
        *outcomes,
        ("judged_facts", _column(cases, found, _judged_facts)),
        ("judged_faithfulness", _column(cases, found, _judged_faithfulness)),
    ]
    if found.judge is None or not found.verdicts:
        columns = outcomes
    columns = [each for each in columns if each[0] not in found.unread]
    scores = measure_answers(cases, documents)
    ids, values = _scores(columns)
    planted, followed = _scores([] if found.poison is None else poison_columns(found.poison))
    stated = AnswerScores({}, {}) if found.nuggets is None else found.nuggets.scores()
    return AnswerScores(
        ids | stated.query_ids | scores.query_ids | planted,
        values | stated.values | scores.values | followed,
    )


def _scores(
    columns: Sequence[tuple[str, Mapping[str, float]]],
) -> tuple[dict[str, list[str]], dict[str, Floats]]:
    ids = {name: list(column) for name, column in columns if column}
    values: dict[str, Floats] = {
        name: np.array(list(column.values()), dtype=np.float64)
        for name, column in columns
        if column
    }
    return ids, values


def measure_run(
    cases: Sequence[AnswerCase], found: AnswerExamination, dataset: Dataset
) -> AnswerScores:
    """The metrics of a run. Nothing is called unfaithful where there is no text to compare with:
    the data set has no documents, and the agent returned no contexts.
    """
    scores = measure_examined(cases, found, dataset.documents)
    if dataset.documents or any(case.contexts for case in cases):
        return scores
    kept = [name for name in scores.query_ids if name not in _OF_TEXTS]
    return AnswerScores(
        {name: scores.query_ids[name] for name in kept},
        {name: scores.values[name] for name in kept},
    )


def _column(
    cases: Sequence[AnswerCase],
    found: AnswerExamination,
    value: Callable[[AnswerCase, Verdict], float | None],
) -> dict[str, float]:
    figures = {case.query_id: value(case, verdict_of(found, case)) for case in cases}
    return {query_id: figure for query_id, figure in figures.items() if figure is not None}


def verdict_of(found: AnswerExamination, case: AnswerCase) -> Verdict:
    """What is known about an answer; nothing where it was not judged."""
    return found.verdicts.get(case.query_id, Verdict(None))


def _correct(case: AnswerCase, verdict: Verdict) -> float | None:
    """0 where the judge was undecided: that does not make an answer correct."""
    if verdict.correct is None and verdict.judgment is None:
        return None
    return float(verdict.correct is True)


def undecided_answers(
    cases: Sequence[AnswerCase], found: AnswerExamination, dataset: Dataset
) -> UndecidedAnswers | None:
    """The questions that there is nothing to decide by; None where there are none, or where the
    judge did not finish, which is trouble of its own.
    """
    if found.trouble:
        return None
    open_cases = [
        case
        for case in cases
        if (verdict := verdict_of(found, case)).correct is None and verdict.judgment is None
    ]
    no_facts = sum(case.reference.answer != "" for case in open_cases)
    where = "answers.jsonl" if dataset.queries else "the rows"
    reasons = {
        f"the references have no key facts; add --judge, or facts in {where}": no_facts,
        "there is no reference answer": len(open_cases) - no_facts,
    }
    reasons = {why: number for why, number in reasons.items() if number}
    if not reasons:
        return None
    why = "; ".join(
        f"for {number} of them {why}" if len(reasons) > 1 else why
        for why, number in reasons.items()
    )
    return UndecidedAnswers(number=len(open_cases), of=len(cases), why=why)


def count_without_reference(dataset: Dataset, config: RunConfig) -> int:
    """How many questions of a split are not asked, because only others have a reference answer.

    None of those that the user left out: a ground-truth file says what is asked.
    """
    if not dataset.answers or config.ground_truth:
        return 0
    return sum(name not in dataset.answers for name in dataset.judgments.get(config.split, {}))


_TRUTHFULNESS = {Outcome.RIGHT: 1.0, Outcome.INVENTED: -1.0}


def decided_outcome(case: AnswerCase, verdict: Verdict) -> Outcome | None:
    """None where nobody knows; an answer that a judge leaves undecided is not called invented."""
    if verdict.correct is None:
        return None
    return outcome_of(case, verdict.correct)


def _truthfulness(case: AnswerCase, verdict: Verdict) -> float | None:
    if verdict.undecided:
        return 0.0
    outcome = decided_outcome(case, verdict)
    return None if outcome is None else _TRUTHFULNESS.get(outcome, 0.0)


def _hallucination(case: AnswerCase, verdict: Verdict) -> float | None:
    if verdict.undecided:
        return 0.0
    outcome = decided_outcome(case, verdict)
    return None if outcome is None else float(outcome is Outcome.INVENTED)


def _judged_facts(case: AnswerCase, verdict: Verdict) -> float | None:
    if not case.reference.facts or not case.answerable:
        return None
    return verdict.facts.recall if verdict.facts else 0.0


def _judged_faithfulness(case: AnswerCase, verdict: Verdict) -> float | None:
    return None if not case.answerable else verdict.faithfulness or 0.0


def observation(case: AnswerCase, verdict: Verdict, documents: Documents) -> Observation:
    """What a run shows of one answer that is decided."""
    denied = verdict.contradicted or (
        case.answer is not None
        and any(
            fact_assertion(case.answer, fact) is Assertion.DENIED for fact in case.reference.facts
        )
    )
    return observe(case, correct=bool(verdict.correct), contradicted=denied, documents=documents)


def quadrants(seen: Sequence[Observation]) -> Quadrants:
    """Retrieval against generation: was the evidence retrieved, and was the answer correct?

    Only of questions with expected ids: of others nobody knows what the evidence is.
    """
    counts = Counter(
        ("evidence" if each.evidence else "no_evidence", "right" if each.correct else "wrong")
        for each in seen
        if each.answerable and each.needs and not each.error
    )
    return Quadrants(
        evidence_right=counts["evidence", "right"],
        evidence_wrong=counts["evidence", "wrong"],
        no_evidence_right=counts["no_evidence", "right"],
        no_evidence_wrong=counts["no_evidence", "wrong"],
    )
