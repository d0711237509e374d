"""The five agents as one application: one at the root, or several, each on its path."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from assay.contract.server import (
    EXCEPTION_HANDLERS,
    AgentService,
    Readiness,
    ServingLimits,
    Work,
    agent_routes,
    ready_response,
)
from assay.data.cache import cache_folder
from assay.errors import UsageError
from assay.search.retriever import check_request
from assay.serve.contract_agents.checking_agents import review_policy, verify_claims
from assay.serve.contract_agents.rag_agents import (
    KnowledgeBases,
    lit_retrieval,
    rag_ingest,
    rag_retrieve,
)
from assay.serve.guards import OPEN_PATHS, AllowedHosts, BearerToken, guarded
from assay.serve.retrieval import load_retrieval, open_retrieval

TASKS = ("RAG_RETRIEVE", "RAG_INGEST", "LIT_RETRIEVAL", "POLICY_REVIEW", "CLAIM_VERIFY")
_SEARCHING = frozenset({"RAG_RETRIEVE", "LIT_RETRIEVAL"})
# Requests carry complete documents.
_INGEST_LIMITS = ServingLimits(max_body_bytes=16_000_000, max_running=8)


def open_knowledge(dataset: str, mode: str) -> KnowledgeBases:
    """What the agents search; nothing is loaded before `agents_app` starts."""
    # A tuned ranking belongs to the data set that it was tuned on.
    known = check_request("any", 1, "hybrid" if mode == "tuned" else mode)
    return KnowledgeBases(
        lambda progress: load_retrieval(dataset, mode, progress),
        lambda: cache_folder() / "knowledge",
        lambda chunks: open_retrieval(chunks, known),
    )


def _service(task: str, knowledge: KnowledgeBases) -> AgentService:
    works: dict[str, Work] = {
        "RAG_RETRIEVE": partial(rag_retrieve, knowledge),
        "RAG_INGEST": partial(rag_ingest, knowledge),
        "LIT_RETRIEVAL": partial(lit_retrieval, knowledge),
        "POLICY_REVIEW": review_policy,
        "CLAIM_VERIFY": verify_claims,
    }

    async def search_ready() -> Readiness:
        # Only the state: why loading failed is in the log, and may name internal files.
        state = knowledge.loading.status.partition(":")[0]
        return Readiness(state == "ready", {"index": state})

    return AgentService(
        name=f"agent{path_of(task).replace('/', '-')}",
        task_type=task,
        work=works[task],
        ready=search_ready if task in _SEARCHING else None,
        limits=_INGEST_LIMITS if task == "RAG_INGEST" else ServingLimits(),
    )


def known_tasks(given: Sequence[str]) -> list[str]:
    """The tasks in the order given, each once; `all` means all of them. Case does not matter."""
    named = [name.upper().replace("-", "_") for name in given]
    wanted = list(TASKS) if "ALL" in named else list(dict.fromkeys(named))
    for task in wanted:
        if task not in TASKS:
            raise UsageError(f"no agent for {task!r}; choose from: {', '.join(TASKS)}, all")
    return wanted


def path_of(task: str) -> str:
    """The path of an agent if several share a process."""
    return "/" + task.lower().replace("_", "-")


def agents_app(
    tasks: Sequence[str],
    knowledge: KnowledgeBases,
    *,
    token: str | None = None,
    hosts: Collection[str] = (),
) -> ASGIApp:
    """The application of one agent, at the root, or of several, each under its `path_of`."""
    services = [_service(task, knowledge) for task in tasks]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        if not _SEARCHING.isdisjoint(tasks):
            knowledge.loading.start()
        try:
            yield
        finally:
            await knowledge.loading.stop()

    app = Starlette(
        routes=_routes(services), lifespan=lifespan, exception_handlers=EXCEPTION_HANDLERS
    )
    mounts = [path_of(service.task_type) for service in services]
    open_paths = OPEN_PATHS | {mount + path for mount in mounts for path in OPEN_PATHS}
    # The routes limit bodies themselves: RAG_INGEST takes larger ones than its neighbors.
    return guarded(app, AllowedHosts(hosts), BearerToken(token, open_paths), body_limit=None)


def _routes(services: Sequence[AgentService]) -> list[BaseRoute]:
    if len(services) == 1:
        return agent_routes(services[0])
    paths = {service.task_type: path_of(service.task_type) for service in services}

    async def health(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "service": "agents", "agents": paths})

    async def ready(_request: Request) -> JSONResponse:
        states = [await service.ready() for service in services if service.ready]
        return ready_response("agents", Readiness(all(state.ready for state in states)))

    return [
        *(Mount(paths[service.task_type], routes=agent_routes(service)) for service in services),
        Route("/health", health),
        Route("/health/ready", ready),
    ]
