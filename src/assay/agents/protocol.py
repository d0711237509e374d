"""What an agent under test is, and what to do about a call of it that failed.

Each protocol is one module that implements `Agent`; nothing above this layer knows which.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from assay.answer.passages import ContextChunk, Passage
from assay.errors import AgentFailure, FailureKind

if TYPE_CHECKING:  # the table of targets needs no reader of data sets
    from assay.data.dataset import Document

MAX_ID_LENGTH = 4096
"""Characters of a document id. The longest that are in use are addresses."""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """One answer. `doc_ids` are as the agent gave them, duplicates and unknown ids included.

    `scores` belong to the documents, `contexts` are the passages that the answer was written from;
    they are empty where the agent sends none. `unknown_keys` are those
    of the answer that nothing reads.
    """

    doc_ids: tuple[str, ...]
    answer: str | None = None
    citations: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    contexts: tuple[ContextChunk, ...] = ()
    unknown_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What a run records about its target. `track` is how the target may have learned, and
    `learned_from` the splits it learned from, if that is known; `retriever` the settings of a
    built-in retriever, such as its mode and embedder. `agent` is the name and version by which the
    target calls itself.
    """

    name: str
    protocol: str
    track: str = "undeclared"
    details: str = ""
    learned_from: tuple[str, ...] = ()
    agent: str | None = None
    retriever: Mapping[str, str] = field(default_factory=dict)


def document_id(value: object) -> str:
    """An id as a string: a string or an integer, in every protocol. Raises `AgentFailure`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        problem = f"is a {type(value).__name__}, not a string"
    elif not value:
        problem = "is empty"
    elif len(value) > MAX_ID_LENGTH:
        problem = f"is longer than {MAX_ID_LENGTH:,} characters"
    elif not is_unicode(value):
        problem = "is not valid Unicode"
    else:
        return str.__str__(value)  # of a subclass too, which may compare as it likes
    raise AgentFailure(FailureKind.INVALID_ANSWER, f"a document id {problem}")


def is_unicode(text: str) -> bool:
    """False for lone surrogates, as broken file names have them: no file can store them."""
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)


class Agent(Protocol):
    """An agent under test: opened once for a run, asked many times concurrently, then closed."""

    @property
    def info(self) -> AgentInfo:
        """What a run records; complete once the agent is open."""
        ...

    async def open(self) -> None:
        """Connect. Raises `TargetError` if the agent cannot be reached or loaded."""
        ...

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """One call. Raises `AgentFailure` for every way in which it can fail."""
        ...

    async def close(self) -> None:
        """Release everything; also after a failed `open`."""
        ...


class Asked(Protocol):
    """What an object of the caller's needs at least to be evaluated; every `Agent` has it."""

    def ask(self, query: str, top_k: int, /) -> Any:
        """Document ids, best first, or whatever else a function may return; may be async."""
        ...


@runtime_checkable
class TakesContext(Protocol):
    """An agent that can answer from given passages, instead of searching for them."""

    @property
    def takes_context(self) -> bool:
        """Whether this one can: a class may serve functions of both kinds."""
        ...

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """One call with the passages to answer from. Raises `AgentFailure`."""
        ...


@runtime_checkable
class TakesDocuments(Protocol):
    """An agent whose index can be given documents for a while."""

    async def refuse_documents(self) -> str:
        """Why this one cannot, in words; empty if it can. Asked once it is open."""
        ...

    def with_documents(
        self, documents: "Sequence[Document]"
    ) -> AbstractAsyncContextManager["Agent"]:
        """An open agent that searches these documents as well, until the block ends.

        Nothing of them stays behind, however the block ends. Raises `TargetError`.
        """
        ...


def context_taker(agent: Agent) -> TakesContext | None:
    """The agent as one that takes passages; None if it does not."""
    return agent if isinstance(agent, TakesContext) and agent.takes_context else None


REFUSED_CREDENTIALS = (401, 403)
RATE_LIMITED = 429

_STATUS = re.compile(r"\bHTTP (\d{3})\b")

_KINDS: dict[str, str] = {
    FailureKind.TIMEOUT: "make the agent faster, or raise --timeout",
    FailureKind.CONNECTION: "check that the agent is running and that no proxy is in the way",
    FailureKind.PROTOCOL: "fix the agent's responses; the protocol's own library would help",
    FailureKind.INVALID_ANSWER: 'answer with one data part {"doc_ids": ["id", ...]}',
    FailureKind.AGENT_ERROR: "the agent itself failed: look into its log",
}
_FUNCTION_KINDS: dict[str, str] = {
    FailureKind.TIMEOUT: "make the function faster, or raise --timeout",
    FailureKind.CONNECTION: "check that the service which the function calls is running",
    FailureKind.INVALID_ANSWER: "return a list of document ids, best first, or "
    '{"doc_ids": [...], "answer": "..."}',
    FailureKind.AGENT_ERROR: "fix the function at the line in the message",
}
_MAPPED_KINDS: dict[str, str] = {
    FailureKind.PROTOCOL: "compare the URL, --request and --header with what the service expects",
    FailureKind.INVALID_ANSWER: "name the ids with --map ids=EXPR; where the answer has none, as "
    "of a job that is only accepted, write a function: docs/targets.md, 'Other services'",
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
_REFUSED = "compare the request with what the service expects: the URL, --request and --header"
_CREDENTIALS = {
    "mcp": "set MCP_SERVER_TOKEN to a token that the server accepts",
    "nextcloud": "set MCP_SERVER_TOKEN to a token that the server accepts",
    "rest": "send a token that the service accepts: --header 'Authorization: Bearer $TOKEN'",
    "openai": "send a token that the service accepts: set AGENT_TOKEN, or --header "
    "'Authorization: Bearer $TOKEN'",
}


def remedy_for(failure: str, message: str, target: str) -> str:
    """What to do about a failed call: by the HTTP status that it names, else by its kind.

    Parameters:
        failure: the kind of the failure.
        message: what is said about it, with its HTTP status if there was one.
        target: the kind of the target.
    """
    # A function that names a status was answered with it by a service of its own.
    number = 0 if target == "python" else status_of(message)
    if number in REFUSED_CREDENTIALS:
        default = "set AGENT_TOKEN to a token that the agent accepts"
        return _CREDENTIALS.get(target, default)
    if number in _STATUSES:
        return _STATUSES[number]
    if 400 <= number < 500 and target in ("rest", "openai"):
        return _REFUSED
    own = {"python": _FUNCTION_KINDS, "rest": _MAPPED_KINDS, "openai": _MAPPED_KINDS}
    kinds = _KINDS | own.get(target, {})
    return kinds[failure]


def status_of(message: str) -> int:
    """The HTTP status that the message of a failed call names; 0 if it names none."""
    status = _STATUS.search(message)
    return int(status[1]) if status else 0
