"""The tasks that an A2A server remembers: the newest, and for a while.

The SDK's own store never forgets one.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryTaskStore
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task
from a2a.utils.errors import UnsupportedOperationError

LIFETIME_S = 3600.0


class BoundedTaskStore(InMemoryTaskStore):
    """Forgets finished tasks when there are too many or they are old; running ones stay.

    Tasks are listed only where callers have shown a token: without one, a list would show
    everyone what everyone else asked.
    """

    def __init__(
        self,
        limit: int,
        *,
        listable: bool,
        lifetime: float = LIFETIME_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._limit = limit
        self._listable = listable
        self._lifetime = lifetime
        self._clock = clock
        self._finished: OrderedDict[str, tuple[float, ServerCallContext]] = OrderedDict()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        if task.status.state in TERMINAL_TASK_STATES:
            self._finished[task.id] = (self._clock(), context)
            self._finished.move_to_end(task.id)
        await self._forget()

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        await self._forget()
        return await super().get(task_id, context)

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        if not self._listable:
            raise UnsupportedOperationError(message="tasks are listed only to holders of a token")
        await self._forget()
        return await super().list(params, context)

    async def _forget(self) -> None:
        oldest_kept = self._clock() - self._lifetime
        while self._finished:
            task_id, (finished_at, context) = next(iter(self._finished.items()))
            if len(self._finished) <= self._limit and finished_at >= oldest_kept:
                return
            del self._finished[task_id]
            await super().delete(task_id, context)
