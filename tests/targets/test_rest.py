"""`rest:` targets: requests from templates, pages, presets, and failures by their right name."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.search.conftest import running_server
from tests.serve.serving import serving
from tests.targets.search_services import app as services
from tests.targets.search_services import best

from assay.data import load_dataset
from assay.errors import AgentFailure, FailureKind
from assay.targets import Agent, AgentAnswer, open_target
from assay.targets.answer_reader import parse_mapping
from assay.targets.target_kinds import OpenContext, RequestSettings

DATA = load_dataset("notes")
DATA_ID = next(iter(DATA.documents))


def agent_for(url: str, *mapping: str, method: str = "", **settings: Any) -> Agent:
    request = RequestSettings(**settings)
    return open_target(
        f"rest:{method}{url}", OpenContext(DATA, mapping=parse_mapping(mapping), request=request)
    )


@asynccontextmanager
async def opened(url: str, *mapping: str, **settings: Any) -> AsyncIterator[Agent]:
    agent = agent_for(url, *mapping, **settings)
    try:
        await agent.open()
        yield agent
    finally:
        await agent.close()


async def ask(url: str, *mapping: str, top_k: int = 5, **settings: Any) -> AgentAnswer:
    async with opened(url, *mapping, **settings) as agent:
        return await agent.ask("coffee and sleep", top_k)


def ids(count: int) -> tuple[str, ...]:
    return tuple(doc_id for doc_id, _ in best("coffee and sleep", count))


def one_route(answer: Callable[[Request], Response]) -> Starlette:
    async def endpoint(request: Request) -> Response:
        await request.body()
        return answer(request)

    return Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST", "PUT"])])


async def test_a_search_by_get() -> None:
    async with serving(services) as url:
        address = f"{url}/docs/_search?q={{query}}&size={{top_k}}"
        answer = await ask(address, "ids=hits.hits[]._id", "scores=hits.hits[]._score")
    assert answer.doc_ids == ids(5)
    assert len(answer.scores) == 5


async def test_what_was_not_told_how_many_is_cut() -> None:
    async with serving(services) as url:
        answer = await ask(f"{url}/docs/_search?q={{query}}", "ids=hits.hits[]._id")
    assert answer.doc_ids == ids(5)


async def test_a_body_from_a_file_is_sent_by_post_with_headers_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "s3cret-value")
    seen: list[tuple[str, str, Any]] = []

    def answer(request: Request) -> Response:
        seen.append((request.method, request.headers["authorization"], request.headers["x-a"]))
        return JSONResponse({"ids": ["d1"]})

    body = tmp_path / "body.json"
    body.write_text('{"q": "{query}"}')
    async with serving(one_route(answer)) as url:
        headers = ("Authorization: Bearer $SEARCH_TOKEN", "X-A: ${SEARCH_TOKEN}$1")
        found = await ask(f"{url}/s", body=f"@{body}", headers=headers)
        put = await ask(f"{url}/s", body=f"@{body}", headers=headers, method="put ")
    assert found.doc_ids == put.doc_ids == ("d1",)
    assert seen == [
        ("POST", "Bearer s3cret-value", "s3cret-value$1"),
        ("PUT", "Bearer s3cret-value", "s3cret-value$1"),
    ]


@pytest.mark.parametrize("preset", ["elasticsearch", "opensearch", "solr", "vespa"])
async def test_a_preset_finds_the_documents_in_the_recorded_shape(preset: str) -> None:
    async with serving(services) as url:
        answer = await ask(url, preset=preset, index="docs")
        assert answer.doc_ids == ids(5)
        agent = agent_for(url + "/", preset=preset, index="docs")
        assert f"preset {preset}" in agent.info.details


@pytest.mark.slow
async def test_the_preset_for_qdrant_works_with_the_real_server(tmp_path: Path) -> None:
    documents = list(DATA.documents.values())[:40]
    with running_server(tmp_path) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            vectors = {"sparse_vectors": {"bm25": {"modifier": "idf"}}}
            assert (await http.put("/collections/docs", json=vectors)).status_code == 200
            points = [
                {
                    "id": number,
                    "payload": {"doc_id": each.id},
                    "vector": {"bm25": {"text": each.full_text, "model": "qdrant/bm25"}},
                }
                for number, each in enumerate(documents)
            ]
            done = await http.put("/collections/docs/points?wait=true", json={"points": points})
            assert done.status_code == 200, done.text
        async with opened(server.url, preset="qdrant", index="docs") as agent:
            wanted = documents[7]
            answer = await agent.ask(wanted.full_text[:200], 3)
            assert answer.doc_ids[0] == wanted.id
            assert len(answer.scores) == len(answer.doc_ids) <= 3
        with pytest.raises(AgentFailure, match="HTTP 404") as caught:
            await ask(server.url, preset="qdrant", index="other")
        assert "doesn't exist" in caught.value.said


SSE = (
    'event: found\ndata: {"sources": [{"doc": "a"}, {"doc": "b"}]}\n\n'
    'data: {"delta": "It is "}\n\ndata: {"delta": "so."}\n\ndata: [DONE]\n\n'
)
ONE_EVENT = 'data: {"sources": [{"doc": "a"}, {"doc": "b"}], "text": "It is so."}\n\n'
LINES = '{"hit": "a"}\n{"hit": "b"}\n{"said": "It is so."}\n'


@pytest.mark.parametrize(
    ("body", "kind", "mapping"),
    [
        (SSE, "text/event-stream", ("ids=[].sources[].doc", 'answer=join(`""`, [].delta)')),
        (SSE[:-2], "text/event-stream", ("ids=[].sources[].doc", 'answer=join(`""`, [].delta)')),
        (ONE_EVENT, "text/event-stream", ("ids=[].sources[].doc", "answer=[].text | [0]")),
        (LINES, "text/plain", ('ids=re:"hit": "(.)"', 'answer=re:"said": "([^"]+)"')),
    ],
    ids=[
        *("events", "events that end early", "one event"),
        "lines by pattern",
    ],
)
async def test_a_stream_is_a_list_of_what_it_holds(
    body: str, kind: str, mapping: tuple[str, ...]
) -> None:
    async with serving(one_route(lambda _request: Response(body, media_type=kind))) as url:
        answer = await ask(f"{url}/s?q={{query}}", *mapping)
    assert (answer.doc_ids, answer.answer) == (("a", "b"), "It is so.")


@pytest.mark.parametrize(
    ("body", "mapping"),
    [
        ({"errors": [{"message": "no index"}], "data": None}, ("ids=data.notes[].id",)),
        ({"error": {"message": "no index"}}, ()),
        ({"error": "no index", "results": []}, ()),
    ],
    ids=["graphql", "no list", "an empty list"],
)
async def test_an_error_with_status_200_is_an_error(body: Any, mapping: tuple[str, ...]) -> None:
    """Read as an answer without documents, it would be a finding about the ranking."""
    async with serving(one_route(lambda _request: JSONResponse(body))) as url:
        with pytest.raises(AgentFailure, match="answered with an error") as caught:
            await ask(f"{url}/s?q={{query}}", *mapping)
    assert caught.value.kind is FailureKind.AGENT_ERROR
    assert "no index" in caught.value.said
