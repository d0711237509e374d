"""What an evaluator is asked for: the EvalRequest, checked field by field."""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from assay.agents.outbound import split_address
from assay.data.dataset import Dataset
from assay.errors import AssayError, UsageError
from assay.evaluate.plan import RunConfig
from assay.serve.a2a.executor import Refused, problem_of

ROLE = "retrieval_agent"
DEFAULT_QUERIES = 100


def _web_address(value: str) -> str:
    try:
        split_address(value)
    except UsageError:
        raise ValueError("not an http(s) address such as http://host:9010") from None
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]


class EvalConfig(BaseModel):
    """The platform adds the last three. `num_instances` is its word for num_queries, and wins."""

    model_config = ConfigDict(extra="allow")

    num_queries: int | None = Field(default=None, ge=1)
    top_k: int = Field(default=5, ge=1, le=100)
    random_seed: int = 42
    mcp_server_url: WebAddress | None = None
    verbose: bool = False
    shard_index: int = Field(default=0, ge=0)
    num_shards: int = Field(default=1, ge=1)
    num_instances: int | None = Field(default=None, ge=1)


class EvalRequest(BaseModel):
    participants: dict[str, WebAddress]
    config: EvalConfig = EvalConfig()


@dataclass(frozen=True, slots=True)
class Order:
    """A request that can be carried out, in the words of a run."""

    agent_url: str
    config: RunConfig
    verbose: bool
    warnings: tuple[str, ...]


def read_request(request: dict[str, Any]) -> EvalRequest:
    try:
        asked = EvalRequest.model_validate(request)
    except ValidationError as error:
        raise Refused(problem_of(error)) from None
    if ROLE not in asked.participants:
        raise Refused(f"participants: {ROLE!r} is missing; name the address of the agent there")
    return asked


def to_order(asked: EvalRequest, dataset: Dataset, source: str, concurrency: int) -> Order:
    """`source` is the name or path by which the data set can be loaded again."""
    wanted = asked.config
    judged = len(dataset.queries_in("test"))
    number = wanted.num_instances or wanted.num_queries or min(DEFAULT_QUERIES, judged)
    if number > judged:
        raise Refused(
            f"config.num_queries: at most {judged}, the judged queries of {dataset.name!r}"
        )
    url = asked.participants[ROLE]
    if "@" in urlsplit(url).netloc:
        raise Refused(f"participants.{ROLE}: an address with a user name or password is not called")
    try:
        config = RunConfig(
            target=f"a2a:{url}",
            dataset=source,
            num_queries=number,
            seed=wanted.random_seed,
            top_k=wanted.top_k,
            concurrency=concurrency,
            shard_index=wanted.shard_index,
            num_shards=wanted.num_shards,
        )
    except AssayError as error:
        raise Refused(f"config.{error}") from None
    if wanted.num_shards > number:
        raise Refused(f"config.num_shards: at most {number}, the number of queries")
    return Order(url, config, wanted.verbose, _warnings(asked))


def _warnings(asked: EvalRequest) -> tuple[str, ...]:
    unknown = sorted(asked.config.model_extra or ())
    others = sorted(set(asked.participants) - {ROLE})
    found = []
    if unknown:
        found.append(f"config: unknown and not used: {', '.join(map(repr, unknown))}")
    if others:
        found.append(f"participants: not evaluated: {', '.join(map(repr, others))}")
    if asked.config.num_instances and asked.config.num_queries:
        found.append("config: num_instances was used, num_queries was not")
    return tuple(found)
