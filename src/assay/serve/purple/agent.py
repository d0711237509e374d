"""The purple agent: QueryRequest in, `retrieval_results` with ranked document ids out.

Where it was started to answer too, the same artifact holds the answer and the ids that it cites.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from a2a.helpers import new_data_part
from a2a.server.tasks import TaskUpdater
from pydantic import BaseModel, Field, StringConstraints, ValidationError
from starlette.types import ASGIApp

from assay.agents.builtin import BuiltinAnswers
from assay.agents.protocol import AgentAnswer
from assay.answer.passages import Passage
from assay.contract.envelope import NO_FLAG
from assay.errors import AgentFailure, AssayError
from assay.net.json import JsonObject
from assay.progress import Progress
from assay.serve.a2a.admission import Capacity, Place
from assay.serve.a2a.app import a2a_app
from assay.serve.a2a.card import AgentProfile, Skill
from assay.serve.a2a.tasks import TaskExecutor, TaskRefused, first_problem, wait_until_loaded
from assay.serve.readiness import Loading
from assay.serve.retrieval import SEARCHABLE, load_retrieval

Find = Callable[[str, int], Awaitable[list[str] | AgentAnswer]]
"""Finds the ids of at most so many documents for a query, best first, and may answer from them."""

Load = Callable[[Progress], Awaitable[Find]]
Stop = Callable[[], Awaitable[None]] | None

ARTIFACT = "retrieval_results"
IN_FLIGHT = 64
KEPT_TASKS = 1000
RETRY_AFTER_S = 1

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
ANSWERS = Skill(
    id="answers",
    name="Answer from documents",
    description='Send {"query": "...", "top_k": 5} as JSON; returns "answer" and the ids in '
    '"citations" beside the ranked document ids.',
    tags=("answers", "citations", "rag"),
    example='{"query": "How much calcium do adults need?", "top_k": 5}',
)
"""What the card names as well where the agent answers."""


class QueryRequest(BaseModel):
    """What the purple agent is sent."""

    query: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000), SEARCHABLE
    ]
    top_k: Annotated[int, NO_FLAG] = Field(default=5, ge=1, le=1000)


def purple_app(
    load: Load,
    *,
    dataset: str | None = None,
    answers: bool = False,
    card_url: str | None = None,
    token: str | None = None,
    in_flight: int = IN_FLIGHT,
    on_stop: Stop = None,
) -> ASGIApp:
    """The retrieval agent.

    load: makes the search ready; starts with the server and may take minutes, requests wait.
    dataset: the data set that the card names; None where another server searches.
    answers: whether what `load` makes ready answers too, which the card then says.
    card_url: the address that the card names; None names the one by which it was requested.
    token: the bearer token that callers need.
    in_flight: how many searches run at once before new ones are refused.
    on_stop: called when the server has stopped.
    """
    loading: Loading[Find] = Loading(lambda: load(loading.note))
    executor = PurpleExecutor(loading, in_flight)
    profile = PROFILE.with_skill(ANSWERS) if answers else PROFILE
    return a2a_app(
        profile if dataset is None else profile.serving(dataset),
        executor,
        loading,
        service="purple",
        card_url=card_url,
        token=token,
        kept_tasks=KEPT_TASKS,
        retry_after=RETRY_AFTER_S,
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
    from assay.answer.providers.opening import configured_spec

    return BuiltinAnswers(None, configured_spec() or "")


def mcp_search(url: str) -> tuple[Load, Stop]:
    """Search through the MCP server at `url`: keeps trying until it is up."""
    from assay.serve.purple.mcp_search import McpSearch

    search = McpSearch(url)

    async def load(progress: Progress) -> Find:
        progress("waiting for the MCP server", 0, None)
        return await search.open()

    return load, search.close


class PurpleExecutor(TaskExecutor):
    """Answers each message with one artifact: the ranked ids, and the answer where there is one."""

    def __init__(self, loading: Loading[Find], in_flight: int) -> None:
        self._loading = loading
        self._capacity = Capacity(in_flight)

    def admit(self) -> Place | None:
        """A place for one search."""
        return self._capacity.admit()

    async def work(self, request: JsonObject, updater: TaskUpdater, place: Place) -> None:
        """Search, and send what was found."""
        asked = _read(request)
        found = await self._search(asked)
        results = _results(found, asked.top_k)
        await updater.add_artifact([new_data_part(results)], name=ARTIFACT)
        await updater.complete()

    async def _search(self, asked: QueryRequest) -> list[str] | AgentAnswer:
        find = await wait_until_loaded(self._loading)
        try:
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


def _read(request: JsonObject) -> QueryRequest:
    try:
        return QueryRequest.model_validate(request)
    except ValidationError as error:
        raise TaskRefused(first_problem(error)) from None
