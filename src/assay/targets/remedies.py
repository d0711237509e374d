"""What to do about a call of an agent that failed, by the kind of its target."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from assay.errors import RATE_LIMITED, FailureKind

_KINDS: dict[str, str] = {
    FailureKind.TIMEOUT: "make the agent faster, or raise --timeout",
    FailureKind.CONNECTION: "check that the agent is running and that no proxy is in the way",
    FailureKind.PROTOCOL: "fix the agent's responses; the protocol's own library would help",
    FailureKind.INVALID_ANSWER: 'answer with one data part {"doc_ids": ["id", ...]}',
    FailureKind.AGENT_ERROR: "the agent itself failed: look into its log",
}
_STATUSES = {
    404: "nothing is at this path: check the URL",
    405: "the path exists and takes another method: check the URL",
    408: "the agent gave up waiting: make it faster, or lower --concurrency",
    413: "the agent refuses requests of this size: raise its limit",
    421: "the server refuses this host name: call it by a name that it allows",
    RATE_LIMITED: "the agent is at its limit: lower --concurrency, or raise the limit",
    502: "a proxy cannot reach the agent: check that the agent behind it is running",
    503: "the agent is loading or overloaded: wait, raise --warm-up, or lower --concurrency",
    504: "a proxy gave up waiting for the agent: raise the proxy's timeout",
}


@dataclass(frozen=True)
class Remedies:
    """What users of one kind of target do about failed calls, where it is not the usual.

    Parameters:
        credentials: about HTTP 401 and 403.
        refused: about any other 4xx without a remedy of its own; empty for that of the failure.
        failures: by the kind of the failure.
    """

    credentials: str = "set AGENT_TOKEN to a token that the agent accepts"
    refused: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)


USUAL = Remedies()
MCP = Remedies("set MCP_SERVER_TOKEN to a token that the server accepts")
FUNCTION = Remedies(
    failures={
        FailureKind.TIMEOUT: "make the function faster, or raise --timeout",
        FailureKind.CONNECTION: "check that the service which the function calls is running",
        FailureKind.INVALID_ANSWER: "return a list of document ids, best first, or "
        '{"doc_ids": [...], "answer": "..."}',
        FailureKind.AGENT_ERROR: "fix the function at the line in the message",
    }
)
REQUEST = Remedies(
    "send a token that the service accepts: --header 'Authorization: Bearer $TOKEN'",
    refused="compare the request with what the service expects: the URL, --request and --header",
    failures={
        FailureKind.PROTOCOL: "compare the URL, --request and --header with what the service "
        "expects",
        FailureKind.INVALID_ANSWER: "name the ids with --map ids=EXPR; where the answer has none, "
        "as of a job that is only accepted, write a function: docs/targets.md, 'Other services'",
    },
)
CHAT = replace(
    REQUEST,
    credentials="send a token that the service accepts: set AGENT_TOKEN, or --header "
    "'Authorization: Bearer $TOKEN'",
)


def remedy_for(failure: str, status: int | None, remedies: Remedies) -> str:
    """What to do about a failed call: by its HTTP status, else by its kind.

    Parameters:
        failure: the kind of the failure.
        status: the HTTP status of the response, if there was one.
        remedies: those of the target's kind.
    """
    if status in (401, 403):
        return remedies.credentials
    if status in _STATUSES:
        return _STATUSES[status]
    if status is not None and 400 <= status < 500 and remedies.refused:
        return remedies.refused
    return remedies.failures.get(failure) or _KINDS[failure]
