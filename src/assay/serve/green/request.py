"""What an evaluator is asked for: the EvalRequest, checked field by field."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from assay.agents.a2a.discovery import base_address
from assay.data.dataset import Dataset
from assay.errors import AssayError, UsageError
from assay.evaluation.plan import RunConfig
from assay.net.outbound import split_address
from assay.net.redact import redact_url
from assay.serve.a2a.executor import Refused, problem_of
from assay.serve.a2a.whole_number import WholeNumber

ROLE = "retrieval_agent"
DEFAULT_QUERIES = 100
LARGEST_SEED = 2**53 - 1
"""A2A carries numbers as doubles: a larger one would arrive, and be reported, as another."""

LONGEST_URL = 2048
_AGENT = f"participants.{ROLE}"
_NAMED = 10
_LONGEST_NAME = 40


def _web_address(value: str) -> str:
    if len(value) > LONGEST_URL:
        raise ValueError(f"longer than {LONGEST_URL} characters")
    try:
        split_address(value)
    except UsageError:
        raise ValueError("not an http(s) address such as http://host:9010") from None
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]


class EvalConfig(BaseModel):
    """The platform adds the last three. `num_instances` is its word for num_queries, and wins."""

    model_config = ConfigDict(extra="allow")

    num_queries: WholeNumber | None = Field(default=None, ge=1)
    top_k: WholeNumber = Field(default=5, ge=1, le=100)
    random_seed: WholeNumber = Field(default=42, ge=0, le=LARGEST_SEED)
    mcp_server_url: WebAddress | None = None
    verbose: bool = False
    shard_index: WholeNumber = Field(default=0, ge=0)
    num_shards: WholeNumber = Field(default=1, ge=1)
    num_instances: WholeNumber | None = Field(default=None, ge=1)


class Participants(BaseModel):
    """Others may be named beside the one that is evaluated; what they are is not looked at."""

    model_config = ConfigDict(extra="allow")

    retrieval_agent: WebAddress | None = None


class EvalRequest(BaseModel):
    participants: Participants
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
        return EvalRequest.model_validate(request)
    except ValidationError as error:
        raise Refused(problem_of(error)) from None


def agent_of(asked: EvalRequest) -> str:
    """The address to evaluate. One with a password in it would have that stored with the run."""
    url = asked.participants.retrieval_agent
    if url is None:
        raise Refused(f"participants: {ROLE!r} is missing; name the address of the agent there")
    if "@" in urlsplit(url).netloc:
        raise Refused(f"participants.{ROLE}: an address with a user name or password is not called")
    return url


def to_order(asked: EvalRequest, dataset: Dataset, source: str, concurrency: int) -> Order:
    """`source` is the name or path by which the data set can be loaded again."""
    wanted = asked.config
    judged = len(dataset.queries_in("test"))
    number = wanted.num_instances or wanted.num_queries or min(DEFAULT_QUERIES, judged)
    if number > judged:
        raise Refused(
            f"config.num_queries: at most {judged}, the judged queries of {dataset.name!r}"
        )
    url = agent_of(asked)
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
    unknown, others = asked.config.model_extra, asked.participants.model_extra
    found = []
    if unknown:
        found.append(f"config: unknown and not used: {_names(unknown)}")
    if others:
        found.append(f"participants: not evaluated: {_names(others)}")
    if asked.config.num_instances and asked.config.num_queries:
        found.append("config: num_instances was used, num_queries was not")
    return tuple(found)


def _names(given: Iterable[str]) -> str:
    """A few of them, and of each the beginning: they are kept with the run."""
    names = sorted(given)
    shown = [repr(_shortened(name)) for name in names[:_NAMED]]
    more = [f"and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join(shown + more)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def without_address(text: str, url: str) -> str:
    """What is said of the agent under test, less where it is: whoever named it knows, and
    whoever else reads it need not."""
    base, (host, _) = redact_url(base_address(url)), split_address(url)
    origin = "/".join(base.split("/")[:3])
    for place, words in ((base, _AGENT), (origin, "its host"), (repr(host), "its host")):
        text = text.replace(place, words)
    return text
