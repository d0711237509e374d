"""The agents as applications: one at the root, or several under one process, each on its path."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from assay.answer.extractive import ExtractiveAnswerer
from assay.answer.passages import Answerer
from assay.contract.server.app import (
    EXCEPTION_HANDLERS,
    AgentService,
    Readiness,
    ServingLimits,
    agent_routes,
    always_ready,
)
from assay.contract.server.runs import Work
from assay.errors import UsageError
from assay.search.embedding import Embedder, open_embedder
from assay.search.retriever import check_request
from assay.search.store import Store
from assay.serve.contract_agents.claim_verify import ClaimVerify
from assay.serve.contract_agents.knowledge_bases import KnowledgeBases
from assay.serve.contract_agents.knowledge_store import store_of
from assay.serve.contract_agents.lit_retrieval import LitRetrieval
from assay.serve.contract_agents.policy_review import Policy, PolicyReview, read_policy
from assay.serve.contract_agents.pubmed import PubMed
from assay.serve.contract_agents.rag_answer import RagAnswer
from assay.serve.contract_agents.rag_ingest import RagIngest
from assay.serve.contract_agents.rag_retrieve import RagRetrieve
from assay.serve.guards import OPEN_PATHS, guarded
from assay.serve.retrieval import load_retrieval

TASKS = (
    "RAG_RETRIEVE",
    "RAG_INGEST",
    "RAG_ANSWER",
    "LIT_RETRIEVAL",
    "POLICY_REVIEW",
    "CLAIM_VERIFY",
)
_SEARCHING = frozenset({"RAG_RETRIEVE", "RAG_ANSWER", "LIT_RETRIEVAL"})
# Whole documents come in these.
_INGEST_LIMITS = ServingLimits(max_body_bytes=16_000_000, max_running=8)


@dataclass(frozen=True)
class Workshop:
    """What the agents of one process share."""

    knowledge: KnowledgeBases
    policy: Policy
    answerer: Answerer = field(default_factory=ExtractiveAnswerer)
    pubmed: PubMed = field(default_factory=PubMed)

    def work_of(self, task: str) -> Work:
        works: dict[str, Work] = {
            "RAG_RETRIEVE": RagRetrieve(self.knowledge),
            "RAG_INGEST": RagIngest(self.knowledge),
            "RAG_ANSWER": RagAnswer(self.knowledge, self.answerer),
            "LIT_RETRIEVAL": LitRetrieval(self.knowledge, self.pubmed, self.policy.phi),
            "POLICY_REVIEW": PolicyReview(self.policy),
            "CLAIM_VERIFY": ClaimVerify(),
        }
        return works[task]

    async def close(self) -> None:
        await self.knowledge.close()
        await self.pubmed.close()


def open_workshop(
    dataset: str,
    mode: str,
    *,
    policy: Path | None = None,
    stores: Callable[[str], Store] = store_of,
    embedder: Callable[[], Embedder] = open_embedder,
) -> Workshop:
    known = check_request("any", 1, mode)
    knowledge = KnowledgeBases(
        lambda progress: load_retrieval(dataset, mode, progress), stores, embedder, known
    )
    return Workshop(knowledge, read_policy(policy))


def known_tasks(given: Sequence[str]) -> list[str]:
    """In the order given, each once; `all` stands for all of them. Capitals do not matter."""
    named = [each.upper().replace("-", "_") for each in given]
    wanted = list(TASKS) if "ALL" in named else list(dict.fromkeys(named))
    for task in wanted:
        if task not in TASKS:
            raise UsageError(f"there is no agent for {task!r}; there are: {', '.join(TASKS)}, all")
    return wanted


def path_of(task: str) -> str:
    return "/" + task.lower().replace("_", "-")


def agents_app(
    tasks: Sequence[str],
    workshop: Workshop,
    *,
    token: str | None = None,
    hosts: Collection[str] = (),
) -> ASGIApp:
    """With one task its endpoints stand at the root, with several each under `path_of` its own.

    `hosts`, besides this machine, are those whose pages may call the agents from a browser.
    """
    services = [_service(task, workshop) for task in tasks]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        if not _SEARCHING.isdisjoint(tasks):
            workshop.knowledge.loading.start()
        if "RAG_INGEST" in tasks:
            workshop.knowledge.embedder.start()
        try:
            yield
        finally:
            await workshop.close()

    app = Starlette(
        routes=_routes(services), lifespan=lifespan, exception_handlers=EXCEPTION_HANDLERS
    )
    mounts = [path_of(service.task_type) for service in services]
    open_paths = OPEN_PATHS | {mount + path for mount in mounts for path in OPEN_PATHS}
    # The routes limit bodies themselves: RAG_INGEST takes larger ones than its neighbors.
    return guarded(app, token=token, open_paths=open_paths, hosts=hosts, body_limit=None)


def _routes(services: Sequence[AgentService]) -> list[BaseRoute]:
    if len(services) == 1:
        return agent_routes(services[0])
    mounted: list[BaseRoute] = [
        Mount(path_of(service.task_type), routes=agent_routes(service)) for service in services
    ]
    return [*mounted, *_health_of_all(services)]


def _health_of_all(services: Sequence[AgentService]) -> list[BaseRoute]:
    async def health(_request: Request) -> JSONResponse:
        paths = {service.task_type: path_of(service.task_type) for service in services}
        return JSONResponse({"status": "ok", "service": "agents", "agents": paths})

    async def ready(_request: Request) -> JSONResponse:
        answers = [(await service.ready()).ready for service in services]
        status = "ready" if all(answers) else "degraded"
        body = {"status": status, "service": "agents"}
        return JSONResponse(body, status_code=200 if all(answers) else 503)

    return [Route("/health", health), Route("/health/ready", ready)]


def _service(task: str, workshop: Workshop) -> AgentService:
    return AgentService(
        name=f"agent{path_of(task).replace('/', '-')}",
        task_type=task,
        work=workshop.work_of(task),
        ready=_readiness(task, workshop.knowledge),
        limits=_INGEST_LIMITS if task == "RAG_INGEST" else ServingLimits(),
    )


def _readiness(task: str, knowledge: KnowledgeBases) -> Callable[[], Awaitable[Readiness]]:
    """The state alone: why loading failed is in the log, and may name files of ours."""

    async def index_ready() -> Readiness:
        state = knowledge.loading.status.partition(":")[0]
        return Readiness(state == "ready", {"index": state})

    async def model_ready() -> Readiness:
        state = knowledge.embedder.loading.status.partition(":")[0]
        return Readiness(state == "ready", {"model": state})

    if task == "RAG_INGEST":
        return model_ready
    return index_ready if task in _SEARCHING else always_ready
