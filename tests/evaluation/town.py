"""Runs over a small town, and what they say about answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer
from assay.evaluation.api import evaluate
from assay.evaluation.run import Run
from assay.metrics.answer_values import DiagnosisReport
from assay.run.answers import AnswersReport, JudgeRecord
from assay.run.models import AnswerRow

# Two questions with an answer (the second needs two documents) and one without.
TOWN = Dataset(
    name="town",
    documents={
        "pool": Document("pool", "Pool", "The pool opens at 7:00."),
        "bus": Document("bus", "Bus", "Bus 4 goes to the pool."),
        "fare": Document("fare", "Fare", "A ride on bus 4 costs 2.80 euros."),
        "zoo": Document("zoo", "Zoo", "The zoo has a pool for otters."),
    },
    queries={
        "open": Query("open", "When does the pool open?"),
        "ride": Query("ride", "What does the ride to the pool cost?"),
        "mayor": Query("mayor", "Who is the mayor?"),
    },
    judgments={"test": {"open": {"pool": 2}, "ride": {"bus": 1, "fare": 2}}},
    answers={
        "open": ReferenceAnswer("open", "At 7:00.", (Fact("7:00", ("7:00",)),), ("pool",)),
        "ride": ReferenceAnswer(
            "ride", "2.80 euros by bus 4.", (Fact("2.80", ("2.80",)),), ("bus", "fare")
        ),
        "mayor": ReferenceAnswer("mayor", None),
    },
)
NOTHING = "The documents do not answer this question."


def run(
    function: Callable[..., Any], dataset: Dataset, out: Path, judge: Any = "", **settings: Any
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
    """A judge whose every reply is `word`."""

    name = "scripted"

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked = 0

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        self.asked += 1
        return self.word
