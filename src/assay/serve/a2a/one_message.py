"""A task takes one message: the one that it was made for.

The SDK would queue further ones behind it and write each into the task's history, where they are
kept and sent to whoever asks after the task.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types.a2a_pb2 import Message, SendMessageRequest, Task
from a2a.utils.errors import UnsupportedOperationError

from assay.serve.safe_errors import ONE_MESSAGE


class OneMessageHandler(DefaultRequestHandler):
    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Message | Task:
        await self._refuse_second(params, context)
        answer: Message | Task = await super().on_message_send(params, context)
        return answer

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        await self._refuse_second(params, context)
        async with aclosing(super().on_message_send_stream(params, context)) as events:
            async for event in events:
                yield event

    async def _refuse_second(self, params: SendMessageRequest, context: ServerCallContext) -> None:
        """Of a task that is not known, the SDK says so."""
        task_id = params.message.task_id
        if task_id and await self.task_store.get(task_id, context) is not None:
            raise UnsupportedOperationError(message=ONE_MESSAGE)
