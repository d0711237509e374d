"""The JSON that callers and agents exchange: one request, one response, the same for every task.

Two rules shape the models. A field without a value is absent, never null: callers in other
languages test for presence. And no error shows the values that were given, because they may be
about a patient: it holds only the names of fields that the contract itself defines, and what is
wrong with them.
"""

import math
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, get_args

import orjson
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    computed_field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from assay.net.json import JsonObject


class ErrorCode(StrEnum):
    """The codes of the contract."""

    VALIDATION_ERROR = "VALIDATION_ERROR"
    UNSUPPORTED_TASK_TYPE = "UNSUPPORTED_TASK_TYPE"
    TASK_FAILED = "TASK_FAILED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    OVERLOADED = "OVERLOADED"


Model = TypeVar("Model", bound=BaseModel)

SUCCESS_STATUSES = ("ok", "success")
# About what English text has with the tokenizers of common models.
CHARACTERS_PER_TOKEN = 4
_CHUNK_SEPARATOR = "__chunk_"

# Ids go into logs and headers: nothing in them ends a line, hides or reverses the text around it
# (controls, separators, zero-width spaces, bidirectional marks; joiners, which some scripts need,
# are allowed). They are not blank, and of limited length.
_UNSEEN = r"\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
Identifier = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=256, pattern=rf"^[^{_UNSEEN}]*[^\s{_UNSEEN}][^{_UNSEEN}]*$"
    ),
]


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


# Pydantic reads true as 1: a budget of one millisecond, which is never intended. It comes after a
# number's bounds in an annotation, so that these still show in the schema.
NO_FLAG = BeforeValidator(_no_flag)
Positive = Annotated[int, Field(ge=1), NO_FLAG]
Count = Annotated[int, Field(ge=0), NO_FLAG]


class ContractModel(BaseModel):
    """Unknown fields are ignored, so that callers may be newer than agents."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_means_absent(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: item for name, item in value.items() if item is not None}


def field_named(*names: str, default: Any = ..., **bounds: Any) -> Any:
    """A field that is read under any of `names`; required unless it has a default."""
    return Field(default, validation_alias=AliasChoices(*names), **bounds)


class Budgets(ContractModel):
    """What a run may cost; an absent limit means unlimited."""

    max_output_tokens: Positive | None = Field(
        default=None,
        validation_alias=AliasChoices("max_output_tokens", "max_tokens"),
        description="Most tokens to generate. Also read from max_tokens.",
    )
    max_context_tokens: Positive | None = Field(
        default=None, description="Most tokens of context to give to a model."
    )
    max_escalations: Count | None = Field(
        default=None, description="How often the agent may turn to a costlier method."
    )
    timeout_ms: Positive | None = Field(
        default=None,
        validation_alias=AliasChoices("timeout_ms", "max_time_ms"),
        description="Most milliseconds the run may take. Also read from max_time_ms.",
    )

    def count_in_context(self, texts: Iterable[str]) -> int:
        """How many of the first `texts` fit into `max_context_tokens`."""
        count, left = 0, self.max_context_tokens
        for text in texts:
            if left is not None:
                left -= math.ceil(len(text) / CHARACTERS_PER_TOKEN)
                if left < 0:
                    break
            count += 1
        return count


class AgentRunRequest(ContractModel):
    """What a caller posts to /agents/run/sync and /agents/run/stream."""

    request_id: Identifier = Field(description="Trace id; the same id is the same run.")
    task_type: Identifier = Field(description="The task that the agent is asked to do.")
    workflow_id: str | None = Field(default=None, description="The workflow this run belongs to.")
    stage_id: str | None = Field(default=None, description="The stage of that workflow.")
    user_id: str | None = Field(default=None, description="On whose behalf the run is made.")
    mode: str = Field(default="DEMO", description="DEMO or LIVE.")
    risk_tier: str = Field(default="NON_SENSITIVE", description="PHI, SENSITIVE or NON_SENSITIVE.")
    domain_id: str = Field(default="clinical", description="The domain of knowledge.")
    inputs: JsonObject = Field(default_factory=dict, description="What the task works on.")
    budgets: Budgets = Field(default_factory=lambda: Budgets(), description="Limits, all optional.")

    def to_wire(self) -> bytes:
        """The body of the request."""
        return orjson.dumps(without_nulls(self.model_dump(exclude_none=True)))


class AgentError(ContractModel):
    """Why a run failed. `message` and `details` never hold text of the request."""

    code: str = Field(min_length=1, description=f"One of {', '.join(ErrorCode)}.")
    message: str = Field(description="One sentence for people, without any input text.")
    details: JsonObject | None = Field(default=None, description="Facts for programs.")


class GroundingChunk(ContractModel):
    """A passage that was found, with its score."""

    chunk_id: str
    doc_id: str | None = None
    text: str = ""
    score: float | None = None
    metadata: JsonObject = Field(default_factory=dict)


class GroundingSource(ContractModel):
    """A document that chunks come from."""

    id: str
    doc_id: str | None = None
    text: str = ""


class RetrievalTrace(ContractModel):
    """How the chunks were found: the stages in order and the depth of each kind of search."""

    model_config = ConfigDict(extra="allow")

    stages: list[Any] = Field(default_factory=list)
    semantic_k: Count | None = None
    bm25_k: Count | None = None
    rerank_k: Count | None = None


class GroundingPack(ContractModel):
    """The passages that an answer rests on."""

    chunks: list[GroundingChunk] = Field(default_factory=list)
    citations: list[str] = Field(default_factory=list)
    retrieval_trace: RetrievalTrace | None = None
    sources: list[GroundingSource] = Field(default_factory=list)
    span_refs: list[Any] = Field(default_factory=list)


class Usage(ContractModel):
    """What a run cost."""

    duration_ms: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class AgentRunResponse(ContractModel):
    """What an agent answers, and what the terminal event of a stream carries."""

    status: Literal["ok", "success", "error", "degraded"] = Field(
        description="ok, error, or degraded if the answer is partial; success is read as ok."
    )
    request_id: str = Field(min_length=1, description="Echo of the request.")
    task_type: str | None = Field(default=None, description="Echo of the request.")
    outputs: JsonObject = Field(default_factory=dict, description="The results of the task.")
    artifacts: list[str] = Field(default_factory=list, description="Ids of what was produced.")
    provenance: JsonObject = Field(default_factory=dict, description="Where it came from.")
    usage: Usage = Field(default_factory=Usage, description="What the run cost.")
    warnings: list[str] = Field(default_factory=list, description="What the caller should know.")
    grounding: GroundingPack | None = Field(default=None, description="Absent when there is none.")
    error: AgentError | None = Field(default=None, description="Absent when there is none.")

    @computed_field(description="False exactly when status is error.")  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether there is a result."""
        return self.status != "error"

    def to_wire(self) -> JsonObject:
        """The response as a JSON object; `ValueError` for NaN and infinity."""
        # Not mode="json": that would turn NaN into null before anyone could object.
        wire: JsonObject = without_nulls(self.model_dump(exclude_none=True))
        return wire


def succeeded(request: AgentRunRequest, outputs: JsonObject, **more: Any) -> AgentRunResponse:
    """The response to `request`; `more` are further fields of AgentRunResponse."""
    fields = {"status": "ok", **more}
    return AgentRunResponse(
        request_id=request.request_id, task_type=request.task_type, outputs=outputs, **fields
    )


class TaskError(Exception):
    """Raised by an agent's work to end a run with a chosen error.

    `message` and `details` reach the caller as they are: they must hold no input text.
    """

    def __init__(self, code: ErrorCode, message: str, *, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


def error_response(reason: TaskError, *, request_id: str) -> AgentRunResponse:
    """The response of a run that failed, or of a request that is not run."""
    error = AgentError(code=reason.code, message=reason.message, details=reason.details)
    return AgentRunResponse(status="error", request_id=request_id, error=error)


def without_nulls(value: Any) -> Any:
    """`value` without what is null. NaN would be written as null, so it is an error."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity have no JSON representation")
    return value


def chunk_id(doc_id: str, index: int) -> str:
    """`{docId}__chunk_{n}`: the name under which a chunk is ingested, found and cited."""
    return f"{doc_id}{_CHUNK_SEPARATOR}{index}"


def split_chunk_id(text: str) -> tuple[str, int]:
    """The document and the index. Any other text is taken for a document of one chunk."""
    doc_id, mark, index = text.rpartition(_CHUNK_SEPARATOR)
    # To `isdigit` alone, ² is a digit as well, which `int` refuses.
    if mark and doc_id and index.isascii() and index.isdigit():
        return doc_id, int(index)
    return text, 0


# Plainer than pydantic's own messages.
_MESSAGES = {
    "missing": "is missing",
    "dict_type": "should be an object",
    "model_type": "should be an object",
    "list_type": "should be a list",
    "string_type": "should be a string",
    "string_too_short": "is too short",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "contains characters that are not allowed",
    "int_parsing": "should be an integer",
    "int_parsing_size": "is too large",
    "int_type": "should be an integer",
    "int_from_float": "should be an integer",
    "value_error": "is invalid",
    "assertion_error": "is invalid",
}


def read_inputs(model: type[Model], request: AgentRunRequest) -> Model:
    """The inputs of a task as a `model`; the `TaskError` for wrong ones names their fields."""
    return validate_fields(model, request.inputs, prefix="inputs")


def validate_fields(model: type[Model], value: Any, *, prefix: str = "") -> Model:
    """`value` as a `model`; the `TaskError` for a wrong one names each wrong field."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = field_problems(error, model, prefix=prefix)
    # Outside of the block: the exception there holds what was sent.
    sentence = "; ".join(f"{problem['field']} {problem['problem']}" for problem in problems)
    raise TaskError(ErrorCode.VALIDATION_ERROR, sentence, details={"fields": problems})


def field_problems(
    error: ValidationError, model: type[BaseModel], *, prefix: str = ""
) -> list[dict[str, str]]:
    """[{"field": "budgets.timeout_ms", "problem": "..."}], in the order of the fields."""
    known = _field_names(model)
    problems = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        # Keys of free-form objects are the caller's own text: they are replaced by a star.
        path = [str(x) if isinstance(x, int) or x in known else "*" for x in detail["loc"]]
        # Pydantic's own message quotes nothing for the types that contracts use.
        said = _MESSAGES.get(detail["type"], detail["msg"].replace("Input should", "should"))
        field = ".".join([prefix, *path] if prefix else path) or "body"
        problems.append({"field": field, "problem": said})
    return problems


@lru_cache(maxsize=128)
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    """All names that the model and the models in it give to fields, aliases included."""
    return frozenset(_names_in(model, set()))


def _names_in(kind: Any, seen: set[Any]) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
        seen.add(kind)
        for name, field in kind.model_fields.items():
            yield name
            if isinstance(field.validation_alias, AliasChoices):
                yield from (
                    each for each in field.validation_alias.choices if isinstance(each, str)
                )
            yield from _names_in(field.annotation, seen)
    for inner in get_args(kind):
        yield from _names_in(inner, seen)
