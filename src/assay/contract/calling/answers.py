"""The HTTP side of an agent's answer: status, content type, size."""

import httpx

from assay.contract.calling.failures import AgentCallError, Fault
from assay.contract.calling.reading import read_object, read_response
from assay.contract.envelope import AgentRunResponse, ErrorCode


def media_type(answer: httpx.Response) -> str:
    return str(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()


async def read_body(answer: httpx.Response, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            raise AgentCallError(Fault.TOO_LARGE, f"the answer is larger than {max_bytes} bytes")
    return bytes(body)


async def require(expected: str, answer: httpx.Response, max_bytes: int) -> None:
    """Raise unless the agent accepted the request and says that it answers in `expected`."""
    if answer.status_code >= 400:
        raise await _refused(answer, max_bytes)
    if answer.status_code >= 300:
        raise AgentCallError(
            Fault.REFUSED,
            f"the agent redirects (HTTP {answer.status_code}); give the address it points to",
            status_code=answer.status_code,
        )
    if media_type(answer) != expected:
        raise AgentCallError(
            Fault.CONTENT_TYPE,
            f"the agent answered {media_type(answer)[:40] or 'without a content type'!r} "
            f"instead of {expected!r}",
            status_code=answer.status_code,
        )


async def _refused(answer: httpx.Response, max_bytes: int) -> AgentCallError:
    response = await _contract_body(answer, max_bytes)
    return AgentCallError(
        _fault_of(answer.status_code),
        f"the agent answered HTTP {answer.status_code}{_code_of(response)}",
        status_code=answer.status_code,
        retry_after_s=_retry_after(answer),
        response=response,
    )


def _fault_of(status: int) -> Fault:
    if status in (429, 503):
        return Fault.OVERLOADED
    return Fault.SERVER_ERROR if status >= 500 else Fault.REFUSED


async def _contract_body(answer: httpx.Response, max_bytes: int) -> AgentRunResponse | None:
    try:
        return read_response(read_object(await read_body(answer, max_bytes)))
    except (AgentCallError, httpx.HTTPError):
        return None


def _code_of(response: AgentRunResponse | None) -> str:
    # Only codes that the contract knows: an agent may have put anything else there.
    code = response.error.code if response and response.error else None
    return f", {code}" if code in set(ErrorCode) else ""


def _retry_after(answer: httpx.Response) -> float | None:
    text = str(answer.headers.get("retry-after", ""))
    return float(text) if text.isascii() and text.isdigit() else None
