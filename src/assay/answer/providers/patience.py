"""Asks again where that can help, waits as long as the service says, and gives up in time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from assay.errors import ProviderError, ProviderFailure

Reply = TypeVar("Reply")
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Patience:
    """`timeout` bounds one attempt as a whole, however slowly the bytes of a reply trickle in."""

    attempts: int = 5
    timeout: float = 120.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    sleep: Sleep = asyncio.sleep

    async def ask(self, who: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        for attempt in range(1, self.attempts + 1):
            try:
                return await self._once(who, call)
            except ProviderError as error:
                if not error.retryable:
                    raise
                if attempt == self.attempts or (error.retry_after or 0) > self.longest_pause:
                    raise _given_up(error, attempt) from None
                await self.sleep(self._pause(attempt, error.retry_after))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _once(self, who: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        try:
            async with asyncio.timeout(self.timeout):
                return await call()
        except TimeoutError:
            raise ProviderError(
                ProviderFailure.TIMEOUT, f"{who} did not answer within {self.timeout:g} s"
            ) from None

    def _pause(self, attempt: int, retry_after: float | None) -> float:
        """What the service asks for, else doubling pauses; some chance spreads out a crowd."""
        if retry_after is not None:
            return retry_after
        pause = min(self.first_pause * 2.0 ** (attempt - 1), self.longest_pause)
        return pause * random.uniform(0.75, 1.0)


def _given_up(error: ProviderError, attempts: int) -> ProviderError:
    wait = f", and wants {error.retry_after:g} s of rest" if error.retry_after else ""
    times = "once" if attempts == 1 else f"{attempts} times"
    message = f"{error} (asked {times}{wait}); what was answered so far is kept: try again later"
    return ProviderError(error.kind, message, retry_after=error.retry_after)
