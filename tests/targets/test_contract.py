"""Targets `http:URL=TASK`: what comes back as a ranking, and each failure by its right name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import ASGIApp
from tests.contract.demo_agent import demo_service
from tests.contract.running import running
from tests.contract.tampering import CUT, Reply, Tamper, Tampered
from tests.targets.every_kind import opened_target

from assay.contract.envelope import AgentRunRequest, AgentRunResponse, GroundingPack, succeeded
from assay.contract.server import AgentService, ReportProgress, agent_app
from assay.data import Dataset, Document
from assay.errors import AgentFailure, FailureKind
from assay.targets import Agent, AgentAnswer
from assay.targets.contract import ContractAgent
from assay.targets.target_kinds import OpenContext, parse_target

URL = "https://www.ncbi.nlm.nih.gov/pubmed/"
DATA = Dataset(
    "tiny",
    {f"MED-{n}": Document(f"MED-{n}", "", "", {"url": f"{URL}77{n}%20"}) for n in range(9)},
    {},
    {},
)
CONTEXT = OpenContext(DATA)
DEMO = agent_app(demo_service())


@asynccontextmanager
async def opened(app: ASGIApp, task: str = "RAG_RETRIEVE") -> AsyncIterator[Agent]:
    async with running(app) as url, opened_target(f"http:{url}={task}", CONTEXT) as agent:
        yield agent


@pytest.mark.parametrize("way", ["", "#stream"])
async def test_chunks_become_ranked_document_ids(way: str) -> None:
    async with opened(DEMO, f"RAG_RETRIEVE{way}") as agent:
        answer = await agent.ask("green tea and blood pressure", 5)
    assert answer == AgentAnswer(("d2", "d1"), usage=answer.usage)


async def test_an_agent_may_go_by_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(DEMO) as url:
        monkeypatch.setenv("AGENT_ENDPOINTS_JSON", f'{{"agent-rag": "{url}"}}')
        async with opened_target("http:agent-rag=RAG_RETRIEVE", CONTEXT) as agent:
            assert (await agent.ask("green tea", 1)).doc_ids == ("d2",)


def _content_type(text: str) -> Tamper:
    return lambda reply: replace(reply, content_type=text)


def _outputs(outputs: dict[str, Any]) -> Tamper:
    return lambda reply: reply.with_json({**reply.json, "outputs": outputs, "grounding": None})


PROTOCOL, INVALID = FailureKind.PROTOCOL, FailureKind.INVALID_ANSWER
FAILURES: list[tuple[str, Tamper, FailureKind, str]] = [
    ("stream", lambda r: r.with_events(r.events[:-1]), PROTOCOL, "without a terminal one"),
    ("stream", lambda r: r.with_body(r.body[:-9], CUT), PROTOCOL, "cut off inside an event"),
    ("stream", _content_type("application/json"), PROTOCOL, "expected content type"),
    ("sync", lambda r: r.with_json({**r.json, "ok": False}), PROTOCOL, "no clear success"),
    ("sync", lambda r: r.with_json({**r.json, "request_id": "x"}), PROTOCOL, "request_id differs"),
    ("sync", lambda r: r.with_json({**r.json, "task_type": "X"}), PROTOCOL, "task_type differs"),
    ("sync", lambda r: r.with_json(r.json, 503), FailureKind.AGENT_ERROR, "HTTP 503"),
    ("sync", _outputs({"rows": []}), INVALID, "neither chunks nor papers"),
    ("sync", _outputs({"chunks": [{"text": "x"}]}), INVALID, "does not name its document"),
]


@pytest.mark.parametrize(("way", "tamper", "kind", "said"), FAILURES)
async def test_failures_are_named(way: str, tamper: Tamper, kind: FailureKind, said: str) -> None:
    def spoil(reply: Reply) -> Reply:
        return tamper(reply) if reply.way == way else reply

    async with opened(Tampered(DEMO, spoil), f"RAG_RETRIEVE#{way}".removesuffix("#sync")) as agent:
        with pytest.raises(AgentFailure, match=said) as caught:
            await agent.ask("green tea", 2)
    assert caught.value.kind == kind
    assert caught.value.retryable == (said == "HTTP 503")


async def test_both_dialects_are_sent_at_once() -> None:
    seen: list[dict[str, Any]] = []

    async def work(request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
        seen.append(request.inputs)
        return succeeded(request, {"papers": [], "chunks": []})

    for task in ("RAG_RETRIEVE", "LIT_RETRIEVAL"):
        async with opened(agent_app(AgentService("a", task, work)), task) as agent:
            assert (await agent.ask("tea", 3)).doc_ids == ()
    assert seen == [
        {"query": "tea", "topK": 3, "query_text": "tea", "top_k": 3},
        {"query": "tea", "max_results": 3},
    ]


def respond(outputs: dict[str, Any], grounding: dict[str, Any] | None = None) -> AgentRunResponse:
    pack = None if grounding is None else GroundingPack.model_validate(grounding)
    return AgentRunResponse(status="ok", request_id="r", outputs=outputs, grounding=pack)


READER = ContractAgent(parse_target("http:http://h=RAG_RETRIEVE"), CONTEXT)
CHUNKS = [
    {"chunk_id": "MED-1__chunk_4", "doc_id": "MED-1"},
    {"chunkId": "MED-2__chunk_0"},
    {"chunk_id": "MED-1__chunk_0", "docId": "MED-1"},
]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"chunks": CHUNKS}, "MED-1 MED-2"),
        ({"groundingPack": {"chunks": CHUNKS}}, "MED-1 MED-2"),
        ({}, "MED-3"),  # of the grounding
        ({"chunks": []}, ""),
        ({"papers": [{"pmid": "775"}, {"pmid": 774, "doc_id": "MED-4"}]}, "MED-5 MED-4"),
        ({"papers": [{"pmid": "9"}, {"doi": "10.1/x"}]}, "9 10.1/x"),
    ],
)
def test_documents_are_read_from_where_agents_put_them(outputs: Any, expected: str) -> None:
    grounding = None if outputs else {"chunks": [{"chunk_id": "MED-3__chunk_1"}]}
    assert READER._read(respond(outputs, grounding)).doc_ids == tuple(expected.split())


IDS = {"citations": ["MED-1__chunk_4", "MED-1__chunk_0"]}
OBJECTS = {"citations": [{"doc_id": "MED-2"}, {"chunkId": "MED-1__chunk_0"}]}


@pytest.mark.parametrize(
    ("outputs", "grounding", "cited"),
    [(IDS, None, "MED-1"), (OBJECTS, None, "MED-2 MED-1"), ({}, IDS, "MED-1"), ({}, None, "")],
)
def test_an_answer_has_the_documents_it_cites(outputs: Any, grounding: Any, cited: str) -> None:
    response = respond({"answer": "Yes. [1]", "chunks": CHUNKS, **outputs}, grounding)
    answer = READER._read(response)
    assert (answer.answer, answer.citations) == ("Yes. [1]", tuple(cited.split()))
