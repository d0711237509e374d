"""An event loop of its own for coroutines that others wrote.

In our loop, one that blocks would keep timeouts, Ctrl-C and every other call from happening.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any


class LoopThread:
    """Started by the first call; a daemon, so that a blocked loop never keeps Assay from ending."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(self._loop,), daemon=True).start()
        there = asyncio.run_coroutine_threadsafe(_guarded(function, *arguments), self._loop)
        return await asyncio.wrap_future(there)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_the_rest())
    finally:
        loop.close()


async def _cancel_the_rest() -> None:
    """Calls that nobody waits for any more, because the run was stopped."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _guarded(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    """What would end the loop, or look as if we had cancelled the call, is an error like others."""
    try:
        return await function(*arguments)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the function raised CancelledError") from None
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError(f"the function raised {type(error).__name__}") from None
