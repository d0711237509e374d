"""The purple agent: QueryRequest in, `retrieval_results` with ranked document ids out.

Where it was started to answer too, the same artifact holds the answer and the ids that it cites.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

from a2a.helpers import new_data_part
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentSkill
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel, Field
from starlette.types import ASGIApp

from assay.contract.envelope import NO_FLAG
from assay.errors import AgentFailure, AssayError, SearchError, TargetError
from assay.llm.passages import Passage
from assay.net.json import JsonObject, parse_object
from assay.progress import Progress
from assay.serve.a2a import (
    AgentProfile,
    ServerUnavailable,
    TaskExecutor,
    TaskRefused,
    a2a_app,
    read_request,
    wait_until_loaded,
)
from assay.serve.readiness import Loading
from assay.serve.retrieval import QueryText, load_retrieval
from assay.targets.builtin import BuiltinAnswers
from assay.targets.mcp import McpSession
from assay.targets.mcp_connection import open_http
from assay.targets.protocol import AgentAnswer

# Finds the ids of at most so many documents for a query, best first, and may answer from them.
Find = Callable[[str, int], Awaitable[list[str] | AgentAnswer]]

Load = Callable[[Progress], Awaitable[Find]]
Stop = Callable[[], Awaitable[None]] | None

_logger = logging.getLogger(__name__)

ARTIFACT = "retrieval_results"
IN_FLIGHT = 64
KEPT_TASKS = 1000

PROFILE = AgentProfile(
    name="NFCorpus Retrieval Agent",
    description="Finds the documents that answer a question, best first.",
    skills=(
        AgentSkill(
            id="nfcorpus_retrieval",
            name="Retrieve documents",
            description='Send {"query": "...", "top_k": 5} as JSON; returns ranked document ids.',
            tags=["retrieval", "search"],
            examples=['{"query": "What are the effects of calcium on bone health?", "top_k": 5}'],
        ),
    ),
)
# What the card names as well if the agent answers.
ANSWERS = AgentSkill(
    id="answers",
    name="Answer from documents",
    description='Send {"query": "...", "top_k": 5} as JSON; returns "answer" and the ids in '
    '"citations" beside the ranked document ids.',
    tags=["answers", "citations", "rag"],
    examples=['{"query": "How much calcium do adults need?", "top_k": 5}'],
)


class QueryRequest(BaseModel):
    """What the purple agent is sent."""

    query: QueryText
    top_k: Annotated[int, NO_FLAG] = Field(default=5, ge=1, le=1000)


def purple_app(
    load: Load,
    *,
    dataset: str | None = None,
    answers: bool = False,
    card_url: str | None = None,
    token: str | None = None,
    in_flight: int = IN_FLIGHT,
    max_wait_s: float | None = None,
    on_stop: Stop = None,
) -> ASGIApp:
    """The retrieval agent.

    `load` makes the search ready; it starts with the server and may take minutes. Requests wait for
    it, at most `max_wait_s` seconds, then they are answered with the reason. `dataset` is what the
    card names, None if another server searches, and `answers` whether the agent answers, too.
    `in_flight` searches run at once; others wait.
    """
    loading: Loading[Find] = Loading(lambda: load(loading.note))
    profile = replace(PROFILE, skills=(*PROFILE.skills, ANSWERS)) if answers else PROFILE
    return a2a_app(
        profile if dataset is None else profile.serving(dataset),
        PurpleExecutor(loading, in_flight, max_wait_s),
        loading,
        service="purple",
        card_url=card_url,
        token=token,
        kept_tasks=KEPT_TASKS,
        on_stop=on_stop,
    )


def local_search(
    dataset: str, mode: str, answers: BuiltinAnswers | None = None
) -> tuple[Load, Stop]:
    """Search in this process, and write an answer from what is found if there are `answers`."""

    async def load(progress: Progress) -> Find:
        retrieval = await load_retrieval(dataset, mode, progress)

        async def find(query: str, top_k: int) -> list[str] | AgentAnswer:
            hits = await retrieval.search(query, top_k)
            if answers is None:
                return [hit.doc_id for hit in hits]
            passages = [Passage(hit.doc_id, hit.title, hit.text) for hit in hits]
            return await answers.from_passages(query, passages)

        return find

    return load, answers.close if answers else None


def configured_answers() -> BuiltinAnswers:
    """Answers by the configured model, or by quotes. Raises `UsageError` for an unknown one."""
    from assay.llm.providers.opening import configured_spec

    return BuiltinAnswers(None, configured_spec() or "")


class PurpleExecutor(TaskExecutor):
    """Answers each message with one artifact: the ranked ids, and the answer if there is one."""

    def __init__(
        self, loading: Loading[Find], in_flight: int, max_wait_s: float | None = None
    ) -> None:
        self._loading = loading
        self._in_flight = asyncio.Semaphore(in_flight)
        self._max_wait_s = max_wait_s

    async def work(self, request: JsonObject, updater: TaskUpdater) -> None:
        """Search, and send what was found."""
        asked = read_request(QueryRequest, request)
        try:
            async with asyncio.timeout(self._max_wait_s):
                find = await wait_until_loaded(self._loading)
        except TimeoutError:
            stage = self._loading.stage or {}
            raise ServerUnavailable(f"not ready yet: {stage.get('what', 'loading')}") from None
        try:
            async with self._in_flight:
                found = await find(asked.query, asked.top_k)
        except (AssayError, AgentFailure) as error:  # our own words, nothing of the request
            raise TaskRefused(str(error)) from error
        if isinstance(found, list):
            results: JsonObject = {"doc_ids": list(dict.fromkeys(found))[: asked.top_k]}
        else:
            cited = {"answer": found.answer, "citations": list(found.citations)}
            results = {"doc_ids": list(found.doc_ids), **cited}
        await updater.add_artifact([new_data_part(results)], name=ARTIFACT)
        await updater.complete()


TOOL = "search_nfcorpus"
# How many documents a search server returns at most, unless its tool states another maximum.
MAX_RESULTS = 100

# A request waits no longer for the search server: evaluators give up after 30 to 60 s.
MAX_WAIT_S = 20.0

_RETRY_DELAYS_S = (0.5, 1.0, 2.0, 5.0)

FindIds = Callable[[str, int], Awaitable[list[str]]]


def mcp_search(url: str) -> tuple[Load, Stop]:
    """Search through the MCP server at `url`: keeps trying until it is up."""
    search = McpSearch(url)
    return search.open, search.close


class McpSearch:
    """A search over the MCP server at `url`, which may be given with or without its `/mcp`."""

    def __init__(self, url: str) -> None:
        self._base = url.rstrip("/").removesuffix("/mcp")
        self._http = open_http()
        self._max_results = MAX_RESULTS
        self._session = McpSession(
            lambda: streamable_http_client(f"{self._base}/mcp", http_client=self._http)
        )

    async def open(self, progress: Progress) -> FindIds:
        """Wait for the server, however long it takes: it may be started after us."""
        logged = ""
        for attempt in itertools.count():
            problem = await self._mcp_problem()
            if not problem:
                return self.search
            waiting = f"waiting for a search server at {self._base} ({problem})"
            progress(f"{waiting}; check --mcp-server-url", 0, None)
            if waiting != logged:
                _logger.warning("%s", waiting)
                logged = waiting
            await asyncio.sleep(_RETRY_DELAYS_S[min(attempt, len(_RETRY_DELAYS_S) - 1)])
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Close the session and the HTTP client."""
        await self._session.close()
        await self._http.aclose()

    async def search(self, query: str, top_k: int) -> list[str]:
        """The ids that the server's tool finds."""
        arguments = {"query": query, "top_k": min(top_k, self._max_results)}
        try:
            try:
                result = await self._session.call(TOOL, arguments)
            except AgentFailure as failure:
                if not failure.retryable:
                    raise
                # A lost session is noticed only by the next call.
                result = await self._session.call(TOOL, arguments)
        except AgentFailure as failure:
            raise SearchError(f"the search server failed: {failure}") from failure
        if result.is_error:
            raise SearchError(f"the tool {TOOL!r} of the search server returned an error")
        found = result.structured_content
        if not found:
            text = "".join(getattr(part, "text", "") for part in result.content)
            found = parse_object(text)
        return doc_ids(found)

    async def _mcp_problem(self) -> str:
        """Why the server cannot be searched over MCP; empty if it can."""
        try:
            _, tools = await self._session.open()
        except TargetError as error:
            return str(error)
        found = next((tool for tool in tools if tool.name == TOOL), None)
        if found is None:
            return f"it has no tool {TOOL!r}"
        top_k = (found.input_schema.get("properties") or {}).get("top_k")
        limit = top_k.get("maximum") if isinstance(top_k, dict) else None
        self._max_results = limit if isinstance(limit, int) and limit > 0 else MAX_RESULTS
        return ""


def doc_ids(answer: Any) -> list[str]:
    """The document ids of a search result, in its order."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise SearchError("the search server's response has no list 'results'")
    ids = [hit.get("doc_id") for hit in results if isinstance(hit, dict)]
    return [doc_id for doc_id in ids if isinstance(doc_id, str) and doc_id]
