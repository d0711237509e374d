"""What is relied on in the part of a run's files that is about answers."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Shape(BaseModel):
    """Strict, since the value is used as it was read; further keys are welcome."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Statistic(_Shape):
    n: int
    mean: float
    low: float | None
    high: float | None
    median: float
    std: float
    ceiling: float
    how: str


class _Spending(_Shape):
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class _Judge(_Shape):
    provider: str
    votes: int
    judged: int
    flip_rate: float | None
    unparseable_votes: int
    undecided: int
    spending: _Spending | None = None


class _Quadrants(_Shape):
    evidence_right: int
    evidence_wrong: int
    no_evidence_right: int
    no_evidence_wrong: int


class _Diagnosis(_Shape):
    sentence: str
    questions: int
    wrong: int
    counts: dict[str, int]
    points: dict[str, float]
    settled: int
    from_memory: int
    quadrants: _Quadrants


class _Tried(_Shape):
    asked: int
    right: int


class _Invented(_Shape):
    ids: int


class Answers(_Shape):
    """`answers` in the head of a report."""

    questions: int
    answered: int
    unanswerable: int
    references: str
    correctness_by: str
    metrics: dict[str, float]
    statistics: dict[str, _Statistic]
    judge: _Judge | None
    diagnosis: _Diagnosis | None
    counterfactuals: dict[Literal["gold", "no_context", "distractors"], _Tried] | None
    invented_citations: _Invented
    trouble: str | None


class _Fault(_Shape):
    failure: str
    half: str | None
    settled: bool
    why: str


class AnswerRow(_Shape):
    """One line of `answers.jsonl`."""

    query_id: str
    query_text: str
    answer: str | None
    citations: list[str]
    retrieved_docs: list[str]
    answerable: bool
    reference_answer: str | None
    facts: list[str]
    needed_docs: list[str]
    correct: bool | None
    votes: list[str] | None = None
    diagnosis: _Fault | None = None
    counterfactuals: dict[str, bool] = {}
    __pydantic_extra__: dict[str, float | None]
