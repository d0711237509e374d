"""The tasks that an A2A server remembers: the newest, and for a while.

The SDK's own store never forgets one.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task
from a2a.utils.errors import UnsupportedOperationError

from assay.serve.safe_errors import NOT_LISTED

LIFETIME_S = 3600.0
MOST_BYTES = 64_000_000
"""As they would be sent. In memory a task takes a few times that."""


class BoundedTaskStore(InMemoryTaskStore):
    """Forgets finished tasks when there are too many, they are too large together, or old;
    running ones stay.

    Tasks are listed only where callers have shown a token: without one, a list would show
    everyone what everyone else asked.
    """

    def __init__(
        self,
        limit: int,
        *,
        listable: bool,
        most_bytes: int = MOST_BYTES,
        lifetime: float = LIFETIME_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._limit = limit
        self._listable = listable
        self._most_bytes = most_bytes
        self._lifetime = lifetime
        self._clock = clock
        self._finished: OrderedDict[str, _Finished] = OrderedDict()
        self._bytes = 0

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        if task.status.state in TERMINAL_TASK_STATES:
            self._note(task, context)
        await self._forget()

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        await self._forget()
        return await super().get(task_id, context)

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        if not self._listable:
            raise UnsupportedOperationError(message=NOT_LISTED)
        await self._forget()
        return await super().list(params, context)

    def _note(self, task: Task, context: ServerCallContext) -> None:
        """Of the context only who called: it also holds every header of the request."""
        self._drop(task.id)
        owner = ServerCallContext(user=context.user)
        self._finished[task.id] = _Finished(self._clock(), task.ByteSize(), owner)
        self._bytes += task.ByteSize()

    def _drop(self, task_id: str) -> None:
        if (known := self._finished.pop(task_id, None)) is not None:
            self._bytes -= known.size

    async def _forget(self) -> None:
        oldest_kept = self._clock() - self._lifetime
        while self._finished:
            task_id, task = next(iter(self._finished.items()))
            too_many = len(self._finished) > self._limit or self._bytes > self._most_bytes
            if not too_many and task.at >= oldest_kept:
                return
            self._drop(task_id)
            await super().delete(task_id, task.owner)


@dataclass(frozen=True, slots=True)
class _Finished:
    at: float
    size: int
    owner: ServerCallContext
