"""What an agent under test is. Each protocol is one module that implements `Agent`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from assay.errors import AgentFailure, FailureKind
from assay.llm.passages import ContextChunk, Passage
from assay.steps import AnswerUsage, SearchStep

MAX_ID_LENGTH = 4096  # the longest that are in use are addresses


@dataclass(frozen=True, slots=True)
class SearchAddress:
    """Where the agent is to search for the question that it is asked now.

    `search_url` takes `POST {"query", "top_k"}`, `mcp_url` is the same as an MCP server, `call` the
    same for a Python function. `traceparent` is for agents whose search address is fixed.
    """

    search_url: str
    mcp_url: str
    traceparent: str
    call: Callable[..., Awaitable[list[dict[str, Any]]]]


# Set it around `Agent.ask`: every kind of target passes it on in its way.
CURRENT_SEARCH: ContextVar[SearchAddress | None] = ContextVar("current_search", default=None)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """One answer. `doc_ids` are as the agent gave them, duplicates and unknown ids included.

    `contexts` are the passages that the answer was written from, `steps` the searches it was found
    by, and `unknown_keys` those of the answer that nothing reads. `doc_types` are what the
    documents are (note, file, mail), `relevance_source` is how the target says it made the scores.
    """

    doc_ids: tuple[str, ...]
    answer: str | None = None
    citations: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    doc_types: tuple[str, ...] = ()
    relevance_source: str = ""
    contexts: tuple[ContextChunk, ...] = ()
    unknown_keys: tuple[str, ...] = ()
    steps: tuple[SearchStep, ...] = ()
    usage: AnswerUsage | None = None


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What a run records about its target.

    `track` is how the target may have learned, `learned_from` the splits it learned from, if known;
    `agent` the name and version by which it calls itself.
    """

    name: str
    protocol: str
    track: str = "undeclared"
    details: str = ""
    learned_from: tuple[str, ...] = ()
    agent: str | None = None
    retriever: Mapping[str, str] = field(default_factory=dict)


def invalid_answer(message: str, remedy: str = "", said: str = "") -> AgentFailure:
    """The failure for an answer that was received, and cannot be read."""
    return AgentFailure(FailureKind.INVALID_ANSWER, message, remedy=remedy, said=said)


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
    raise invalid_answer(f"a document id {problem}")


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


def context_taker(agent: Agent) -> TakesContext | None:
    """The agent as one that takes passages; None if it does not."""
    return agent if isinstance(agent, TakesContext) and agent.takes_context else None
