"""The part of a report that is about answers."""

from typing import Literal

from pydantic import Field

from assay.llm.spending import Spending
from assay.metrics.answer_values import (
    AnswerFinding,
    DiagnosisReport,
    JudgeControls,
    StoredModel,
)


class PoisonCount(StoredModel):
    """What answers did with planted documents: of one kind, or of all.

    `share` is that of the answers that follow, with its 95% interval over questions.
    """

    asked: int
    answered: int
    followed: int
    mentioned: int = 0
    share: float | None = None
    low: float | None = None
    high: float | None = None


class PoisonExample(StoredModel):
    """An answer that did what a planted document says; `doc_id` is that document."""

    query_id: str
    kind: str
    doc_id: str
    answer: str


class PoisonReport(StoredModel):
    """What planted documents did to the answers; the documents are in `poison.jsonl`."""

    total: PoisonCount
    kinds: dict[str, PoisonCount]
    examples: list[PoisonExample] = Field(default=[])
    note: str | None = None


ContextName = Literal["gold", "no_context", "distractors"]
CONTEXT_NAMES: tuple[ContextName, ...] = ("gold", "no_context", "distractors")


class AnswerStatistic(StoredModel):
    """One metric of answers; `how` says how it was decided.

    `ceiling` is the best mean that is possible, and None if lower is better: 0 is best there.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    median: float
    std: float
    ceiling: float | None
    how: str


class JudgeRecord(StoredModel):
    """Which model judged, how often, and how steady it was."""

    provider: str
    votes: int
    prompts: dict[str, str] = Field(default={})
    judged: int
    decided_by_rule: int = 0
    flip_rate: float | None
    unparseable_votes: int
    undecided: int
    controls: JudgeControls | None = None
    calibration: str | None = None
    spending: Spending | None = None


class CounterfactualCount(StoredModel):
    """Questions that were asked again in one kind of context."""

    asked: int
    right: int


class BadId(StoredModel):
    """An id that an agent returned or cited and should not have."""

    query_id: str
    doc_id: str


class ViolationCount(StoredModel):
    """How many ids of how many queries broke a rule; `hint` says what may help."""

    ids: int
    queries: int = 0
    examples: list[BadId] = Field(default=[])
    hint: str | None = None


class NuggetsReport(StoredModel):
    """Which nuggets were used, who made them, who assigned them to the answers."""

    fingerprint: str
    questions: int
    nuggets: int
    vital: int
    undecided: int = 0
    makers: dict[str, int] = Field(default={})
    assigned_by: str
    flip_rate: float | None = None
    controls: JudgeControls | None = None
    calibration: str | None = None

    @property
    def made(self) -> str:
        """Who made the facts: `38 by model, 3 by human`; `extract` is a quotation."""
        return ", ".join(f"{number:,} by {maker}" for maker, number in self.makers.items())

    @property
    def words(self) -> list[str]:
        """What a reader of the figures has to know, in a few phrases."""
        vital = f", {self.vital:,} of them vital" if self.vital else ", none of them vital"
        phrases = [
            f"{self.nuggets:,} for {self.questions:,} questions{vital}: {self.made}",
            f"assigned by {self.assigned_by}",
        ]
        if self.undecided:
            phrases.append(f"the judge is undecided about {self.undecided:,}: they count as none")
        if self.controls is not None:
            phrases.append(self.controls.words)
        return [*phrases, *filter(None, [self.calibration])]


class CriterionRecord(StoredModel):
    """A criterion of the user's own: what was asked, and how steadily the judge rated by it."""

    name: str
    text: str
    levels: list[str]
    fingerprint: str
    judge: str
    rated: int
    undecided: int
    differing: int  # answers whose votes differ


class UndecidedAnswers(StoredModel):
    """Questions that neither a judge nor a reference decides: how many `of` all, and why."""

    number: int
    of: int
    why: str

    @property
    def words(self) -> str:
        """`3 of 10 questions are undecided: WHY`."""
        return f"{self.number:,} of {self.of:,} questions are undecided: {self.why}"


class AnswersReport(StoredModel):
    """`answers` in a report: figures, judge, diagnosis. The answers themselves are in the rows."""

    questions: int
    answered: int
    unanswerable: int
    references: str
    correctness_by: str
    metrics: dict[str, float]
    statistics: dict[str, AnswerStatistic]
    judge: JudgeRecord | None
    diagnosis: DiagnosisReport | None
    counterfactuals: dict[ContextName, CounterfactualCount] | None
    invented_citations: ViolationCount  # of documents that do not exist
    trouble: str | None
    note: str | None = None
    outcomes: dict[str, int] = Field(default={})
    findings: list[AnswerFinding] = Field(default=[])
    poison: PoisonReport | None = None
    nuggets: NuggetsReport | None = None
    criteria: list[CriterionRecord] = Field(default=[])
    undecided: UndecidedAnswers | None = None
