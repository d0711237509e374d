"""From the bytes of an HTTP request to a request that the agent will run, or a rejection.

A rejection always has the shape of the contract and repeats nothing of the body.
"""

import hashlib
import uuid
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    Identifier,
    error_response,
    validation_error_response,
)
from assay.net.json import JsonObject, is_too_deep
from assay.net.request_body import REQUEST_TIMEOUT, BodyRejected, LimitedBody

_identifier = TypeAdapter(Identifier)


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A valid request, and the fingerprint of its body."""

    request: AgentRunRequest
    fingerprint: bytes


class RequestRejected(Exception):
    """The request is not run; `response` is what its sender gets."""

    def __init__(
        self, http_status: int, response: AgentRunResponse, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(http_status)
        self.http_status = http_status
        self.response = response
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        if http_status == REQUEST_TIMEOUT:
            self.headers["Connection"] = "close"  # the rest of the body is still to come


def rejected(
    http_status: int,
    code: ErrorCode,
    message: str,
    request_id: str,
    *,
    details: JsonObject | None = None,
    retry_after_s: int | None = None,
) -> RequestRejected:
    """A rejection without `task_type`, which would repeat the caller's text."""
    response = error_response(code, message, request_id=request_id, details=details)
    return RequestRejected(http_status, response, retry_after_s=retry_after_s)


def assign_request_id(http: Request, given: object = None) -> str:
    """Set the id under which the request is answered and logged: `scope["state"]["request_id"]`.

    It is `given` (from the body) where that is usable, else the one that the request log has
    assigned, else the header `X-Request-ID`, else a new one.
    """
    request_id = (
        _usable_id(given)
        or getattr(http.state, "request_id", None)
        or _usable_id(http.headers.get("x-request-id"))
        or uuid.uuid4().hex
    )
    http.state.request_id = request_id
    return request_id


async def accept_request(
    http: Request, task_type: str, max_bytes: int, timeout_s: float
) -> AcceptedRequest:
    """Read and validate a request for `task_type`. Raises `RequestRejected`."""
    request_id = assign_request_id(http)
    limited = LimitedBody(http.receive, max_bytes, timeout_s)
    try:
        body = await Request(http.scope, limited.receive).body()
    except BodyRejected as error:
        code = ErrorCode.VALIDATION_ERROR
        raise rejected(error.status, code, error.message, request_id) from None
    value = _parse(body, request_id)
    if isinstance(value, dict):
        request_id = assign_request_id(http, value.get("request_id"))
    request = _validate(value, request_id)
    if request.task_type != task_type:
        raise rejected(
            400,
            ErrorCode.UNSUPPORTED_TASK_TYPE,
            f"this agent supports only {task_type}",
            request_id,
            details={"supported": [task_type]},
        )
    if is_too_deep(value, body):
        message = "the body is nested too deeply"
        raise rejected(422, ErrorCode.VALIDATION_ERROR, message, request_id)
    return AcceptedRequest(request, _fingerprint(value))


def _parse(body: bytes, request_id: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass  # left before raising: the exception holds the whole document
    raise rejected(400, ErrorCode.VALIDATION_ERROR, "the body is not valid JSON", request_id)


def _validate(value: Any, request_id: str) -> AgentRunRequest:
    try:
        return AgentRunRequest.model_validate(value)
    except ValidationError as error:
        response = validation_error_response(error, AgentRunRequest, request_id=request_id)
    raise RequestRejected(422, response)


def _usable_id(request_id: object) -> str | None:
    try:
        return _identifier.validate_python(request_id, strict=True)
    except ValidationError:
        return None


def _fingerprint(value: Any) -> bytes:
    """The order of keys and the spacing of the JSON do not make another request."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()
