"""Both A2A agents: card, JSON-RPC at `/`, tasks, health, behind the guards.

The card is one document that 0.3 and 1.0 clients both understand, at three addresses. Unless an
address is configured, it names the one by which it was requested: a wildcard or a container's own
name would be of no use to the client that reads it.

Three changes to what the SDK does with tasks. It sends the text of every exception to the client;
here only that of a `TaskRefused` is sent. It keeps every task; here only the newest are kept. It
queues further messages behind a task and keeps them in its history; here a task takes one message.
"""

import logging
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson
from a2a.helpers import get_data_parts, get_text_parts, new_task, new_text_part
from a2a.server.agent_execution import (
    AgentExecutor,
    RequestContext,
    SimpleRequestContextBuilder,
)
from a2a.server.agent_execution.active_task import TERMINAL_TASK_STATES
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import UnsupportedOperationError
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from assay.data.load import KNOWN
from assay.errors import AssayError
from assay.net.json import parse_json
from assay.privacy import log_exception
from assay.serve.guards import OPEN_PATHS, AllowedHosts, BearerToken, guarded, json_error
from assay.serve.listening import END_WORK
from assay.serve.readiness import Loaded, Loading, health_routes

# --- tasks ----------------------------------------------------------------------------------------

INTERNAL_ERROR = "internal error; see the server's log"
ONE_MESSAGE = "a task takes one message; send it without a task id to start a new task"
# How many status messages of a task are kept, besides its current one.
MAX_HISTORY = 20

RequestModel = TypeVar("RequestModel", bound=BaseModel)

_logger = logging.getLogger(__name__)


class TaskRefused(Exception):
    """A request that is not carried out. Its message names the field and never the value."""


class ServerUnavailable(TaskRefused):
    """A valid request to a server that has no room, or could not load what it needs."""


class TaskExecutor(AgentExecutor):
    """Runs `work` for each message, and turns what it raises into the task's last state."""

    refusal_state = TaskState.TASK_STATE_FAILED

    @abstractmethod
    async def work(self, request: object, updater: TaskUpdater) -> None:
        """Carry out the `request` that a message holds, and report to `updater`."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Called by the SDK with each new message: its first data part, else its text, is JSON."""
        assert context.message is not None
        updater = _updater(context, event_queue)
        # Without the message as its history: nothing that was sent is kept or sent back.
        submitted = TaskState.TASK_STATE_SUBMITTED
        await event_queue.enqueue_event(new_task(updater.task_id, updater.context_id, submitted))
        try:
            data = get_data_parts(context.message.parts)
            text = "".join(get_text_parts(context.message.parts))
            await self.work(data[0] if data else parse_request(text, "message"), updater)
        except ServerUnavailable as refusal:
            await send_status(updater, TaskState.TASK_STATE_FAILED, str(refusal))
        except TaskRefused as refusal:
            await send_status(updater, self.refusal_state, str(refusal))
        except Exception as error:
            log_exception(_logger, "task failed", error, task_id=updater.task_id)
            await send_status(updater, TaskState.TASK_STATE_FAILED, INTERNAL_ERROR)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Called by the SDK when a client cancels the task."""
        await _updater(context, event_queue).cancel()


def _updater(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    assert context.task_id is not None
    assert context.context_id is not None
    return TaskUpdater(event_queue, context.task_id, context.context_id)


async def send_status(updater: TaskUpdater, state: TaskState, text: str) -> None:
    """Set the task's state, with `text` as its message."""
    await updater.update_status(state, updater.new_agent_message([new_text_part(text)]))


async def wait_until_loaded(loading: Loading[Loaded]) -> Loaded:
    """What was being loaded. Why loading failed is in the log alone: it may name our files."""
    try:
        return await loading.get()
    except AssayError:
        raise ServerUnavailable("this server failed to load; see its log") from None


def parse_request(text: str | bytes, place: str) -> object:
    """The JSON value in `text`, or `TaskRefused` with its `place`."""
    try:
        return parse_json(text)
    except orjson.JSONDecodeError:
        raise TaskRefused(f"{place}: send JSON, as text or as a data part") from None


def read_request(model: type[RequestModel], request: object) -> RequestModel:
    """The request as a `model`, or `TaskRefused` with the first wrong field, without what was sent:
    `config.top_k: Input should be greater than or equal to 1`."""
    try:
        return model.model_validate(request)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(step) for step in first["loc"])
    # Pydantic's own message names our class.
    words = "not a JSON object" if first["type"] == "model_type" else first["msg"]
    raise TaskRefused(f"{field or 'request'}: {words.removeprefix('Value error, ')}")


class BoundedTaskStore(InMemoryTaskStore):
    """Drops the oldest finished tasks when there are more than `limit`. Running tasks stay."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
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
            # A dict keeps the order of insertion: the first one ended first.
            oldest = next(iter(self._finished))
            await super().delete(oldest, self._finished.pop(oldest))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Empty: callers cannot be told apart, and would see the requests of all others."""
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        return ListTasksResponse(page_size=size, total_size=0)


class FirstMessageOnly(SimpleRequestContextBuilder):
    """Refuses a second message to a task: the SDK would keep it in the task's history and send it
    to everyone who asks for the task."""

    async def build(
        self, context: ServerCallContext, *args: Any, task_id: str | None = None, **kwargs: Any
    ) -> RequestContext:
        """Called by the SDK with each message; only a further one names a known task."""
        if task_id is not None:
            raise UnsupportedOperationError(message=ONE_MESSAGE)
        return await super().build(context, *args, **kwargs)


# --- card and application -------------------------------------------------------------------------

PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json", "/")

# Host names and addresses only: the header ends up in a document.
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
# How long streams have to send their last event when the server stops: less than the server has,
# which cuts off what is open then.
STREAM_GRACE_S = 4.0


def build_card(profile: pb.AgentCard, base_url: str, *, needs_token: bool) -> pb.AgentCard:
    """The card of the agent at `base_url`; `profile` has its name, description and skills.

    `needs_token` declares the bearer token.
    """
    url = f"{base_url.rstrip('/')}/"
    card = pb.AgentCard(
        version=version("agent-assay"),
        # Without a version it would mean 0.3.
        supported_interfaces=[
            pb.AgentInterface(protocol_binding="JSONRPC", protocol_version=number, url=url)
            for number in ("1.0", "0.3")
        ],
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json"],
    )
    card.MergeFrom(profile)
    if needs_token:
        scheme = pb.HTTPAuthSecurityScheme(scheme="bearer")
        card.security_schemes["bearer"].http_auth_security_scheme.CopyFrom(scheme)
        schemes = {"bearer": pb.StringList()}
        card.security_requirements.append(pb.SecurityRequirement(schemes=schemes))
    return card


def a2a_app(
    profile: pb.AgentCard,
    executor: TaskExecutor,
    loading: Loading[Any],
    *,
    service: str,
    dataset: str | None,
    card_url: str | None,
    token: str | None,
    kept_tasks: int,
    routes: Sequence[BaseRoute] = (),
    end_work: Callable[[], Awaitable[None]] | None = None,
    on_stop: Callable[[], Awaitable[None]] | None = None,
) -> ASGIApp:
    """An A2A agent. Card and health are open to anyone; the rest needs `token`, if one is set.

    `loading` is what the agent needs before it can work; it starts with the server. The card names
    `dataset`, a name or the path of its files, if there is one, and the address `card_url`, else
    the one by which it was requested. `kept_tasks` is how many finished tasks are remembered.
    `end_work` is called first when the server stops, while clients can still be sent the end, and
    `on_stop` when the last one has disconnected.
    """
    served = pb.AgentCard()
    served.CopyFrom(profile)
    if dataset is not None:
        # Not the folders in which its files are, which are our own.
        name = dataset if dataset in KNOWN else PurePath(dataset).name
        served.description += f" Data set: {name}."
    card_at = partial(build_card, served, needs_token=token is not None)
    handler = DefaultRequestHandler(
        executor,
        BoundedTaskStore(kept_tasks),
        # By this one the SDK judges requests; clients get that of `show_card`.
        card_at(card_url or "http://localhost"),
        request_context_builder=FirstMessageOnly(),
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, Any]]:
        loading.start()
        yield {END_WORK: end_work}
        if on_stop is not None:
            await on_stop()
        await handler.aclose()
        await loading.stop()

    async def show_card(request: Request) -> Response:
        host = request.headers.get("host", "")
        requested = f"{request.url.scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"
        headers = {"Cache-Control": "public, max-age=60"}
        return JSONResponse(agent_card_to_dict(card_at(card_url or requested)), headers=headers)

    rpc_routes = create_jsonrpc_routes(
        handler, "/", enable_v0_3_compat=True, shutdown_grace_period=STREAM_GRACE_S
    )
    app = Starlette(
        routes=[
            *health_routes(service, loading),
            *(Route(path, show_card, methods=["GET"]) for path in PATHS),
            *routes,
            *rpc_routes,
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: json_error},
    )
    own = urlsplit(card_url or "").hostname
    hosts = AllowedHosts({own} if own else ())
    return guarded(app, hosts, BearerToken(token, OPEN_PATHS | set(PATHS)))
