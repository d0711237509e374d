"""From the bytes of an HTTP request to a request that the agent will run, or a refusal.

A refusal is contract-shaped whatever was wrong, and repeats nothing of the body.
"""

import asyncio
import hashlib
import uuid
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from assay.contract.envelope import AgentRunRequest, AgentRunResponse, ErrorCode, Identifier
from assay.contract.validation import refusal, validation_error_response

_identifier = TypeAdapter(Identifier)

# A client that is still sending cannot read our answer: some of what is too much is read and
# thrown away, so that it gets to see why.
_DISCARD_FACTOR = 8
_TOO_SLOW = 408


@dataclass(frozen=True, slots=True)
class Accepted:
    request: AgentRunRequest
    fingerprint: bytes
    size: int


class Refused(Exception):
    """The request is not run; this is what its sender is told."""

    def __init__(
        self, http_status: int, response: AgentRunResponse, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(http_status)
        self.http_status = http_status
        self.response = response
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        if http_status == _TOO_SLOW:
            self.headers["Connection"] = "close"  # the rest of the body is still to come


async def take_request(
    http: Request, task_type: str, max_bytes: int, max_seconds: float
) -> Accepted:
    request_id = usable_id(http.headers.get("x-request-id")) or uuid.uuid4().hex
    try:
        async with asyncio.timeout(max_seconds):
            body = await _read_body(http, max_bytes, request_id)
    except TimeoutError:
        message = f"the body did not come within {max_seconds:g} s"
        raise refused(_TOO_SLOW, ErrorCode.VALIDATION_ERROR, message, request_id) from None
    value = _parse(body, request_id)
    if isinstance(value, dict):
        request_id = usable_id(value.get("request_id")) or request_id
    request = _validate(value, request_id)
    if request.task_type != task_type:
        raise refused(
            400,
            ErrorCode.UNSUPPORTED_TASK_TYPE,
            f"this agent does {task_type} only",
            request_id,
            details={"supported": [task_type]},
        )
    return Accepted(request, _fingerprint(value, request_id), len(body))


def refused(
    http_status: int,
    code: ErrorCode,
    message: str,
    request_id: str,
    *,
    details: dict[str, Any] | None = None,
    retry_after_s: int | None = None,
) -> Refused:
    response = refusal(code, message, request_id=request_id, details=details)
    return Refused(http_status, response, retry_after_s=retry_after_s)


async def _read_body(http: Request, max_bytes: int, request_id: str) -> bytes:
    body, size = bytearray(), 0
    async for chunk in http.stream():
        size += len(chunk)
        if size <= max_bytes:
            body += chunk
        elif size > max_bytes * _DISCARD_FACTOR:
            break
    if size > max_bytes:
        message = f"the body is larger than {max_bytes} bytes"
        raise refused(413, ErrorCode.VALIDATION_ERROR, message, request_id)
    return bytes(body)


def _parse(body: bytes, request_id: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass  # left before raising: the exception holds the whole document
    raise refused(400, ErrorCode.VALIDATION_ERROR, "the body is not valid JSON", request_id)


def _validate(value: Any, request_id: str) -> AgentRunRequest:
    try:
        return AgentRunRequest.model_validate(value)
    except ValidationError as error:
        response = validation_error_response(error, AgentRunRequest, request_id=request_id)
    raise Refused(422, response)


def usable_id(request_id: Any) -> str | None:
    try:
        return _identifier.validate_python(request_id, strict=True)
    except ValidationError:
        return None


def _fingerprint(value: Any, request_id: str) -> bytes:
    """The order of keys and the spacing of the JSON do not make another request."""
    try:
        canonical = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # it reads deeper nesting than it writes
        canonical = None
    if canonical is None:
        message = "the body is nested too deeply"
        raise refused(422, ErrorCode.VALIDATION_ERROR, message, request_id)
    return hashlib.sha256(canonical).digest()
