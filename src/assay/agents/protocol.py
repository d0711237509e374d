"""What an agent under test is.

Each protocol is one module that implements `Agent`; nothing above this layer knows which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from assay.answer.passages import Passage


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """`doc_ids` as the agent gave them: duplicates and unknown ids are the measure's business."""

    doc_ids: tuple[str, ...]
    answer: str | None = None
    citations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What a run records about its target. `track` is how the target may have learned, and
    `learned_from` the splits it learned from, where that is known.
    """

    name: str
    protocol: str
    track: str = "undeclared"
    details: str = ""
    learned_from: tuple[str, ...] = ()


class Agent(Protocol):
    """Opened once for a run (`async with`), asked many times at once, then closed."""

    @property
    def info(self) -> AgentInfo: ...

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Raise `AgentFailure` for every way in which the agent can disappoint."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class TakesContext(Protocol):
    """An agent that can be told what to answer from, instead of searching for it.

    `takes_context` says whether this one really can; a class may serve functions of both kinds.
    """

    @property
    def takes_context(self) -> bool: ...

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer: ...


def context_taker(agent: Agent) -> TakesContext | None:
    return agent if isinstance(agent, TakesContext) and agent.takes_context else None
