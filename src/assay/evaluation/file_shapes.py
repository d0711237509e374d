"""What the files of a run must hold before anybody relies on them.

They are only JSON: disks lose their ends, people edit them. Whatever reads a run reads it through
here, so that damage is named once, by file and place, and never met as a stray exception.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from assay.errors import AssayError, RunError
from assay.evaluation.answer_shapes import Answers
from assay.evaluation.plan import RunConfig
from assay.measure.figures import parse_figure
from assay.measure.metrics import parse_metric
from assay.measure.violations import Kind


def require_shape(
    shape: type[BaseModel], value: Any, path: Path, remedy: str, where: str = ""
) -> None:
    """Raise `RunError` where `value`, which stands at `where` in `path`, is not of that shape."""
    try:
        shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        words = ": ".join(filter(None, (where, place, what)))
        raise RunError(f"{path} is damaged: {words}; {remedy}") from None


def _settings(value: dict[str, Any]) -> dict[str, Any]:
    try:
        RunConfig.from_json(value)
    except AssayError as error:
        raise ValueError(str(error)) from None
    return value


def _metric(name: str) -> str:
    try:
        parse_metric(name)
    except AssayError as error:
        raise ValueError(str(error)) from None
    return name


def _figure(name: str) -> str:
    try:
        parse_figure(name)
    except AssayError as error:
        raise ValueError(str(error)) from None
    return name


Settings = Annotated[dict[str, Any], AfterValidator(_settings)]
MetricName = Annotated[str, AfterValidator(_metric)]
FigureName = Annotated[str, AfterValidator(_figure)]


class _Shape(BaseModel):
    """Strict, since the value is used as it was read; further keys are welcome."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Target(_Shape):
    name: str
    protocol: str
    details: str


class _Dataset(_Shape):
    name: str
    fingerprint: str


class Header(_Shape):
    """`run.json`"""

    started: str
    config: Settings
    target: _Target
    track: str
    dataset: _Dataset
    versions: dict[str, str]
    process: int | None = None
    baseline_of: str = ""


class _MeasuredDataset(_Dataset):
    split: str
    documents: int
    judged_queries: int


class _Summary(_Shape):
    total_queries: int
    successful_queries: int
    failed_queries: int
    success_rate: float
    total_time_seconds: float
    queries_per_second: float
    __pydantic_extra__: dict[str, float | None]


class _Statistic(_Shape):
    mean: float
    low: float | None
    high: float | None
    median: float
    std: float
    min: float
    max: float
    ceiling: float


class _Unseen(_Shape):
    queries: int
    mean: float
    low: float | None
    high: float | None


class _Gate(_Shape):
    gate: str
    value: float | None
    passed: bool


class _Found(_Shape):
    ids: int
    queries: int


class _Latency(_Shape):
    p50: float
    p90: float
    p95: float
    p99: float
    max: float
    queries: int = 0
    timeouts: int = 0


class Head(_Shape):
    """`report.json` without its rows."""

    state: str
    summary: _Summary
    metrics: dict[MetricName, float]
    statistics: Annotated[dict[MetricName, _Statistic], Field(min_length=1)]
    unseen_queries: _Unseen | None
    gates: list[_Gate]
    failures: dict[str, int]
    failure_examples: dict[str, str]
    violations: dict[Kind, _Found]
    latency_ms: _Latency
    target: _Target
    track: str
    dataset: _MeasuredDataset
    config: Settings
    started: str
    versions: dict[str, str]
    planned_queries: int
    answers: Answers | None = None


class Row(_Shape):
    """One of `per_query_results`, but for the figures, which depend on the report."""

    query_id: str
    query_text: str
    retrieved_docs: list[str]
    status: Literal["ok", "failed"]
    failure: str = ""
    message: str = ""
    at: float = 0.0
    latency_ms: float = 0.0
    attempts: int = 0
    relevant_docs_retrieved: int
    total_relevant_docs: int

    @model_validator(mode="after")
    def _tells_its_outcome(self) -> Self:
        if self.status == "ok" and "latency_ms" not in self.model_fields_set:
            raise ValueError("latency_ms is missing")
        if self.status == "failed" and not self.failure:
            raise ValueError("failure is missing")
        return self


class _Paired(_Shape):
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


class ComparisonFile(_Shape):
    """`comparison.json`"""

    a: str
    b: str
    metrics: Annotated[dict[FigureName, _Paired], Field(min_length=1)]
    warnings: list[str]
    run: str = ""
