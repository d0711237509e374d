"""What a run will ask: its settings, the queries that are drawn, and the shard of them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from assay.data.dataset import Dataset, Judgments, Query
from assay.errors import RunError, UsageError

TRACKS = ("zero-shot", "trained", "undeclared")


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides a run's scores and how it is carried out; kept in `run.json`."""

    target: str
    dataset: str = "nfcorpus"
    split: str = "test"
    num_queries: int | None = None
    seed: int = 42
    top_k: int = 5
    concurrency: int = 8
    timeout: float = 60.0
    retries: int = 3
    gates: tuple[str, ...] = ()
    track: str = "undeclared"
    baseline: str = ""
    mapping: str = ""
    """What an MCP tool calls its fields: `query=q,top_k=limit,doc_id=id`."""
    shard_index: int = 0
    num_shards: int = 1
    answers: bool = False
    judge: str = ""
    """The model that judges answers; left empty they are held against their key facts."""
    judge_votes: int = 3
    max_cost: float | None = None
    counterfactuals: bool = False
    ground_truth: str = ""
    """A file of reference answers, where they are not the data set's own."""

    def __post_init__(self) -> None:
        _between("seed", self.seed, 0, 2**63 - 1)
        _at_least("num_queries", self.num_queries, 1)
        _between("top_k", self.top_k, 1, 1000)
        _between("concurrency", self.concurrency, 1, 1000)
        _between("retries", self.retries, 0, 20)
        _at_least("num_shards", self.num_shards, 1)
        _between("shard_index", self.shard_index, 0, self.num_shards - 1)
        _between("judge_votes", self.judge_votes, 1, 99)
        _at_least("max_cost", self.max_cost, 0)
        if not self.answers and (self.judge or self.counterfactuals or self.ground_truth):
            raise UsageError("a judge, counterfactuals and ground truth are for --answers; add it")
        if self.max_cost is not None and not self.judge:
            raise UsageError("max_cost bounds what a judge may spend; add --judge")
        if not 0 < self.timeout < float("inf"):
            raise UsageError(f"timeout must be a positive number of seconds, got {self.timeout}")
        if self.track not in TRACKS:
            raise UsageError(f"track must be one of {', '.join(TRACKS)}, got {self.track!r}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RunConfig":
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown or "target" not in values:
            what = f"unknown settings {unknown}" if unknown else "no target"
            raise RunError(f"was not written by this version of Assay: {what}")
        try:
            return _reader().validate_json(orjson.dumps(values), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise RunError(f"{place}: {first['msg']}, got {first['input']!r}") from None


def completed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """With the defaults of settings that are younger than the run they were kept with."""
    missing = {
        field.name: field.default
        for field in fields(RunConfig)
        if field.name not in settings and field.default is not MISSING
    }
    return {**settings, **missing}


@cache
def _reader() -> TypeAdapter[RunConfig]:
    return TypeAdapter(RunConfig)


def draw_queries(dataset: Dataset, config: RunConfig) -> list[Query]:
    """The sample that the seed stands for; the same draw as the public evaluator's.

    All queries in file order where no number is asked for, else
    `random.Random(seed).sample(valid, n)`; a shard takes every num_shards-th of those.
    """
    valid = (
        dataset.questions_in(config.split) if config.answers else dataset.queries_in(config.split)
    )
    if not valid:
        raise UsageError(
            f"split {config.split!r} of data set {dataset.name!r} has no query with a relevant "
            "document, so nothing can be measured"
        )
    if config.num_queries is None:
        drawn: Sequence[Query] = valid
    elif config.num_queries > len(valid):
        raise UsageError(
            f"num_queries must be at most {len(valid)}, the {_kind(config)} of split "
            f"{config.split!r}, got {config.num_queries}"
        )
    else:
        drawn = random.Random(config.seed).sample(valid, config.num_queries)
    shard = list(drawn[config.shard_index :: config.num_shards])
    if not shard:
        raise UsageError(
            f"shard {config.shard_index} of {config.num_shards} is empty, since only {len(drawn)} "
            "queries are drawn; take fewer shards"
        )
    return shard


def _kind(config: RunConfig) -> str:
    return "questions with a reference answer" if config.answers else "judged queries"


def judgments_of(dataset: Dataset, config: RunConfig, queries: Sequence[Query]) -> Judgments:
    """Of those that have any: a question without an answer has no relevant document."""
    judgments = dataset.judgments_in(config.split)
    return {query.id: judgments[query.id] for query in queries if query.id in judgments}


def _at_least(name: str, value: float | None, low: float) -> None:
    if value is not None and not value >= low:  # NaN is not either
        raise UsageError(f"{name} must be at least {low}, got {value}")


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} must be between {low} and {high}, got {value}")
