"""The typed values of a run: header, report, rows and comparison.

These models write the files of a run and read them back. A report is a `Report` (everything but
the rows) and any number of `QueryRow` and `AnswerRow`, which are streamed: a run may have 100,000.
Numbers that depend on the run, such as `ndcg_at_5`, are extra fields of their model and are read
through its methods.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from assay.errors import AssayError, RunError, UsageError
from assay.metrics.answer_values import AnswerDiagnosis, Difference, NuggetAssignment, StoredModel
from assay.metrics.figures import AnswerFigure, parse_figure
from assay.metrics.metric import Metric, parse_metric
from assay.metrics.scoring import Kind
from assay.metrics.statistics import PairedResult
from assay.net.json import parse_json
from assay.net.redact import mask_secrets
from assay.privacy import is_private
from assay.run.answers import AnswersReport, AnswerStatistic, ViolationCount
from assay.run.config import RunConfig

FORMAT = 2  # Of `run.json` and `report.json`; read as 0 from files that have no number
MIN_ANSWERED = 0.5  # A run that answered a smaller share of its queries is never a reference

# A condition on a figure; one that names another run has another shape.
GATE_SHAPE = re.compile(r"(?P<name>[^<>]+)(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?[\d.]+(e-?\d+)?)")

_Value = TypeVar("_Value")
ReportFigure = Metric | AnswerFigure


def is_answered(answered: int, asked: int) -> bool:
    """Whether a run answered enough of its queries to compare others with it."""
    return answered > 0 and answered >= MIN_ANSWERED * asked


class RunState(StrEnum):
    """How far a run is, or how it ended; states of other versions are read as plain strings."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    TARGET_LOST = "target lost"
    NOT_JUDGED = "not judged"  # Every question is answered; the judge did not finish
    UNFINISHED = "unfinished"  # Without a report, and no process goes on: it was killed
    DAMAGED = "damaged"  # A file of the run cannot be read


def _checked_by(parse: Callable[[Any], _Value]) -> Callable[[Any], _Value]:
    def check(value: Any) -> _Value:
        try:
            return parse(value)
        except AssayError as error:
            raise ValueError(str(error)) from None

    return check


MetricName = Annotated[str, AfterValidator(_checked_by(lambda name: parse_metric(name) and name))]
FigureName = Annotated[str, AfterValidator(_checked_by(lambda name: parse_figure(name) and name))]


def _read_config(value: object) -> RunConfig:
    if isinstance(value, RunConfig):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("the settings are not an object")
    return _config_of(orjson.dumps(value), is_private())


# The header and the report of a run have the same settings, as have most runs of a list: checking
# them again takes half of the time of reading a run. In private mode the result is another one.
@lru_cache(maxsize=64)
def _config_of(settings: bytes, _private: bool) -> RunConfig:
    return RunConfig.from_json(parse_json(settings))


Config = Annotated[RunConfig, BeforeValidator(_checked_by(_read_config))]


def require_format(value: Mapping[str, Any], path: Path) -> None:
    """Refuse files of a newer Assay; older ones are read as they are."""
    number, config = value.get("format", 0), value.get("config")
    settings = RunConfig.unknown_settings(config) if isinstance(config, Mapping) else []
    what = f"unknown settings {settings}" if settings else ""
    if isinstance(number, int) and number > FORMAT:
        what = f"format {number}, this one reads up to {FORMAT}"
    if what:
        raise RunError(
            f"{path} was written by a newer Assay ({what}); upgrade with: "
            "pip install --upgrade agent-assay"
        )


class GateResult(StoredModel):
    """How a gate ended; `value` is None if the run could not give the figure."""

    gate: str  # as it was given
    value: float | None
    passed: bool  # it holds, and the run can be trusted
    reason: str | None = None  # why it failed, if the figure alone does not tell
    note: str | None = None  # who judged the figure, and whether that was checked

    def failed_because(self, reason: str) -> "GateResult":
        """The same gate as one that failed, whatever its figure is."""
        return self.model_copy(update={"passed": False, "reason": reason})

    def noted(self, note: str) -> "GateResult":
        """The same gate with a note about its figure."""
        return self.model_copy(update={"note": note}) if note else self


class LabelCoverage(StoredModel):
    """How many of the documents that judgments name exist and were returned."""

    judged: int  # different documents that the questions' judgments name
    in_corpus: int | None  # None for data without documents
    returned: int  # for whichever question


class WarmUpRecord(StoredModel):
    """What was done before the first timed query."""

    way: Literal["readiness", "call"]  # /health/ready, or a query that was not counted
    ready: bool
    seconds: float
    calls: int = 0  # untimed queries
    message: str = ""  # why it is not known to be ready


class PacingRecord(StoredModel):
    """How a run asked its queries; those that timed out were asked once more, alone, at the end."""

    warm_up: WarmUpRecord | None = None
    asked_again: int = 0
    answered_again: int = 0


class Latency(StoredModel):
    """Milliseconds of answered queries, and of timeouts at their limit; 0 if nothing was timed."""

    p50: float
    p90: float
    p95: float
    p99: float
    max: float
    queries: int | None = None  # None in older runs
    timeouts: int = 0


class GitRecord(StoredModel):
    """The repository that a run was started in."""

    commit: str | None = None  # None before the first commit
    branch: str | None = None  # None for a commit that was checked out by itself, outside of CI
    dirty: bool | None = None  # tracked files were changed; None if finding out took too long
    remote: str | None = None  # the address of `origin`, or the only remote, without credentials

    @property
    def short_commit(self) -> str:
        """`c0ffee12 with changes`; empty without a commit."""
        return f"{self.commit[:8]}{' with changes' * bool(self.dirty)}" if self.commit else ""


class MachineRecord(StoredModel):
    """The machine that asked: its latencies hold there."""

    name: str
    system: str
    processor: str
    cpus: int | None = None


_LOCAL_PORT = r"(//(?:localhost|127\.0\.0\.1|\[::1\])):\d+"


class TargetRecord(StoredModel):
    """What a run knows of its target; `agent` is its own name and version, from its card.

    `called` is the name that assay.toml gives to it.
    """

    name: str
    protocol: str
    details: str
    agent: str | None = None
    called: str | None = None

    @property
    def title(self) -> str:
        """What to call the target: as assay.toml or its card does, else its address.

        A local port is left out: it changes from one start of a service to the next.
        """
        if self.called or not self.agent:
            return self.called or re.sub(_LOCAL_PORT, r"\1", self.name)
        # The version is left out: a new release of an agent is the same target.
        name, _, last = self.agent.rpartition(" ")
        is_version = last.removeprefix("v")[:1].isdigit()  # of `Search agent v1.2`
        return name.rstrip() if name and is_version else self.agent

    @field_validator("name", "details")
    @classmethod
    def _without_secrets(cls, text: str) -> str:
        """Mask also what another program wrote, or a version that masked less."""
        return str(mask_secrets(text))


class DatasetRecord(StoredModel):
    """Which data a run was made on, with fingerprints of the whole, the answers and the labels."""

    name: str
    fingerprint: str
    references: str | None = None
    labels: str | None = None


class RunHeader(StoredModel):
    """`run.json`: what is known when a run begins; `retriever` is about a built-in agent."""

    format: int = 0
    started: str
    process: int | None = None
    config: Config
    target: TargetRecord
    track: str
    dataset: DatasetRecord
    versions: dict[str, str]
    embedder: str | None = None
    retriever: dict[str, str] | None = None
    baseline_of: str | None = None
    merged_from: list[str] | None = None
    pacing: PacingRecord | None = None
    git: GitRecord | None = None
    machine: MachineRecord | None = None
    label: str | None = None
    tags: dict[str, str] = Field(default={})
    note: str | None = None

    @property
    def repository(self) -> GitRecord:
        """`git`, without anything in it if the run was started outside of a repository."""
        return self.git or GitRecord()


class MeasuredDataset(DatasetRecord):
    """The data set as a report describes it; `judged_by` says which judgments a model made."""

    split: str
    documents: int
    judged_queries: int
    queries_without_relevant: int = 0
    judged_by: str | None = None


class RunSummary(StoredModel):
    """The flat figures that leaderboards read, `mean_ndcg_at_5`; sums merge shards exactly."""

    total_queries: int
    successful_queries: int
    failed_queries: int
    success_rate: float
    total_time_seconds: float
    queries_per_second: float
    attempts: int = 0
    __pydantic_extra__: dict[str, float | None]


class Statistic(StoredModel):
    """One metric over all queries, with a 95% interval and the best value that is possible."""

    mean: float
    low: float | None
    high: float | None
    median: float
    std: float
    min: float
    max: float
    ceiling: float
    share_of_ceiling: float | None = None


class UnseenQueries(StoredModel):
    """The headline metric on the queries that no train query resembles."""

    queries: int
    mean: float
    low: float | None
    high: float | None


class ChangedQuery(StoredModel):
    """A query with its score in both runs."""

    query_id: str
    query_text: str
    a: float
    b: float


class Comparison(StoredModel):
    """Run B against run A; `comparison.json` of a run with a baseline.

    `worse` are the queries that lost most in the first metric, the largest loss first.
    """

    run: str | None = None
    a: str
    b: str
    metrics: Annotated[dict[FigureName, PairedResult], Field(min_length=1)]
    warnings: list[str]
    title: str | None = None
    gate: GateResult | None = None
    worse: list[ChangedQuery] = Field(default=[])

    def __repr__(self) -> str:
        name, first = next(iter(self.metrics.items()))
        return f"<Comparison of {self.b} with {self.a}: {name} {first.difference:+.4f}>"

    __str__ = __repr__


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


class Report(StoredModel):
    """`report.json` without its rows: every figure of a run, with its settings and its data."""

    format: int = 0
    state: str
    summary: RunSummary
    metrics: dict[MetricName, float]
    statistics: Annotated[dict[MetricName, Statistic], Field(min_length=1)]
    unseen_queries: UnseenQueries | None
    gates: list[GateResult]
    failures: dict[str, int]
    failure_examples: dict[str, str] = Field(default_factory=dict)
    violations: dict[Kind, ViolationCount]
    latency_ms: Latency
    target: TargetRecord
    track: str
    dataset: MeasuredDataset
    config: Config
    random_seed_used: int | None = None
    started: str
    versions: dict[str, str]
    planned_queries: int
    pacing: PacingRecord | None = None
    answers: AnswersReport | None = None
    comparison: Comparison | None = None
    labels: LabelCoverage | None = None
    search: SearchReport | None = None
    trials: TrialsReport | None = None
    warnings: list[str] = Field(default=[])

    @property
    def headline(self) -> tuple[Metric, Statistic]:
        """The first metric, nDCG at the depth that the agent was asked for."""
        name, statistic = next(iter(self.statistics.items()))
        return parse_metric(name), statistic

    @property
    def figures(self) -> dict[str, Statistic | AnswerStatistic]:
        """Its figures of rankings, then of answers, by name."""
        return {**self.statistics, **(self.answers.statistics if self.answers else {})}

    @property
    def gates_passed(self) -> bool:
        """Whether no gate failed."""
        return all(gate.passed for gate in self.gates)

    @property
    def failure_reason(self) -> str | None:
        """Why no gate can pass: the target, its services or the judge failed; else None."""
        if self.answers and self.answers.trouble:
            return f"not all answers were judged: {self.answers.trouble}"
        if self.state != RunState.COMPLETE:
            return f"the run did not complete: {self.state}"
        return None if self.summary.successful_queries else "no query was answered"

    def __repr__(self) -> str:
        metric, score = self.headline
        return f"<Report {self.target.name} on {self.dataset.name}: {metric} {score.mean:.4f}>"

    __str__ = __repr__


class QueryRow(StoredModel):
    """One query of a run: what was asked, what came back, how it scored.

    Of a search over several kinds of documents (Nextcloud), `doc_types`, `relevance` and
    `relevance_source` are what it says of each document.
    """

    query_id: str
    query_text: str
    retrieved_docs: list[str]
    doc_types: list[str] = Field(default=[])
    relevance: list[float] = Field(default=[])
    relevance_source: str = ""
    status: Literal["ok", "failed"]
    failure: str = ""
    message: str = ""
    said: str = ""
    at: float = 0.0
    latency_ms: float = 0.0
    attempts: int = 0
    asked_again: bool = False
    relevant_docs_retrieved: int
    total_relevant_docs: int
    trials: list[float] = Field(default=[])  # the headline in each of several trials
    __pydantic_extra__: dict[str, float]

    @model_validator(mode="after")
    def _has_an_outcome(self) -> Self:
        # Both have a default, by which a row that lost them would be an answer in no time.
        needed = "latency_ms" if self.status == "ok" else "failure"
        if needed not in self.model_fields_set:
            raise ValueError(f"{needed} is missing")
        return self

    @property
    def scores(self) -> dict[str, float]:
        """Every score of the row by its key, `ndcg_at_5`."""
        return self.__pydantic_extra__

    def score(self, metric: Metric | str) -> float:
        """The row's score in a metric, given as an object or in any spelling of its name."""
        key = metric.key if isinstance(metric, Metric) else parse_metric(metric).key
        if key not in self.scores:
            measured = ", ".join(self.scores)
            raise UsageError(f"{key} was not measured; these were: {measured}")
        return self.scores[key]


class AnswerRow(StoredModel):
    """One question of a run with answers; a line of `answers.jsonl`."""

    query_id: str
    query_text: str
    answer: str | None
    answer_length: int | None = None  # of one that was cut after 100,000 characters
    citations: list[str]
    retrieved_docs: list[str]
    answerable: bool
    reference_answer: str | None
    facts: list[str]
    needed_docs: list[str]
    correct: bool | None
    votes: list[str] | None = None
    diagnosis: AnswerDiagnosis | None = None
    counterfactuals: dict[str, bool] = Field(default={})
    differences: list[Difference] = Field(default=[])
    reasons: dict[str, str] = Field(default={})
    poison: dict[str, str] = Field(default={})
    nuggets: list[NuggetAssignment] = Field(default=[])
    __pydantic_extra__: dict[str, float | None]

    @property
    def scores(self) -> dict[str, float | None]:
        """Every metric of the answer that has a value, by name."""
        return self.__pydantic_extra__

    def score(self, name: str) -> float | None:
        """A metric of the answer; None if it has none."""
        return self.__pydantic_extra__.get(name)


class SearchRow(StoredModel):
    """A line of `searches.jsonl`: the searches of one question, in figures; means over trials."""

    query_id: str
    figures: dict[str, float]
    missing: dict[str, Blame] = Field(default={})


class ReportFile(Report):
    """`report.json` as a whole, for its JSON Schema and for `--json`."""

    title: ClassVar[str] = "EvaluationReport"
    per_query_results: list[QueryRow]
    answer_results: list[AnswerRow] | None = None
