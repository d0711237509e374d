"""Tokens and money: what was spent, what the calls under way could still cost, when to stop."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from assay.answer.providers.prices import VARIABLE, Price, price_of
from assay.answer.providers.protocol import Completion, Usage
from assay.errors import BudgetExceeded, UsageError

# No tokenizer makes more tokens than this of English text; other scripts take about one each.
_CHARACTERS_PER_TOKEN = 3
_FRAME = 50
"""Tokens of a chat template around the prompt."""


@dataclass(frozen=True, slots=True)
class Spending:
    """`cost` is None where the model's price is not known; `cached` replies cost nothing.

    Tokens that a service did not count are those that were set aside for the call.
    """

    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class Meter:
    """A call is let through only if the dearest way it can end still fits the budget.

    So the budget is kept even with many calls under way, up to the estimate of the prompt's tokens.
    """

    def __init__(self, model: str, max_cost: float | None = None) -> None:
        self._price: Price | None = price_of(model)
        self._max_cost = max_cost
        self._calls = self._cached = self._input = self._output = 0
        self._reserved = 0.0
        if max_cost is not None and not (math.isfinite(max_cost) and max_cost >= 0):
            raise UsageError(f"the budget must be a number of US dollars >= 0, got {max_cost!r}")
        if max_cost is not None and self._price is None:
            raise UsageError(
                f"the price of {model!r} is not known, so a budget cannot be kept; "
                f'set {VARIABLE}, as {{"{model.partition(":")[2]}": [3, 15]}} (US dollars for a '
                "million tokens of input and of output)"
            )

    @property
    def spending(self) -> Spending:
        cost = self._cost() if self._price is not None else None
        return Spending(self._calls, self._cached, self._input, self._output, cost)

    @contextmanager
    def reserved(self, prompt: str, max_tokens: int) -> Iterator[None]:
        worst = self._worst(prompt, max_tokens)
        spent = self._cost() + self._reserved
        if self._max_cost is not None and spent + worst > self._max_cost:
            raise BudgetExceeded(
                f"stopped before the budget of ${self._max_cost:g} was exceeded: "
                f"${spent:.4f} are spent or under way and the next call could cost ${worst:.4f}; "
                "replies so far are kept, so a higher budget goes on from here"
            )
        self._reserved += worst
        try:
            yield
        finally:
            self._reserved -= worst

    def add(self, usage: Usage) -> None:
        self._calls += 1
        self._input += usage.input_tokens
        self._output += usage.output_tokens

    def add_cached(self) -> None:
        self._cached += 1

    def _cost(self) -> float:
        return self._price.of(Usage(self._input, self._output)) if self._price else 0.0

    def _worst(self, prompt: str, max_tokens: int) -> float:
        return self._price.of(Usage(tokens_at_most(prompt), max_tokens)) if self._price else 0.0


def charged(completion: Completion, prompt: str, max_tokens: int) -> Usage:
    """What the service counted; of what it did not count, the most that it can have been.

    Else a service that tells nothing would be free, and its budget without end.
    """
    told = completion.usage
    if told.input_tokens <= 0:
        return Usage(tokens_at_most(prompt), max(told.output_tokens, max_tokens))
    uncounted = told.output_tokens < 0 or (told.output_tokens == 0 and completion.text != "")
    return Usage(told.input_tokens, max_tokens if uncounted else told.output_tokens)


def tokens_at_most(text: str) -> int:
    """On the safe side, since the tokenizer is the service's."""
    ascii_count = sum(character.isascii() for character in text)
    return ascii_count // _CHARACTERS_PER_TOKEN + 1 + len(text) - ascii_count + _FRAME
