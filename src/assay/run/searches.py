"""What a report says of an agent's searches and of repeated trials."""

from typing import Literal

from pydantic import Field

from assay.metrics.answer_values import StoredModel

# Why a needed document was never shown, in the order in which it is decided.
Blame = Literal[
    "not findable",
    "reformulated away",
    "cut too early",
    "not known",
    "stopped early",
    "never asked for",
]


class SearchFigure(StoredModel):
    """A figure over the questions that have it, with a 95% interval."""

    mean: float
    low: float | None
    high: float | None
    questions: int
    ceiling: float | None = None
    note: str = ""  # such as where the tool limits it


class Spread(StoredModel):
    """An amount for each question."""

    mean: float
    p50: float
    p95: float
    max: float


class CurvePoint(StoredModel):
    """The share of the evidence that was seen after so many searches, or tokens."""

    at: int
    mean: float
    low: float | None = None
    high: float | None = None


class BlameCount(StoredModel):
    """Needed documents that were never shown, by why; some of them if there are very many."""

    documents: int
    examined: int
    counts: dict[Blame, int]


class AnswerQuadrants(StoredModel):
    """Answers by whether the evidence was complete and whether they are right."""

    read_it: int  # complete and right
    knew_it: int  # right without it
    did_not_read: int  # complete and wrong
    never_saw: int  # neither


class SearchReport(StoredModel):
    """`search` of a report: what the searches of the agent were worth."""

    attribution: str  # how searches were attributed to questions; `reported` by the agent itself
    tool: str | None  # the target behind the recorder; None if the agent searches elsewhere
    questions: int  # over all trials
    searched: int  # for how many of them the agent searched at all
    unattributed: int = 0
    failed: int = 0  # searches that the tool did not answer: calls that showed nothing
    figures: dict[str, SearchFigure]
    calls: Spread
    tokens: Spread
    ms: Spread
    curve: list[CurvePoint]
    by_tokens: list[CurvePoint] = Field(default=[])
    blame: BlameCount | None = None
    quadrants: AnswerQuadrants | None = None
    per_right: dict[str, float] = Field(default={})  # what one right answer took
    usage: dict[str, float] = Field(default={})

    @property
    def recorded(self) -> bool:
        """Whether Assay saw the searches itself."""
        return self.attribution != "reported"


class SearchRow(StoredModel):
    """A line of `searches.jsonl`: the searches of one question, in figures; means over trials."""

    query_id: str
    figures: dict[str, float]
    missing: dict[str, Blame] = Field(default={})


class TrialsReport(StoredModel):
    """`trials` of a report: how far the trials of a question agree."""

    repeat: int
    agreement: float  # the mean overlap of the lists of two trials (Jaccard)
    between: float  # the variance of the headline between questions
    within: float  # its variance between the trials of one question
    advice: str  # what would make the mean more certain
    pass_all: SearchFigure | None = None  # questions that are right in every trial, `pass^N`
    pass_any: SearchFigure | None = None  # right in at least one, `pass@N`
    flaky: list[str] = Field(default=[])  # right in some trials only, or that differ most
