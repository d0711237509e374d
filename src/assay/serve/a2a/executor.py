"""One A2A task from its message to its last state, with nothing said that must not be said.

The SDK sends the text of an exception to the client word for word; here only a `Refused` speaks,
and anything else becomes a short sentence and a line in the log without its text.
"""

import logging
from abc import abstractmethod
from typing import Any

import orjson
from a2a.helpers import get_data_parts, get_text_parts, new_task, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Message, TaskState
from pydantic import ValidationError

from assay.errors import AssayError
from assay.serve.readiness import Loaded, Loading

INTERNAL_ERROR = "internal error; the server's log says where"

_logger = logging.getLogger("assay.serve.tasks")


class Refused(Exception):
    """A request that cannot be served. Its message names the field and never the value."""


class Unavailable(Refused):
    """A request that is right, to a server that is not."""


class TaskExecutor(AgentExecutor):
    """`work` gets the request as an object and tells the updater how it went."""

    refusal_state = TaskState.TASK_STATE_FAILED

    @abstractmethod
    async def work(self, request: dict[str, Any], updater: TaskUpdater) -> None: ...

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        # Without the message as its history: nothing that was sent is kept or sent back.
        submitted = TaskState.TASK_STATE_SUBMITTED
        await event_queue.enqueue_event(new_task(context.task_id, context.context_id, submitted))
        try:
            await self.work(read_object(context.message), updater)
        except Unavailable as refusal:
            await say(updater, TaskState.TASK_STATE_FAILED, str(refusal))
        except Refused as refusal:
            await say(updater, self.refusal_state, str(refusal))
        except Exception as error:
            log_failure(updater.task_id, error)
            await say(updater, TaskState.TASK_STATE_FAILED, INTERNAL_ERROR)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel()


async def say(updater: TaskUpdater, state: TaskState, text: str) -> None:
    await updater.update_status(state, updater.new_agent_message([new_text_part(text)]))


async def ready(loading: Loading[Loaded]) -> Loaded:
    """What was being loaded. Why it could not be is for the log: it may name files of ours."""
    try:
        return await loading.get()
    except AssayError:
        raise Unavailable("this server could not load what it needs; its log says why") from None


def read_object(message: Message) -> dict[str, Any]:
    """The JSON object of a message: its first data part, else its text parts put together."""
    data = get_data_parts(message.parts)
    if data:
        return _object(data[0])
    try:
        return _object(orjson.loads("".join(get_text_parts(message.parts))))
    except orjson.JSONDecodeError:
        raise Refused("message: neither a data part nor a text part that holds JSON") from None


def problem_of(error: ValidationError) -> str:
    """`config.top_k: Input should be greater than or equal to 1`, without what was sent."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(step) for step in first["loc"])
    # Its own words for this name a class of ours.
    words = "not a JSON object" if first["type"] == "model_type" else first["msg"]
    return f"{field or 'request'}: {words.removeprefix('Value error, ')}"


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused("message: not a JSON object")
    return value


def log_failure(task_id: str, error: BaseException) -> None:
    fields = {"task_id": task_id, "exception": type(error).__name__, "where": _place(error)}
    _logger.error("task failed", extra={"fields": fields})


def _place(error: BaseException) -> str:
    """File and line, which tell a maintainer enough and hold nothing that a caller wrote."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
