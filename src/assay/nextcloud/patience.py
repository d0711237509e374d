"""Asks again where that can help, as late as the server wants, and not for ever."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from assay.nextcloud.failures import NotesError

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Patience:
    """`longest_pause` is that of Nextcloud's maintenance mode, which asks for 120 seconds."""

    attempts: int = 6
    first_pause: float = 0.5
    longest_pause: float = 120.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def ask(self, call: Callable[[], Awaitable[Reply]], *, twice: bool = True) -> Reply:
        """`twice` is False for what must not happen twice: then a failure that may have had its
        effect is the caller's to look into.
        """
        for attempt in range(1, self.attempts + 1):
            try:
                return await call()
            except NotesError as error:
                if not error.retryable or (error.maybe_done and not twice):
                    raise
                if attempt == self.attempts or (error.retry_after or 0) > self.longest_pause:
                    raise _given_up(error, attempt) from None
                await self.sleep(self._pause(attempt, error.retry_after))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _pause(self, attempt: int, retry_after: float | None) -> float:
        """Chance spreads out requests that locked each other out; a fixed pause would repeat it."""
        if retry_after is not None:
            return retry_after
        pause = min(self.first_pause * 2.0 ** (attempt - 1), self.longest_pause)
        return pause * random.uniform(0.5, 1.0)


def _given_up(error: NotesError, attempts: int) -> NotesError:
    wait = f", and wants {error.retry_after:g} s of rest" if error.retry_after else ""
    return error.told(f"{error} (asked {attempts} times{wait})")
