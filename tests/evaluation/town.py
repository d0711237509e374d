"""Runs over the town of `conftest.py`, and what they say about answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.data import Dataset
from assay.errors import (
    ProviderError,
    ProviderFailure,
)
from assay.evaluation.api import evaluate
from assay.evaluation.run import Run
from assay.metrics.answer_values import DiagnosisReport
from assay.run.answers import (
    AnswersReport,
    JudgeRecord,
)
from assay.run.models import AnswerRow

NOTHING = "The documents do not answer this question."


def run(
    function: Callable[..., Any],
    dataset: Dataset,
    out: Path,
    judge: Any = "",
    **settings: Any,
) -> Run:
    if judge:  # most of the judges here say one thing about everything
        settings.setdefault("judge_set", {"controls": 0})
    return evaluate(function, dataset, out=out, judge=judge, answers=True, **settings)


def section(outcome: Run) -> AnswersReport:
    assert outcome.report.answers is not None
    return outcome.report.answers


def diagnosis_of(answers: AnswersReport) -> DiagnosisReport:
    assert answers.diagnosis is not None
    return answers.diagnosis


def judge_of(answers: AnswersReport) -> JudgeRecord:
    assert answers.judge is not None
    return answers.judge


def rows_of(outcome: Run) -> dict[str, AnswerRow]:
    return {row.query_id: row for row in outcome.folder.read_answers()}


def perfect(query: str, top_k: int) -> dict[str, Any]:
    if "open" in query:
        return {"doc_ids": ["pool"], "answer": "It opens at 7:00.", "citations": ["pool"]}
    if "ride" in query:
        answer = "The ride on bus 4 costs 2.80 euros."
        return {"doc_ids": ["fare", "bus"], "answer": answer, "citations": ["bus", "fare"]}
    return {"doc_ids": ["zoo"], "answer": NOTHING}


class Reader:
    """Answers from the context it is given, and otherwise from one wrong document."""

    def __init__(self) -> None:
        self.contexts: list[tuple[str, list[str]]] = []

    def __call__(
        self, query: str, top_k: int, context: list[dict[str, str]] | None = None
    ) -> dict[str, Any]:
        if context is None:
            return {"doc_ids": ["zoo"], "answer": "The zoo has otters.", "citations": ["zoo"]}
        self.contexts.append((query, [each["id"] for each in context]))
        said = " ".join(each["text"] for each in context)
        return {"doc_ids": [each["id"] for each in context], "answer": said or NOTHING}


class Scripted:
    """A judge whose every reply is `word`; `failing` is raised from the n-th question on."""

    name = "scripted"

    def __init__(self, word: str, failing: int | None = None) -> None:
        self.word = word
        self.failing = failing
        self.asked = 0

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        self.asked += 1
        if self.failing is not None and self.asked > self.failing:
            raise ProviderError(ProviderFailure.CONNECTION, "the judge is not there")
        return self.word
