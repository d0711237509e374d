"""What a token costs. Services change prices: `RAG_EVAL_PRICES` has the last word."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from assay.answer.providers.protocol import Usage
from assay.errors import UsageError

VARIABLE = "RAG_EVAL_PRICES"
_MILLION = 1_000_000
_LOCAL = ("ollama:", "gguf:")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float

    def of(self, usage: Usage) -> float:
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / _MILLION


FREE = Price(0.0, 0.0)

# List prices as published; the longest name that a model's name begins with counts.
_LISTED: Mapping[str, Price] = {
    "claude-3-haiku": Price(0.25, 1.25),
    "claude-3-5-haiku": Price(0.80, 4.0),
    "claude-3-5-sonnet": Price(3.0, 15.0),
    "claude-3-7-sonnet": Price(3.0, 15.0),
    "claude-sonnet-4": Price(3.0, 15.0),
    "claude-haiku-4-5": Price(1.0, 5.0),
    "claude-opus-4": Price(15.0, 75.0),
    "claude-opus-4-5": Price(5.0, 25.0),
    "gpt-4o": Price(2.5, 10.0),
    "gpt-4o-mini": Price(0.15, 0.60),
    "gpt-4.1": Price(2.0, 8.0),
    "gpt-4.1-mini": Price(0.40, 1.60),
    "gpt-4.1-nano": Price(0.10, 0.40),
}


def price_of(name: str) -> Price | None:
    """None where nobody told: then nothing may be said about cost."""
    model = name.partition(":")[2]
    own = _own_prices()
    for prices in (own, _LISTED):
        fitting = [known for known in prices if model.startswith(known)]
        if fitting:
            return prices[max(fitting, key=len)]
    return FREE if name.startswith(_LOCAL) else None


def _own_prices() -> dict[str, Price]:
    written = os.environ.get(VARIABLE)
    if not written:
        return {}
    try:
        return {model: _price(pair) for model, pair in orjson.loads(written).items()}
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        raise UsageError(
            f"{VARIABLE} must be JSON of US dollars for a million tokens of input and of output, "
            f'as {{"model-name": [3, 15]}}, got {written!r}'
        ) from None


def _price(pair: Any) -> Price:
    given, made = (float(each) for each in pair)
    if not (0 <= given < math.inf and 0 <= made < math.inf):
        raise ValueError(pair)
    return Price(given, made)
