"""One column of figures for each metric of answers: those that need no model, and the judge's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.data.dataset import Document
from assay.evaluate.answers.examination import Examination, Verdict
from assay.measure.answers.answer_metrics import AnswerScores, measure_answers
from assay.measure.answers.case import AnswerCase
from assay.measure.graded import Floats


def measure_examined(
    cases: Sequence[AnswerCase], found: Examination, documents: Mapping[str, Document]
) -> AnswerScores:
    """Correctness first, for it is what the others explain; then what else the judge looked at."""
    columns: list[tuple[str, Mapping[str, float]]] = [
        ("correctness", _column(cases, found, _correct)),
        ("judged_facts", _column(cases, found, _judged_facts)),
        ("judged_faithfulness", _column(cases, found, _judged_faithfulness)),
    ]
    if found.judge is None or not found.verdicts:
        columns = columns[:1]
    scores = measure_answers(cases, documents)
    ids = {name: list(column) for name, column in columns if column}
    values: dict[str, Floats] = {
        name: np.array(list(column.values()), dtype=np.float64)
        for name, column in columns
        if column
    }
    return AnswerScores(ids | scores.query_ids, values | scores.values)


def _column(cases: Sequence[AnswerCase], found: Examination, value: Any) -> dict[str, float]:
    figures = {
        case.query_id: value(case, found.verdicts.get(case.query_id, Verdict(None)))
        for case in cases
    }
    return {query_id: figure for query_id, figure in figures.items() if figure is not None}


def _correct(case: AnswerCase, verdict: Verdict) -> float | None:
    """0 where the judge was undecided: that makes no answer right."""
    if verdict.correct is None and verdict.judgment is None:
        return None
    return float(verdict.correct is True)


def _judged_facts(case: AnswerCase, verdict: Verdict) -> float | None:
    if not case.reference.facts or not case.answerable:
        return None
    return verdict.facts.recall if verdict.facts else 0.0


def _judged_faithfulness(case: AnswerCase, verdict: Verdict) -> float | None:
    return None if not case.answerable else verdict.faithfulness or 0.0
