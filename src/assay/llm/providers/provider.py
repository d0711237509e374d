"""The interface of a language model, and what its calls cost: tokens and prices."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from assay.errors import UsageError
from assay.llm.provider_kinds import PROVIDER_KINDS


class LLMProvider(Protocol):
    """The interface that callers use. To plug in your own model, implement these two members."""

    @property
    def name(self) -> str:
        """`KIND:MODEL`, for reports."""

    async def generate(self, prompt: str, max_tokens: int = 100) -> str:
        """The model's reply to `prompt`, of at most `max_tokens` tokens."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply with its tokens as the service counted them, 0 if it did not.

    `stop_reason` is `end` or `length`; `cached` replies were paid for earlier.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    stop_reason: str = "end"
    cached: bool = False


class Model(Protocol):
    """One service or model file, asked once: retries, cache and budget are up to the caller.

    `identity` is part of the key of cached replies: it differs between models whose replies may.
    """

    @property
    def name(self) -> str:
        """`KIND:MODEL`."""

    @property
    def identity(self) -> str:
        """The name, with the address or whatever else tells two models of one name apart."""

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The reply at temperature 0, if the model allows it. Raises `ProviderError`."""

    async def close(self) -> None:
        """Free connections and memory."""


_THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL | re.IGNORECASE)


def without_thought(reply: str) -> str:
    """The reply without the thinking that reasoning models put first, as `<think>…</think>`."""
    return _THOUGHT.sub("", reply)


def setting(*variables: str) -> str | None:
    """The first environment variable that is set, stripped: pasted keys may end with a newline."""
    values = (os.environ.get(name, "").strip() for name in variables)
    return next((value for value in values if value), None)


PRICES_VARIABLE = "RAG_EVAL_PRICES"
# No tokenizer makes more tokens than this of English text; other scripts take about one each.
_CHARACTERS_PER_TOKEN = 3
_TEMPLATE_TOKENS = 50  # of a chat template around the prompt


# List prices in US dollars for a million input and output tokens, as published; the longest name
# that a model's name begins with counts.
_LISTED: Mapping[str, tuple[float, float]] = {
    "claude-3-haiku": (0.25, 1.25),
    "claude-3-5-haiku": (0.80, 4.0),
    "claude-3-5-sonnet": (3.0, 15.0),
    "claude-3-7-sonnet": (3.0, 15.0),
    "claude-sonnet-4": (3.0, 15.0),
    "claude-haiku-4-5": (1.0, 5.0),
    "claude-opus-4": (15.0, 75.0),
    "claude-opus-4-5": (5.0, 25.0),
    "gpt-4o": (2.5, 10.0),
    "gpt-4o-mini": (0.15, 0.60),
    "gpt-4.1": (2.0, 8.0),
    "gpt-4.1-mini": (0.40, 1.60),
    "gpt-4.1-nano": (0.10, 0.40),
}


def price_of(name: str) -> tuple[float, float] | None:
    """price_of("openai:gpt-4o")  # (2.5, 10.0): dollars per million tokens; None if not known

    `RAG_EVAL_PRICES` comes before the list, because services change their prices.
    """
    provider, _, model = name.partition(":")
    amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
    written = os.environ.get(PRICES_VARIABLE) or "{}"
    try:
        configured = TypeAdapter(dict[str, tuple[amount, amount]]).validate_json(written)
    except ValidationError:
        raise UsageError(
            f"{PRICES_VARIABLE} must be a JSON object of US dollars per million input and "
            f'output tokens, such as {{"model-name": [3, 15]}}, got {written!r}'
        ) from None
    for prices in (configured, _LISTED):
        if fitting := [known for known in prices if model.startswith(known)]:
            return prices[max(fitting, key=len)]
    kind = PROVIDER_KINDS.get(provider)
    return (0.0, 0.0) if kind is not None and kind.free else None


def max_tokens_of(text: str) -> int:
    """An upper bound of a text's tokens, whatever the service's tokenizer is."""
    ascii_count = sum(character.isascii() for character in text)
    return ascii_count // _CHARACTERS_PER_TOKEN + 1 + len(text) - ascii_count + _TEMPLATE_TOKENS
