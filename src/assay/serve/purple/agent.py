"""The purple agent: QueryRequest in, `retrieval_results` with ranked document ids out."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from a2a.helpers import new_data_part
from a2a.server.tasks import TaskUpdater
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from starlette.types import ASGIApp

from assay.errors import AssayError
from assay.progress import Progress
from assay.serve.a2a.app import a2a_app
from assay.serve.a2a.card import Profile
from assay.serve.a2a.executor import Refused, TaskExecutor, problem_of, ready
from assay.serve.a2a.whole_number import WholeNumber
from assay.serve.query_text import Readable
from assay.serve.readiness import Loading
from assay.serve.retrieval import load_retrieval

Find = Callable[[str, int], Awaitable[list[str]]]
"""Ids of at most so many documents for a query, best first."""

Load = Callable[[Progress], Awaitable[Find]]
Stop = Callable[[], Awaitable[None]] | None

ARTIFACT = "retrieval_results"
IN_FLIGHT = 64
KEPT_TASKS = 1000
RETRY_AFTER_S = 1

PROFILE = Profile(
    name="NFCorpus Retrieval Agent",
    description="Finds the documents that answer a question, best first.",
    skill_id="nfcorpus_retrieval",
    skill_name="Retrieve documents",
    skill_description='Send {"query": "...", "top_k": 5} as JSON; ranked document ids come back.',
    tags=("retrieval", "search", "nfcorpus"),
    example='{"query": "What are the effects of calcium on bone health?", "top_k": 5}',
)


class QueryRequest(BaseModel):
    query: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000), Readable
    ]
    top_k: WholeNumber = Field(default=5, ge=1, le=1000)


def purple_app(
    load: Load,
    *,
    card_url: str | None = None,
    token: str | None = None,
    in_flight: int = IN_FLIGHT,
    on_stop: Stop = None,
) -> ASGIApp:
    """`load` starts with the server and may take minutes; requests wait for it."""
    loading: Loading[Find] = Loading(lambda: load(loading.note))
    executor = PurpleExecutor(loading, in_flight)
    return a2a_app(
        PROFILE,
        executor,
        loading,
        service="purple",
        card_url=card_url,
        token=token,
        kept_tasks=KEPT_TASKS,
        is_full=executor.is_full,
        retry_after=RETRY_AFTER_S,
        on_stop=on_stop,
    )


def searching(dataset: str, mode: str) -> tuple[Load, Stop]:
    """Loads the data set and the retriever over it, to search in this process."""

    async def load(progress: Progress) -> Find:
        retrieval = await load_retrieval(dataset, mode, progress)

        async def find(query: str, top_k: int) -> list[str]:
            return [hit.doc_id for hit in await retrieval.search(query, top_k)]

        return find

    return load, None


def searching_through_mcp(url: str) -> tuple[Load, Stop]:
    """Connects to an MCP server, and goes on trying until it is there."""
    from assay.serve.purple.mcp_search import McpSearch

    search = McpSearch(url)

    async def load(progress: Progress) -> Find:
        progress("waiting for the MCP server", 0, None)
        return await search.open()

    return load, search.close


class PurpleExecutor(TaskExecutor):
    def __init__(self, loading: Loading[Find], in_flight: int) -> None:
        self._loading = loading
        self._in_flight = in_flight
        self._running = 0

    def is_full(self) -> bool:
        return self._running >= self._in_flight

    async def work(self, request: dict[str, Any], updater: TaskUpdater) -> None:
        asked = _read(request)
        self._running += 1
        try:
            found = await self._search(asked)
        finally:
            self._running -= 1
        doc_ids = list(dict.fromkeys(found))[: asked.top_k]
        await updater.add_artifact([new_data_part({"doc_ids": doc_ids})], name=ARTIFACT)
        await updater.complete()

    async def _search(self, asked: QueryRequest) -> list[str]:
        find = await ready(self._loading)
        try:
            return await find(asked.query, asked.top_k)
        except AssayError as error:  # its words are ours and hold nothing of the request
            raise Refused(str(error)) from error


def _read(request: dict[str, Any]) -> QueryRequest:
    try:
        return QueryRequest.model_validate(request)
    except ValidationError as error:
        raise Refused(problem_of(error)) from None
