"""Validation errors that say what is wrong with a request without repeating any of it.

A framework's default response to a bad request quotes the offending value. Under this contract the
value may be about a patient, so an error holds only the names of fields that the contract itself
defines, and what is wrong with them.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar, get_args

from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    error_response,
)
from assay.net.json import JsonObject

Model = TypeVar("Model", bound=BaseModel)

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


class TaskError(Exception):
    """Raised by an agent's work to end a run with an error of its own choice.

    `message` and `details` reach the caller as they are: they must hold no input text.
    """

    def __init__(self, code: ErrorCode, message: str, *, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


def read_inputs(model: type[Model], request: AgentRunRequest) -> Model:
    """The inputs of a task as a `model`; the `TaskError` for wrong ones names their fields."""
    try:
        return model.model_validate(request.inputs)
    except ValidationError as error:
        problems = field_problems(error, model, prefix="inputs")
    raise TaskError(
        ErrorCode.VALIDATION_ERROR, _sentence(problems), details={"fields": problems}
    ) from None


def validation_error_response(
    error: ValidationError, model: type[BaseModel], *, request_id: str
) -> AgentRunResponse:
    """The response of a 422: it names each field that is wrong.

    It has no `task_type`, which would repeat the caller's text.
    """
    problems = field_problems(error, model)
    return error_response(
        ErrorCode.VALIDATION_ERROR,
        _sentence(problems),
        request_id=request_id,
        details={"fields": problems},
    )


def field_problems(
    error: ValidationError, model: type[BaseModel], *, prefix: str = ""
) -> list[dict[str, str]]:
    """[{"field": "budgets.timeout_ms", "problem": "..."}], in the order of the fields."""
    known = _field_names(model)
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        {"field": _path(detail["loc"], known, prefix), "problem": _problem(detail)}
        for detail in details
    ]


def _path(location: Iterable[int | str], known: frozenset[str], prefix: str) -> str:
    # Keys of free-form objects are the caller's own text: they are replaced by a star.
    parts = [str(part) if isinstance(part, int) or part in known else "*" for part in location]
    return ".".join([prefix, *parts] if prefix else parts) or "body"


def _problem(detail: ErrorDetails) -> str:
    """Pydantic's message, which quotes nothing for the types that contracts use, unless there is a
    plainer one or a validator wrote it."""
    kind = detail["type"]
    return _MESSAGES.get(kind) or detail["msg"].replace("Input should", "should")


def _sentence(problems: list[dict[str, str]]) -> str:
    return "; ".join(f"{problem['field']} {problem['problem']}" for problem in problems)


@lru_cache(maxsize=128)
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    """All names that the model and the models in it give to fields, aliases included."""
    return frozenset(_names_in(model, set()))


def _names_in(kind: Any, seen: set[Any]) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
        seen.add(kind)
        for name, field in kind.model_fields.items():
            yield name
            yield from _alias_names(field.validation_alias)
            yield from _names_in(field.annotation, seen)
    for inner in get_args(kind):
        yield from _names_in(inner, seen)


def _alias_names(alias: str | AliasPath | AliasChoices | None) -> Iterator[str]:
    if isinstance(alias, AliasChoices):
        yield from (choice for choice in alias.choices if isinstance(choice, str))
    elif isinstance(alias, str):
        yield alias
