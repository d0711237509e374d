"""The purple agent: QueryRequest in, `retrieval_results` with ranked document ids out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, repeat
from typing import Annotated

from a2a.helpers import new_data_part
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCard, AgentSkill
from pydantic import BaseModel, Field
from starlette.types import ASGIApp

from assay.contract.envelope import NO_FLAG
from assay.errors import AgentFailure, AssayError, TargetError
from assay.progress import Progress
from assay.serve.a2a import (
    ServerUnavailable,
    TaskExecutor,
    TaskRefused,
    a2a_app,
    read_request,
    wait_until_loaded,
)
from assay.serve.readiness import Loading
from assay.serve.retrieval import QueryText, load_retrieval
from assay.targets.mcp import McpAgent
from assay.targets.mcp_connection import HttpServer

# Finds the ids of at most so many documents for a query, best first.
Find = Callable[[str, int], Awaitable[Sequence[str]]]
Load = Callable[[Progress], Awaitable[Find]]
Stop = Callable[[], Awaitable[None]] | None

_logger = logging.getLogger(__name__)

ARTIFACT = "retrieval_results"
IN_FLIGHT = 64
KEPT_TASKS = 1000

PROFILE = AgentCard(
    name="NFCorpus Retrieval Agent",
    description="Finds the documents that answer a question, best first.",
    skills=[
        AgentSkill(
            id="nfcorpus_retrieval",
            name="Retrieve documents",
            description='Send {"query": "...", "top_k": 5} as JSON; returns ranked document ids.',
            tags=["retrieval", "search"],
            examples=['{"query": "What are the effects of calcium on bone health?", "top_k": 5}'],
        ),
    ],
)


class QueryRequest(BaseModel):
    """What the purple agent is sent."""

    query: QueryText
    top_k: Annotated[int, NO_FLAG] = Field(default=5, ge=1, le=1000)


def purple_app(
    load: Load,
    *,
    dataset: str | None = None,
    card_url: str | None = None,
    token: str | None = None,
    in_flight: int = IN_FLIGHT,
    max_wait_s: float | None = None,
    on_stop: Stop = None,
) -> ASGIApp:
    """The retrieval agent.

    `load` makes the search ready; it starts with the server and may take minutes. Requests wait for
    it, at most `max_wait_s` seconds, then they are answered with the reason. `dataset` is what the
    card names, None if another server searches. `in_flight` searches run at once; others wait.
    """
    loading: Loading[Find] = Loading(lambda: load(loading.note))
    return a2a_app(
        PROFILE,
        PurpleExecutor(loading, in_flight, max_wait_s),
        loading,
        service="purple",
        dataset=dataset,
        card_url=card_url,
        token=token,
        kept_tasks=KEPT_TASKS,
        on_stop=on_stop,
    )


def local_search(dataset: str, mode: str) -> Load:
    """Search in this process."""

    async def load(progress: Progress) -> Find:
        retrieval = await load_retrieval(dataset, mode, progress)

        async def find(query: str, top_k: int) -> Sequence[str]:
            return [hit.doc_id for hit in await retrieval.search(query, top_k)]

        return find

    return load


TOOL = "search_nfcorpus"
# A request waits no longer for the search server: evaluators give up after 30 to 60 s.
MAX_WAIT_S = 20.0

# Short at first: of services that are started together, one is ready seconds after the other.
_RETRY_DELAYS_S = (0.5, 1.0, 2.0)
_LAST_DELAY_S = 5.0


def mcp_search(url: str) -> tuple[Load, Stop]:
    """Search through the MCP server at `url`, with or without its `/mcp`; it may be started later
    than this agent."""
    base = url.rstrip("/").removesuffix("/mcp")
    agent = McpAgent(f"a search server at {base}", HttpServer(f"{base}/mcp"), tool=TOOL)

    async def load(progress: Progress) -> Find:
        logged = ""
        for delay in chain(_RETRY_DELAYS_S, repeat(_LAST_DELAY_S)):
            try:
                await agent.open()
                break
            except TargetError as error:
                waiting = f"waiting for {error}; check --mcp-server-url"
            progress(waiting, 0, None)
            if waiting != logged:
                _logger.warning("%s", waiting)
                logged = waiting
            await asyncio.sleep(delay)
        return find

    async def find(query: str, top_k: int) -> Sequence[str]:
        try:
            return (await agent.ask(query, top_k)).doc_ids
        except AgentFailure as failure:
            if not failure.retryable:
                raise
            # A lost session is noticed only by a call.
            return (await agent.ask(query, top_k)).doc_ids

    return load, agent.close


class PurpleExecutor(TaskExecutor):
    """Answers each message with one artifact, the ranked ids."""

    def __init__(
        self, loading: Loading[Find], in_flight: int, max_wait_s: float | None = None
    ) -> None:
        self._loading = loading
        self._in_flight = asyncio.Semaphore(in_flight)
        self._max_wait_s = max_wait_s

    async def work(self, request: object, updater: TaskUpdater) -> None:
        """Search, and send what was found."""
        asked = read_request(QueryRequest, request)
        try:
            async with asyncio.timeout(self._max_wait_s):
                find = await wait_until_loaded(self._loading)
        except TimeoutError:
            what, *_ = self._loading.stage or ("loading",)
            raise ServerUnavailable(f"not ready yet: {what}") from None
        try:
            async with self._in_flight:
                found = await find(asked.query, asked.top_k)
        except (AssayError, AgentFailure) as error:  # our own words, nothing of the request
            raise TaskRefused(str(error)) from error
        # A server of somebody else may repeat ids, or send more than it was asked for.
        results = new_data_part({"doc_ids": list(dict.fromkeys(found))[: asked.top_k]})
        await updater.add_artifact([results], name=ARTIFACT)
        await updater.complete()
