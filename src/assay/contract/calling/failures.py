"""The ways in which calling an agent over HTTP can fail, each under its own name."""

from enum import StrEnum

from assay.contract.envelope import AgentRunResponse
from assay.errors import AssayError


class Fault(StrEnum):
    """A value is what a report prints."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    IDLE = "silent stream"
    CIRCUIT_OPEN = "not asked: circuit open"
    REFUSED = "refused"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server error"
    CONTENT_TYPE = "wrong content type"
    TOO_LARGE = "answer too large"
    NOT_JSON = "not JSON"
    NOT_CONTRACT = "not contract-shaped"
    FRAMING = "broken event framing"
    TRUNCATED = "stream without a terminal event"
    SECOND_TERMINAL = "second terminal event"
    AFTER_TERMINAL = "event after the terminal one"
    ENDLESS = "stream that does not end"


NOT_REACHED = frozenset({Fault.UNREACHABLE, Fault.TIMEOUT, Fault.IDLE, Fault.CIRCUIT_OPEN})
WORTH_RETRYING = frozenset(
    {Fault.UNREACHABLE, Fault.TIMEOUT, Fault.IDLE, Fault.OVERLOADED, Fault.SERVER_ERROR}
)


class AgentCallError(AssayError):
    """One failed call. `response` is what the agent did say, where it said anything readable:
    the contract-shaped body of a refusal, or the result that came before a breach."""

    def __init__(
        self,
        fault: Fault,
        message: str,
        *,
        status_code: int | None = None,
        retry_after_s: float | None = None,
        response: AgentRunResponse | None = None,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.status_code = status_code
        self.retry_after_s = retry_after_s
        self.response = response
        self.retryable = fault in WORTH_RETRYING
        self.exit_code = 3 if fault in NOT_REACHED else 1
