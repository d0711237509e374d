"""The typed values of a run: header, report, rows and comparison.

These models write the files of a run and read them back. A report is a `Report` (everything but
the rows) and any number of `QueryRow` and `AnswerRow`, which are streamed: a run may have 100,000.
Numbers that depend on the run, such as `ndcg_at_5`, are extra fields of their model and are read
through its methods.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import orjson
from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from assay.errors import AssayError, RunError, UsageError
from assay.metrics.answer_values import AnswerDiagnosis, Difference, NuggetAssignment
from assay.metrics.figures import AnswerFigure
from assay.metrics.metric import Metric, parse_metric
from assay.metrics.scoring import Kind
from assay.net.json import LARGEST, is_extreme, parse_json
from assay.net.redact import mask_secrets
from assay.privacy import is_private
from assay.run.answers import AnswersReport, BadId
from assay.run.config import RunConfig
from assay.run.provenance import GitRecord, MachineRecord
from assay.run.run_record import (
    FigureName,
    GateResult,
    LabelCoverage,
    Latency,
    MetricName,
    PacingRecord,
    RunRecord,
)
from assay.run.searches import SearchReport, TrialsReport
from assay.run.state import RunState

_LOCAL_PORT = re.compile(r"(//(?:localhost|127\.0\.0\.1|\[::1\])):\d+")

FORMAT = 2  # Of `run.json` and `report.json`; read as 0 from files that have no number


MIN_ANSWERED = 0.5  # A run that answered a smaller share of its queries is never a reference


def is_answered(answered: int, asked: int) -> bool:
    """Whether a run answered enough of its queries to compare others with it."""
    return answered > 0 and answered >= MIN_ANSWERED * asked


def _without_version(agent: str) -> str:
    """`Search agent v1.2` as `Search agent`."""
    name, _, last = agent.rpartition(" ")
    return name.rstrip() if name and last.removeprefix("v")[:1].isdigit() else agent


class RunModel(RunRecord):
    """A record that is read from a file and written to one."""

    @classmethod
    def read(cls, value: object, path: Path, remedy: str, where: str = "") -> Self:
        """Validate `value`, found at `where` in `path`; raise `RunError` with the `remedy`."""
        known = None if "__pydantic_extra__" in cls.__annotations__ else cls.model_fields
        if is_extreme(value, known):
            what = ": ".join(filter(None, (where, f"has a number above {LARGEST:g}")))
            raise RunError(f"{path} is damaged: {what}; {remedy}")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))
            what = first["msg"].removeprefix("Value error, ")
            words = ": ".join(filter(None, (where, field, what)))
            raise RunError(f"{path} is damaged: {words}; {remedy}") from None

    def to_json(self, *, indent: int | None = None) -> bytes:
        """The value as its file holds it: what was set, None included."""
        return self.model_dump_json(indent=indent, exclude_unset=True).encode()


def _read_config(value: object) -> RunConfig:
    if isinstance(value, RunConfig):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("the settings are not an object")
    try:
        return _config_of(orjson.dumps(value), is_private())
    except AssayError as error:
        raise ValueError(str(error)) from None


# The header and the report of a run have the same settings, as have most runs of a list: to check
# them anew takes half of the time of reading a run.
@lru_cache(maxsize=64)
def _config_of(settings: bytes, _private: bool) -> RunConfig:
    return RunConfig.from_json(parse_json(settings))


Config = Annotated[RunConfig, BeforeValidator(_read_config)]


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


class TargetRecord(RunModel):
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
        if self.called or self.agent:
            return self.called or _without_version(self.agent or "")
        return _LOCAL_PORT.sub(r"\1", self.name)

    @field_validator("name", "details")
    @classmethod
    def _without_secrets(cls, text: str) -> str:
        """Also where the run was written by somebody else, or by a version that masked less."""
        return str(mask_secrets(text))


class DatasetRecord(RunModel):
    """Which data a run was made on, with fingerprints of the whole, the answers and the labels."""

    name: str
    fingerprint: str
    references: str | None = None
    labels: str | None = None


class RunHeader(RunModel):
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


class MeasuredDataset(DatasetRecord):
    """The data set as a report describes it; `judged_by` says which judgments a model made."""

    split: str
    documents: int
    judged_queries: int
    queries_without_relevant: int = 0
    judged_by: str | None = None


class RunSummary(RunModel):
    """The flat figures that leaderboards read, `mean_ndcg_at_5`; sums merge shards exactly."""

    total_queries: int
    successful_queries: int
    failed_queries: int
    success_rate: float
    total_time_seconds: float
    queries_per_second: float
    attempts: int = 0
    __pydantic_extra__: dict[str, float | None]

    def figure(self, name: str) -> float | None:
        """A figure by its key, also those that depend on the run's metrics."""
        value = getattr(self, name, None)
        return value if isinstance(value, int | float) else None


class Statistic(RunModel):
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


class UnseenQueries(RunModel):
    """The headline metric on the queries that no train query resembles."""

    queries: int
    mean: float
    low: float | None
    high: float | None


class ViolationCount(RunModel):
    """How many ids of how many queries broke a rule; `hint` says what may help."""

    ids: int
    queries: int
    examples: list[BadId] = Field(default=[])
    hint: str | None = None


class PairedResult(RunModel):
    """Two runs in one metric, query by query: B - A; `wins` are queries on which B is better.

    `p_adjusted` is corrected for the number of metrics, and systems, that were compared (Holm).
    """

    n: int
    mean_a: float
    mean_b: float
    difference: float
    low: float | None
    high: float | None
    p_value: float
    p_adjusted: float
    wins: int
    ties: int
    losses: int
    queries_needed: int | None

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at 0.05."""
        return self.p_adjusted < 0.05


class ChangedQuery(RunModel):
    """A query with its score in both runs."""

    query_id: str
    query_text: str
    a: float
    b: float


class Comparison(RunModel):
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


class Report(RunModel):
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


class QueryRow(RunModel):
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
        if self.status == "ok" and "latency_ms" not in self.model_fields_set:
            raise ValueError("latency_ms is missing")
        if self.status == "failed" and not self.failure:
            raise ValueError("failure is missing")
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


class AnswerRow(RunModel):
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


class ReportFile(Report):
    """`report.json` as a whole, for its JSON Schema and for `--json`."""

    title: ClassVar[str] = "EvaluationReport"
    per_query_results: list[QueryRow]
    answer_results: list[AnswerRow] | None = None


ReportFigure = Metric | AnswerFigure
