"""Computes answer metrics from verdicts: correctness, what follows from it, what a judge adds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from assay.answers.answer_metrics import AnswerScores, measure_answers
from assay.answers.case import AnswerCase
from assay.answers.faithfulness import unsupported
from assay.data.dataset import Dataset, Document
from assay.evaluation.answers.evaluate import AnswerResults
from assay.evaluation.answers.judging import Verdict
from assay.evaluation.answers.poisoning import poison_columns
from assay.metrics.graded import Floats
from assay.run.answers import UndecidedAnswers
from assay.run.config import RunConfig

_OF_TEXTS = ("faithfulness", "judged_faithfulness", "model_faithfulness", "hallucination_rate")


def measure_examined(
    cases: Sequence[AnswerCase], found: AnswerResults, documents: Mapping[str, Document]
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
    further = [] if found.poison is None else poison_columns(found.poison)
    if found.support is not None:
        further = [("model_faithfulness", found.support.values), *further]
    planted, followed = _scores(further)
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
    cases: Sequence[AnswerCase], found: AnswerResults, dataset: Dataset
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
    found: AnswerResults,
    value: Callable[[AnswerCase, Verdict], float | None],
) -> dict[str, float]:
    figures = {case.query_id: value(case, verdict_of(found, case)) for case in cases}
    return {query_id: figure for query_id, figure in figures.items() if figure is not None}


def verdict_of(found: AnswerResults, case: AnswerCase) -> Verdict:
    """What is known about an answer; nothing where it was not judged."""
    return found.verdicts.get(case.query_id, Verdict(None))


def right_answers(found: AnswerResults, cases: Sequence[AnswerCase]) -> dict[str, bool | None]:
    """Whether each answer is right; None if nobody could decide."""
    scores = {case.query_id: _correct(case, verdict_of(found, case)) for case in cases}
    return {id: None if score is None else score == 1 for id, score in scores.items()}


def _correct(case: AnswerCase, verdict: Verdict) -> float | None:
    """0 where the judge was undecided: that does not make an answer correct."""
    if verdict.correct is None and verdict.judgment is None:
        return None
    return float(verdict.correct is True)


def undecided_answers(
    cases: Sequence[AnswerCase], found: AnswerResults, dataset: Dataset
) -> UndecidedAnswers | None:
    """The questions that there is nothing to decide by; None if there are none, or if the
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
        f"the references have no key facts or values; add --judge, or facts in {where}": no_facts,
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


def judged(case: AnswerCase, found: AnswerResults) -> AnswerCase:
    """The case with the judge's verdict; undecided if a judge was to decide and did not."""
    verdict = verdict_of(found, case)
    if verdict.judgment is None and (found.judge is None or case.reference.answer == ""):
        return case
    if verdict.correct is None:
        return replace(case, verdict="undecided")
    return replace(case, verdict="right" if verdict.correct else "wrong")


def _truthfulness(case: AnswerCase, verdict: Verdict) -> float | None:
    """1, 0 or -1; an answer that a judge leaves undecided is neither right nor wrong."""
    if verdict.correct is None:
        return 0.0 if verdict.undecided else None
    if verdict.correct:
        return 1.0
    return -1.0 if case.attempted else 0.0


def _hallucination(case: AnswerCase, verdict: Verdict) -> float | None:
    if verdict.correct is None:
        return 0.0 if verdict.undecided else None
    if verdict.correct or not case.attempted:
        return 0.0
    return float(bool(unsupported(case.answer or "", list(case.shown.values()), case.names)))


def _judged_facts(case: AnswerCase, verdict: Verdict) -> float | None:
    if not case.reference.facts or not case.answerable:
        return None
    return verdict.facts.recall if verdict.facts else 0.0


def _judged_faithfulness(case: AnswerCase, verdict: Verdict) -> float | None:
    return None if not case.answerable else verdict.faithfulness or 0.0
