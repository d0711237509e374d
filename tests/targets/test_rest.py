"""`rest:` targets: requests from templates, presets, streams, and what is refused before a run."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.search.conftest import running_server
from tests.targets.every_kind import DATA, answering, ask, opened, opened_target
from tests.targets.search_services import app as services
from tests.targets.search_services import best

from assay.data import load_dataset
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.outbound import OutboundPolicy
from assay.targets import open_target
from assay.targets.rest import fill_json, fill_url
from assay.targets.target_kinds import OpenContext, RequestSettings

VALUES: dict[str, str | int] = {"query": 'a "b" & c/d', "top_k": 5}
BY_GET = "rest:{url}/s?q={{query}}"
COFFEE = tuple(doc_id for doc_id, _ in best("coffee", 5))


def test_values_enter_a_url_encoded_and_a_body_as_json() -> None:
    url = fill_url("http://h/s/{query}?q={query}&n={top_k}", VALUES)
    encoded = "a%20%22b%22%20%26%20c%2Fd"
    assert url == f"http://h/s/{encoded}?q={encoded}&n=5"
    body = {"n": "{top_k}", "{query}": "{fuzzy} {{top_k}}", "l": [{"x": "{query}"}]}
    filled = {"n": 5, "{query}": "{fuzzy} {5}", "l": [{"x": 'a "b" & c/d'}]}
    assert fill_json(body, VALUES) == filled
    values = {**VALUES, "query": "{top_k} {query} $HOME ${HOME}"}
    assert fill_json("x {query}", values) == "x {top_k} {query} $HOME ${HOME}"
    assert os.environ["HOME"] not in fill_url("http://h/?q={query}", values)


@pytest.mark.parametrize(
    ("url", "settings", "words"),
    [
        ("http://h/s", {"body": "{}"}, "neither the URL nor --request contains {query}"),
        ("http://h/s?q={qeury}", {}, "{qeury} in the URL is not a placeholder"),
        ("http://{query}/s", {}, "must not be in the host"),
        ("http://h/s", {"body": '{"q": {query}}'}, "Placeholders stand inside quotes"),
        ("http://h/s", {"body": "@none.json"}, "cannot read the file: No such file"),
        ("FETCH http://h/{query}", {}, "method 'FETCH' is not one of GET, POST"),
        ("http://h/{query}", {"headers": ("X-A:",)}, "it must be 'Name: value'"),
        ("http://h/{query}", {"headers": ("X-A: $NOT_SET_1",)}, "variable NOT_SET_1, which is not"),
        ("http://h/{query}", {"headers": ("Authorization: Bearer abc",)}, ": Bearer $TOKEN'"),
        ("http://h/?q={query}&api_key=abc", {}, "'api_key=${API_KEY}'"),
        ("http://h", {"preset": "elastic", "index": "x"}, "Did you mean 'elasticsearch'?"),
        ("http://h", {"preset": "solr"}, "--preset needs an index"),
        ("http://h", {"preset": "solr", "index": "a/../b"}, "got 'a/../b'"),
    ],
)
def test_what_cannot_work_is_refused(url: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_target(f"rest:{url}", OpenContext(DATA, request=RequestSettings(**settings)))
    assert words in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("http://example.org/?q={query}", {"headers": ("X-A: $HOME",)}),
        ("http://example.org/?q={query}&k=${HOME}", {}),
        ("http://example.org/", {"body": "@/etc/hostname"}),
    ],
)
@pytest.mark.parametrize("kind", ["rest", "openai"])
def test_strangers_read_nothing_here(kind: str, url: str, settings: dict[str, Any]) -> None:
    policy = OutboundPolicy(("example.org",), public_only=True)
    context = OpenContext(DATA, policy=policy, request=RequestSettings(**settings))
    with pytest.raises(UsageError, match="server"):
        open_target(f"{kind}:{url}", context)


@pytest.mark.parametrize("place", ["{{query}}", "{{query}}&size={{top_k}}"])
async def test_a_search_by_get_is_cut_unless_it_was_told_how_many(place: str) -> None:
    mapping = ("ids=hits.hits[]._id", "scores=hits.hits[]._score")
    answer = await ask(services, f"rest:{{url}}/docs/_search?q={place}", *mapping)
    assert answer.doc_ids == COFFEE
    assert len(answer.scores) == 5


async def test_a_body_from_a_file_is_sent_by_post_with_headers_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "s3cret-value")
    seen: list[tuple[str, str, str]] = []

    def answer(_body: Any, request: Request) -> Response:
        seen.append((request.method, request.headers["authorization"], request.headers["x-a"]))
        return JSONResponse({"ids": ["d1"]})

    body = tmp_path / "body.json"
    body.write_text('{"q": "{query}"}')
    headers = ("Authorization: Bearer $SEARCH_TOKEN", "X-A: ${SEARCH_TOKEN}$1")
    for method in ("", "put "):
        target = f"rest:{method}{{url}}/s"
        found = await ask(answering(answer), target, body=f"@{body}", headers=headers)
        assert found.doc_ids == ("d1",)
    sent = ("Bearer s3cret-value", "s3cret-value$1")
    assert seen == [("POST", *sent), ("PUT", *sent)]


@pytest.mark.parametrize("preset", ["elasticsearch", "opensearch", "solr", "vespa"])
async def test_a_preset_finds_the_documents_in_the_recorded_shape(preset: str) -> None:
    async with opened(services, "rest:{url}/", preset=preset, index="docs") as agent:
        assert (await agent.ask("coffee", 5)).doc_ids == COFFEE
        assert f"preset {preset}" in agent.info.details


@pytest.mark.slow
async def test_the_preset_for_qdrant_works_with_the_real_server(tmp_path: Path) -> None:
    data = load_dataset("notes")
    documents = list(data.documents.values())[:40]
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
        settings = RequestSettings(preset="qdrant", index="docs")
        context = OpenContext(data, request=settings)
        async with opened_target(f"rest:{server.url}", context) as agent:
            answer = await agent.ask(documents[7].full_text[:200], 3)
    assert answer.doc_ids[0] == documents[7].id
    assert len(answer.scores) == len(answer.doc_ids) <= 3


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
        (ONE_EVENT, "text/event-stream", ("ids=[].sources[].doc", "answer=[].text | [0]")),
        (LINES, "text/plain", ('ids=re:"hit": "(.)"', 'answer=re:"said": "([^"]+)"')),
    ],
    ids=["events", "one event", "lines by pattern"],
)
async def test_a_stream_is_a_list(body: str, kind: str, mapping: tuple[str, ...]) -> None:
    answer = await ask(answering(Response(body, media_type=kind)), BY_GET, *mapping)
    assert (answer.doc_ids, answer.answer) == (("a", "b"), "It is so.")


@pytest.mark.parametrize(
    ("body", "mapping"),
    [
        ({"errors": [{"message": "no index"}], "data": None}, ("ids=data.notes[].id",)),
        ({"error": "no index", "results": []}, ()),
    ],
)
async def test_an_error_with_status_200_is_an_error(body: Any, mapping: tuple[str, ...]) -> None:
    """Read as an answer without documents, it would be a finding about the ranking."""
    with pytest.raises(AgentFailure, match="answered with an error") as caught:
        await ask(answering(JSONResponse(body)), BY_GET, *mapping)
    assert caught.value.kind is FailureKind.AGENT_ERROR
    assert "no index" in caught.value.said
