"""Agents on a2a-sdk 1.x: one takes JSON, the others a question in plain text."""

import json
from collections.abc import Awaitable, Callable

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, TaskState
from starlette.applications import Starlette

FOUND = ("note-7", "note-2")

Answer = Callable[[str, TaskUpdater], Awaitable[None]]


class Agent(AgentExecutor):
    """The first word of a query says how it is answered."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        question = json.loads(context.get_user_input())
        way, top_k = question["query"].split()[0], question["top_k"]
        answer = {"doc_ids": ["d1", "d2", "d3"][:top_k], "answer": type(top_k).__name__}
        if way == "message":
            await event_queue.enqueue_event(new_text_message(json.dumps(answer)))
            return
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.update_status(TaskState.TASK_STATE_WORKING, new_text_message("looking"))
        if way == "raise":
            raise RuntimeError("a secret of the executor")
        if way == "reject":
            await updater.reject(new_text_message("NOT_MINE: a secret"))
            return
        if way == "text":
            text = f"Here you are:\n```json\n{json.dumps(answer)}\n```\nBye."
            await updater.add_artifact([new_text_part(text)])
        else:
            await updater.add_artifact([new_data_part(answer)])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


async def prose(question: str, updater: TaskUpdater) -> None:
    text = f"You asked: {question}\nSleep suffers from coffee [note-7], less from tea [note-2]."
    await updater.add_artifact([new_text_part(text)])


async def results(question: str, updater: TaskUpdater) -> None:
    hits = [{"doc_id": each, "score": 0.5} for each in FOUND]
    data = {"query": question, "search": {"results": hits}, "count": len(hits)}
    await updater.add_artifact([new_text_part("Two notes."), new_data_part(data)])


async def streamed(question: str, updater: TaskUpdater) -> None:
    text = "Sleep suffers from coffee [note-7], less from tea [note-2]."
    for start in range(0, len(text), 5):
        piece = [new_text_part(text[start : start + 5])]
        await updater.add_artifact(piece, artifact_id="answer", append=start > 0)


class Stranger(AgentExecutor):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.questions: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        question = context.get_user_input()
        self.questions.append(question)
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await self._answer(question, updater)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


class Hello(AgentExecutor):
    """The smallest agent there is: one message of text, no task."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        words = json.dumps(context.get_user_input())
        await event_queue.enqueue_event(new_text_message(f"Hello! For {words} read [note-7]."))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


def agent_app(
    versions: tuple[str, ...] = ("1.0", "0.3"),
    *,
    compatible: bool = True,
    executor: AgentExecutor | None = None,
) -> Starlette:
    """Serves `executor`, by default an `Agent`, under a card that declares these versions."""
    url = "http://127.0.0.1:1/"
    card = AgentCard(
        name="new agent",
        description="answers in the new way",
        version="1.3",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="find", name="find", description="finds", tags=["search"])],
        supported_interfaces=[
            AgentInterface(protocol_binding="JSONRPC", protocol_version=version, url=url)
            for version in versions
        ],
    )
    handler = DefaultRequestHandler(executor or Agent(), InMemoryTaskStore(), card)
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, rpc_url="/", enable_v0_3_compat=compatible),
        ]
    )
