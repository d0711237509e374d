"""A2A tasks: running one from its message to its last state, and remembering finished ones.

Three changes to what the SDK does. It sends the text of every exception to the client; here only
that of a `TaskRefused` is sent. It keeps every task; here only the newest are kept. It
queues further messages behind a task and keeps them in its history; here a task takes one message.
"""

import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import orjson
from a2a.helpers import get_data_parts, get_text_parts, new_task, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    Task,
    TaskState,
)
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import UnsupportedOperationError
from pydantic import BaseModel, ValidationError

from assay.errors import AssayError
from assay.net.json import JsonObject, parse_json
from assay.privacy import log_exception
from assay.serve.readiness import Loaded, Loading

INTERNAL_ERROR = "internal error; see the server's log"
ONE_MESSAGE = "a task takes one message; send it without a task id to start a new task"
MAX_HISTORY = 20
"""How many status messages of a task are kept, besides its current one."""

Request = TypeVar("Request", bound=BaseModel)

_logger = logging.getLogger(__name__)


class TaskRefused(Exception):
    """A request that is not carried out. Its message names the field and never the value."""


class ServerUnavailable(TaskRefused):
    """A valid request to a server that has no room, or could not load what it needs."""


class TaskExecutor(AgentExecutor):
    """Runs `work` for each message, and turns what it raises into the task's last state."""

    refusal_state = TaskState.TASK_STATE_FAILED

    @abstractmethod
    async def work(self, request: JsonObject, updater: TaskUpdater) -> None:
        """Carry out the `request` that a message holds, and report to `updater`."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Called by the SDK with each new message."""
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        # Without the message as its history: nothing that was sent is kept or sent back.
        submitted = TaskState.TASK_STATE_SUBMITTED
        await event_queue.enqueue_event(new_task(context.task_id, context.context_id, submitted))
        try:
            await self.work(message_object(context.message), updater)
        except ServerUnavailable as refusal:
            await send_status(updater, TaskState.TASK_STATE_FAILED, str(refusal))
        except TaskRefused as refusal:
            await send_status(updater, self.refusal_state, str(refusal))
        except Exception as error:
            log_exception(_logger, "task failed", error, task_id=updater.task_id)
            await send_status(updater, TaskState.TASK_STATE_FAILED, INTERNAL_ERROR)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Called by the SDK when a client cancels the task."""
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel()


async def send_status(updater: TaskUpdater, state: TaskState, text: str) -> None:
    """Set the task's state, with `text` as its message."""
    await updater.update_status(state, updater.new_agent_message([new_text_part(text)]))


async def wait_until_loaded(loading: Loading[Loaded]) -> Loaded:
    """What was being loaded. Why loading failed is in the log alone: it may name files of ours."""
    try:
        return await loading.get()
    except AssayError:
        raise ServerUnavailable("this server failed to load; see its log") from None


def message_object(message: Message) -> JsonObject:
    """The JSON object in a message: its first data part, else its text parts joined."""
    data = get_data_parts(message.parts)
    if data:
        return _object(data[0], "message")
    needed = "needs a data part, or a text part that holds JSON"
    return read_object("".join(get_text_parts(message.parts)), "message", needed)


def read_object(text: str | bytes, place: str, otherwise: str = "not valid JSON") -> JsonObject:
    """The JSON object in `text`, or `TaskRefused` with the `place` and what is wrong."""
    try:
        return _object(parse_json(text), place)
    except orjson.JSONDecodeError:
        raise TaskRefused(f"{place}: {otherwise}") from None


def read_request(model: type[Request], request: JsonObject) -> Request:
    """The request as a `model`, or `TaskRefused` with the first wrong field, without what was sent:
    `config.top_k: Input should be greater than or equal to 1`."""
    try:
        return model.model_validate(request)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(step) for step in first["loc"])
    # Pydantic's own message names a class of ours.
    words = "not a JSON object" if first["type"] == "model_type" else first["msg"]
    raise TaskRefused(f"{field or 'request'}: {words.removeprefix('Value error, ')}")


def _object(value: object, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise TaskRefused(f"{place}: not a JSON object")
    return value


class BoundedTaskStore(InMemoryTaskStore):
    """Drops the oldest finished tasks when there are more than `limit`. Running tasks stay.

    listable: whether clients see tasks in a list. Only if callers need a token: without one, a
        list would show every caller the requests of all others, so it is empty.
    """

    def __init__(self, limit: int, *, listable: bool) -> None:
        super().__init__()
        self._limit = limit
        self._listable = listable
        self._finished: dict[str, ServerCallContext] = {}

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Store the task with the end of its history, and drop others if it has finished.

        The history is cut in the task itself, which the SDK goes on appending to: a long
        evaluation has thousands of status messages.
        """
        del task.history[:-MAX_HISTORY]
        await super().save(task, context)
        if task.status.state in TERMINAL_TASK_STATES:
            # Only the user of the context, which also holds every header of the request.
            self._finished[task.id] = ServerCallContext(user=context.user)
        while len(self._finished) > self._limit:
            oldest = next(iter(self._finished))
            await super().delete(oldest, self._finished.pop(oldest))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """A page of tasks; empty if callers cannot be told apart."""
        if not self._listable:
            size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
            return ListTasksResponse(page_size=size, total_size=0)
        return await super().list(params, context)


class SingleMessageHandler(DefaultRequestHandler):
    """Refuses a second message to a task: the SDK would keep it in the task's history and send it
    to everyone who asks for the task."""

    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Message | Task:
        """`message/send`."""
        await self._refuse_second(params, context)
        answer: Message | Task = await super().on_message_send(params, context)
        return answer

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """`message/stream`."""
        await self._refuse_second(params, context)
        async with aclosing(super().on_message_send_stream(params, context)) as events:
            async for event in events:
                yield event

    async def _refuse_second(self, params: SendMessageRequest, context: ServerCallContext) -> None:
        """The SDK itself refuses messages to unknown tasks."""
        task_id = params.message.task_id
        if task_id and await self.task_store.get(task_id, context) is not None:
            raise UnsupportedOperationError(message=ONE_MESSAGE)
