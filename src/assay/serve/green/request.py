"""The EvalRequest that the green agent receives, validated and turned into a run's settings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from assay.contract.envelope import NO_FLAG
from assay.data.dataset import Dataset
from assay.errors import AssayError, UsageError
from assay.evaluation.merge import ROLE
from assay.net.outbound import split_address
from assay.run.config import RunConfig, environment_defaults, request_settings
from assay.run.folder import is_path
from assay.run.option import Option
from assay.serve.a2a import TaskRefused

DEFAULT_QUERIES = 100
# What the environment of the server decides if a request does not; `concurrency` is an option of
# `assay serve green`.
SERVER_DEFAULTS = ("timeout", "track", "answers", "warm_up")
MAX_URL_LENGTH = 2048
_MAX_NAMES = 10
_MAX_NAME_LENGTH = 40


def _web_address(value: str) -> str:
    if len(value) > MAX_URL_LENGTH:
        raise ValueError(f"longer than {MAX_URL_LENGTH} characters")
    try:
        split_address(value)
    except UsageError:
        raise ValueError("not an http(s) URL such as http://host:9010") from None
    return value


Integer = Annotated[int, NO_FLAG]
Number = Annotated[float, NO_FLAG, Field(gt=0, allow_inf_nan=False)]
WebAddress = Annotated[str, AfterValidator(_web_address)]


class _PlatformConfig(BaseModel):
    """The keys of a request that are not options of a run; `num_instances` means `num_queries`
    and wins, `search` is the built-in tool whose use is recorded."""

    model_config = ConfigDict(extra="allow")

    mcp_server_url: WebAddress | None = None
    verbose: bool = False
    num_instances: Integer | None = Field(default=None, ge=1)
    search: Literal["bm25", "dense", "hybrid"] | None = None

    def settings(self) -> dict[str, Any]:
        """The settings of a run that the request holds, by their names in `RunConfig`."""
        return {
            setting.name: getattr(self, key)
            for key, setting in request_settings().items()
            if key in self.model_fields_set
        } | ({"search": f"builtin:{self.search}"} if self.search else {})


def _request_field(setting: Option) -> tuple[Any, Any]:
    kinds: dict[type, Any] = {int: Integer, float: Number, tuple: tuple[str, ...]}
    kind = kinds.get(setting.kind, setting.kind)
    limits = {"ge": setting.low, "le": setting.request_high or setting.high}
    bounds = {name: value for name, value in limits.items() if value is not None}
    field = Field(default=setting.default, **bounds)  # type: ignore[call-overload]
    return (kind | None if setting.nullable else kind), field


# A type checker cannot know the fields of a class that is made from the table of options.
if TYPE_CHECKING:
    EvalConfig = _PlatformConfig
else:
    EvalConfig = create_model(
        "EvalConfig",
        __base__=_PlatformConfig,
        __doc__="How to evaluate: the options of a run that a request may set.",
        **{key: _request_field(setting) for key, setting in request_settings().items()},
    )


class Participants(BaseModel):
    """The agent to evaluate. Others may be named beside it and are not validated."""

    model_config = ConfigDict(extra="allow")

    retrieval_agent: WebAddress | None = None


class EvalRequest(BaseModel):
    """The body of an evaluation request, over A2A and REST."""

    participants: Participants
    config: EvalConfig = EvalConfig()


def agent_url(asked: EvalRequest) -> str:
    """The address to evaluate. A password in it would be stored with the run: refused."""
    url = asked.participants.retrieval_agent
    if url is None:
        raise TaskRefused(f"participants: {ROLE!r} is missing; set it to the agent's URL")
    if "@" in urlsplit(url).netloc:
        raise TaskRefused(f"participants.{ROLE}: remove the user name or password from the URL")
    return url


def to_config(
    asked: EvalRequest, dataset: Dataset, source: str, concurrency: int
) -> tuple[RunConfig, list[str]]:
    """The settings of the run and warnings, or `TaskRefused` if the data set cannot satisfy them.

    source: the name or path by which the data set can be loaded again.
    """
    defaults = {"concurrency": concurrency, **environment_defaults(SERVER_DEFAULTS)}
    wanted = defaults | asked.config.settings()
    answers = wanted.get("answers", False)
    judged = len(dataset.questions_in("test") if answers else dataset.queries_in("test"))
    asked_for = asked.config.num_instances or wanted.get("num_queries")
    number = asked_for or min(DEFAULT_QUERIES, judged)
    if number > judged:
        raise TaskRefused(
            f"config.num_queries: at most {judged}, the judged queries of {dataset.name!r}"
        )
    try:
        settings = wanted | {"num_queries": number}
        config = RunConfig(target=f"a2a:{agent_url(asked)}", dataset=source, **settings)
    except AssayError as error:
        raise TaskRefused(f"config.{error}") from None
    if is_path(config.compare_to):
        raise TaskRefused("config.compare_to: the name, label or branch of a run kept here")
    if config.num_shards > number:
        raise TaskRefused(f"config.num_shards: at most {number}, the number of queries")
    warnings = []
    if unknown := asked.config.model_extra:
        warnings.append(f"config: ignored unknown keys: {_names(unknown)}")
    if others := asked.participants.model_extra:
        warnings.append(f"participants: not evaluated: {_names(others)}")
    if asked.config.num_instances and "num_queries" in wanted:
        warnings.append("config: num_queries was ignored in favor of num_instances")
    return config, warnings


def _names(given: Mapping[str, object]) -> str:
    """The first few names, shortened: they are kept with the run."""
    return ", ".join(repr(name[:_MAX_NAME_LENGTH]) for name in sorted(given)[:_MAX_NAMES])
