"""What a report says of an agent's searches and of repeated trials."""

from typing import Literal

from pydantic import Field

from assay.metrics.searches import SEARCH_FIGURES
from assay.run.run_record import RunRecord

# Why a needed document was never shown, in the order in which it is decided.
Blame = Literal[
    "not findable",
    "reformulated away",
    "cut too early",
    "not known",
    "stopped early",
    "never asked for",
]


class SearchFigure(RunRecord):
    """A figure over the questions that have it, with a 95% interval.

    `note` is what to know about it, such as where the tool limits it.
    """

    mean: float
    low: float | None
    high: float | None
    questions: int
    ceiling: float | None = None
    note: str = ""


class Spread(RunRecord):
    """An amount for each question."""

    mean: float
    p50: float
    p95: float
    max: float


class CurvePoint(RunRecord):
    """The share of the evidence that was seen after so many searches, or tokens."""

    at: int
    mean: float
    low: float | None = None
    high: float | None = None


class BlameCount(RunRecord):
    """Needed documents that were never shown, by why; some of them if there are very many."""

    documents: int
    examined: int
    counts: dict[Blame, int]


class AnswerQuadrants(RunRecord):
    """Answers by whether the evidence was complete and whether they are right.

    Complete and right: `read_it`; right without it: `knew_it`; complete and wrong: `did_not_read`;
    neither: `never_saw`.
    """

    read_it: int
    knew_it: int
    did_not_read: int
    never_saw: int


class SearchReport(RunRecord):
    """`search` of a report: what the searches of the agent were worth.

    Attributes:
        attribution: how searches were attributed to questions; `reported` by the agent itself.
        tool: the target behind the recorder; None if the agent searches elsewhere.
        questions: how many there are, over all trials.
        searched: for how many of them the agent searched at all.
        unattributed: searches that belong to no question.
        failed: searches that the tool did not answer; they count as calls that showed nothing.
        per_right: what one right answer took, with answers.
    """

    attribution: str
    tool: str | None
    questions: int
    searched: int
    unattributed: int = 0
    failed: int = 0
    figures: dict[str, SearchFigure]
    calls: Spread
    tokens: Spread
    ms: Spread
    curve: list[CurvePoint]
    by_tokens: list[CurvePoint] = Field(default=[])
    blame: BlameCount | None = None
    quadrants: AnswerQuadrants | None = None
    per_right: dict[str, float] = Field(default={})
    usage: dict[str, float] = Field(default={})

    @property
    def recorded(self) -> bool:
        """Whether Assay saw the searches itself."""
        return self.attribution != "reported"


class SearchRow(RunRecord):
    """A line of `searches.jsonl`: the searches of one question, in figures; means over trials."""

    query_id: str
    figures: dict[str, float]
    missing: dict[str, Blame] = Field(default={})

    def figure(self, name: str) -> float | None:
        """One of `SEARCH_FIGURES`; None if this question has none."""
        return self.figures.get(name) if name in SEARCH_FIGURES else None


class TrialsReport(RunRecord):
    """`trials` of a report: how far the trials of a question agree.

    Attributes:
        repeat: trials of each question.
        agreement: the mean overlap of the lists of two trials (Jaccard).
        between: the variance of the headline between questions.
        within: its variance between the trials of one question.
        advice: what would make the mean more certain.
        pass_all: the share of questions that are right in every trial, `pass^N`.
        pass_any: the share that is right in at least one, `pass@N`.
        flaky: ids of questions that are right in some trials only, or that differ most.
    """

    repeat: int
    agreement: float
    between: float
    within: float
    advice: str
    pass_all: SearchFigure | None = None
    pass_any: SearchFigure | None = None
    flaky: list[str] = Field(default=[])
