"""What a language model is to the rest of Assay, and what one of its replies holds."""

from dataclasses import dataclass
from typing import Protocol


class LLMProvider(Protocol):
    """All that a caller needs. Whoever has a model of their own writes these two members."""

    @property
    def name(self) -> str: ...

    async def generate(self, prompt: str, max_tokens: int = 100) -> str: ...


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """`stop_reason` is `end` or `length`; `cached` replies were paid for at another time."""

    text: str
    usage: Usage
    stop_reason: str = "end"
    cached: bool = False


class Model(Protocol):
    """One service or file, asked once: who calls it sees to patience, memory and money.

    `name` is `KIND:MODEL`. `identity` tells apart models whose replies may differ, so it is what
    the memory of replies goes by.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """At temperature 0, where the model lets one choose; `ProviderError` for every failure."""
        ...

    async def close(self) -> None: ...
