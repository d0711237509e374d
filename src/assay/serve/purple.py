"""The purple agent: QueryRequest in, `retrieval_results` with ranked document ids out.

Where it was started to answer too, the same artifact holds the answer and the ids that it cites.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import orjson
from a2a.helpers import new_data_part
from a2a.server.tasks import TaskUpdater
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from pydantic import BaseModel, Field
from starlette.types import ASGIApp

from assay.contract.envelope import NO_FLAG
from assay.errors import AgentFailure, AssayError, SearchError, TargetError
from assay.llm.passages import Passage
from assay.net.json import JsonObject, parse_json
from assay.progress import Progress
from assay.serve.a2a import (
    AgentProfile,
    ServerUnavailable,
    Skill,
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
        Skill(
            id="nfcorpus_retrieval",
            name="Retrieve documents",
            description='Send {"query": "...", "top_k": 5} as JSON; returns ranked document ids.',
            tags=("retrieval", "search"),
            example='{"query": "What are the effects of calcium on bone health?", "top_k": 5}',
        ),
    ),
)
# What the card names as well if the agent answers.
ANSWERS = Skill(
    id="answers",
    name="Answer from documents",
    description='Send {"query": "...", "top_k": 5} as JSON; returns "answer" and the ids in '
    '"citations" beside the ranked document ids.',
    tags=("answers", "citations", "rag"),
    example='{"query": "How much calcium do adults need?", "top_k": 5}',
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

    load: makes the search ready; starts with the server and may take minutes, requests wait.
    dataset: the data set that the card names; None if another server searches.
    answers: whether what `load` makes ready answers too, which the card then says.
    card_url: the address that the card names; None names the one by which it was requested.
    token: the bearer token that callers need.
    in_flight: how many searches run at once; others wait.
    max_wait_s: how long a request waits for `load` before it is answered with the reason.
    on_stop: called when the server has stopped.
    """
    loading: Loading[Find] = Loading(lambda: load(loading.note))
    executor = PurpleExecutor(loading, in_flight, max_wait_s)
    profile = PROFILE.with_skill(ANSWERS) if answers else PROFILE
    return a2a_app(
        profile if dataset is None else profile.serving(dataset),
        executor,
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
    """Search in this process: loads the data set and a retriever over it.

    answers: writes an answer from what is found; None to return documents alone.
    """

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


def mcp_search(url: str) -> tuple[Load, Stop]:
    """Search through the MCP server at `url`: keeps trying until it is up."""

    search = McpSearch(url)

    return search.open, search.close


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
        found = await self._search(asked)
        results = _results(found, asked.top_k)
        await updater.add_artifact([new_data_part(results)], name=ARTIFACT)
        await updater.complete()

    async def _search(self, asked: QueryRequest) -> list[str] | AgentAnswer:
        try:
            async with asyncio.timeout(self._max_wait_s):
                find = await wait_until_loaded(self._loading)
        except TimeoutError:
            stage = self._loading.stage or {}
            raise ServerUnavailable(f"not ready yet: {stage.get('what', 'loading')}") from None
        try:
            async with self._in_flight:
                return await find(asked.query, asked.top_k)
        except (AssayError, AgentFailure) as error:  # our own words, nothing of the request
            raise TaskRefused(str(error)) from error


def _results(found: list[str] | AgentAnswer, top_k: int) -> JsonObject:
    if isinstance(found, list):
        return {"doc_ids": list(dict.fromkeys(found))[:top_k]}
    return {
        "doc_ids": list(found.doc_ids),
        "answer": found.answer,
        "citations": list(found.citations),
    }


TOOL = "search_nfcorpus"
# How many documents a search server returns at most, unless its tool states another maximum.
MAX_RESULTS = 100

# A request waits no longer for the search server: evaluators give up after 30 to 60 s.
MAX_WAIT_S = 20.0

_RETRY_DELAYS_S = (0.5, 1.0, 2.0, 5.0)

FindIds = Callable[[str, int], Awaitable[list[str]]]


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
            result = await self._call_with_reopen(arguments)
        except AgentFailure as failure:
            raise SearchError(f"the search server failed: {failure}") from failure
        if result.is_error:
            raise SearchError(f"the tool {TOOL!r} of the search server returned an error")
        return doc_ids(result.structured_content or _text_json(result))

    async def _call_with_reopen(self, arguments: dict[str, Any]) -> CallToolResult:
        """A lost session is noticed only by the next call: repeat that one."""
        try:
            return await self._session.call(TOOL, arguments)
        except AgentFailure as failure:
            if not failure.retryable:
                raise
        return await self._session.call(TOOL, arguments)

    async def _mcp_problem(self) -> str:
        """Why the server cannot be searched over MCP; empty if it can."""
        try:
            _, tools = await self._session.open()
        except TargetError as error:
            return str(error)
        found = [tool for tool in tools if tool.name == TOOL]
        if not found:
            return f"it has no tool {TOOL!r}"
        self._max_results = _max_results(found[0].input_schema)
        return ""


def _max_results(schema: Mapping[str, Any]) -> int:
    """The largest `top_k` that the tool accepts."""
    properties = schema.get("properties")
    wanted = properties.get("top_k") if isinstance(properties, dict) else None
    most = wanted.get("maximum") if isinstance(wanted, dict) else None
    return most if isinstance(most, int) and most > 0 else MAX_RESULTS


def doc_ids(answer: Any) -> list[str]:
    """The document ids of a search result, in its order."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise SearchError("the search server's response has no list 'results'")
    ids = [hit.get("doc_id") for hit in results if isinstance(hit, dict)]
    return [doc_id for doc_id in ids if isinstance(doc_id, str) and doc_id]


def _text_json(result: CallToolResult) -> Any:
    text = "".join(getattr(part, "text", "") for part in result.content)
    try:
        return parse_json(text)
    except orjson.JSONDecodeError:
        return None
