"""The recorder of searches: every search belongs to its question, whatever the agent speaks."""

import json
import socket
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from tests.evaluation.searching_agents import (
    DATASET,
    SIZE,
    SearchingService,
    over_mcp,
    over_rest,
    queries_of,
)
from tests.serve.serving import serving

from assay.data.dataset import Dataset, Query
from assay.errors import UsageError
from assay.evaluation.evaluation import Events, run_evaluation
from assay.evaluation.recorder import ADDRESS_VARIABLE, MAX_QUERY, SearchRefused, open_recorder
from assay.evaluation.run import Run
from assay.report.terminal import search_lines
from assay.run.config import RunConfig
from assay.serve.mcp.server import mcp_app
from assay.serve.retrieval import Retrieval, open_retrieval
from assay.steps import MAX_STEPS, StepLog
from assay.targets.python_call import as_agent

BODY = json.dumps(
    {"q": "{query}", "search_url": "{search_url}", "mcp_server_url": "{mcp_server_url}"}
)
TARGETS = {
    "a2a": {"target": "a2a:{url}"},
    "contract": {"target": "http:{url}=RAG_RETRIEVE"},
    "rest": {"target": "rest:{url}/search", "request": BODY},
}


@pytest.fixture
def recorder_address(monkeypatch: pytest.MonkeyPatch) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv(ADDRESS_VARIABLE, address)
    return address


def config(target: str, **changes: Any) -> RunConfig:
    settings = {"dataset": "tiny", "search": "builtin:bm25", "top_k": 2, "warm_up": 5.0}
    return RunConfig(target=target, **{**settings, **changes})


async def run(settings: RunConfig, out: Path, said: list[str] | None = None, **more: Any) -> Run:
    events = Events(message=(said if said is not None else []).append)
    return await run_evaluation(settings, DATASET, out=out, events=events, **more)


async def run_function(function: Any, out: Path, **settings: Any) -> Run:
    agent = as_agent(function, name="python:find")
    return await run(config("python:m:find", **settings), out, agent=agent)


def recording(dataset: Dataset = DATASET, **changes: Any) -> AbstractAsyncContextManager[Any]:
    settings = config("rest:http://127.0.0.1:1/x?q={query}", **changes)
    return open_recorder(settings, dataset, lambda _message: None)


def check_attribution(found: Run, source: str) -> None:
    """Every question has its own two searches, and nothing else."""
    log = StepLog(found.folder / "steps.jsonl")
    for query in DATASET.queries.values():
        steps = log.read(query.id)
        assert [step.query for step in steps] == queries_of(query.text)
        assert {step.source for step in steps} == {source}
    search = found.report.search
    assert search is not None
    assert (search.attribution, search.unattributed, search.questions) == (source, 0, SIZE)
    assert search.calls.mean == 2
    assert search.figures["evidence_recall"].mean == 1


@pytest.mark.parametrize(
    ("kind", "mcp"),
    [("a2a", False), ("a2a", True), ("rest", False), ("rest", True), ("contract", False)],
)
async def test_concurrent_questions_stay_apart(kind: str, mcp: bool, tmp_path: Path) -> None:
    async with serving(SearchingService(mcp=mcp).app) as url:
        settings = {name: value.replace("{url}", url) for name, value in TARGETS[kind].items()}
        found = await run(config(**settings, concurrency=8), tmp_path)
    assert found.report.metrics["ndcg@2"] == 1
    check_attribution(found, "token")


async def test_a_fixed_tool_is_known_by_its_trace(tmp_path: Path, recorder_address: str) -> None:
    service = SearchingService(fixed=f"{recorder_address}/search", traces=True)
    async with serving(service.app) as url:
        found = await run(config(f"mcp:{url}/mcp#find", concurrency=8), tmp_path)
    check_attribution(found, "traceparent")


async def test_without_a_trace_questions_come_singly(tmp_path: Path, recorder_address: str) -> None:
    said: list[str] = []
    service = SearchingService(fixed=f"{recorder_address}/search", strict=True)
    async with serving(service.app) as url:
        found = await run(config(f"a2a:{url}", concurrency=8), tmp_path, said)
    check_attribution(found, "one at a time")
    assert any("refuses a request with search_url" in message for message in said)
    assert any("asking one at a time" in message for message in said)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_gets_the_search_as_a_keyword(is_async: bool, tmp_path: Path) -> None:
    def find(query: str, top_k: int, search: Any) -> list[str]:
        return [hit["doc_id"] for text in queries_of(query) for hit in search(text, top_k=3)]

    async def afind(query: str, top_k: int, search: Any) -> list[str]:
        found = [await search(text, top_k=3) for text in queries_of(query)]
        return [hit["doc_id"] for hits in found for hit in hits]

    found = await run_function(afind if is_async else find, tmp_path)
    check_attribution(found, "token")


async def test_an_agent_that_never_stops_is_bounded(tmp_path: Path) -> None:
    refused = []

    async def find(query: str, top_k: int, search: Any) -> list[str]:
        for _ in range(10 * MAX_STEPS if query == "word1" else 0):
            try:
                await search("word2", top_k=1)
            except SearchRefused as refusal:
                refused.append(refusal.status)
        while query == "word2":  # its time limit ends it, although nothing in it waits
            with suppress(SearchRefused):
                await search("")
        return []

    found = await run_function(find, tmp_path, timeout=3, retries=0, concurrency=1)
    assert refused == [429] * 9 * MAX_STEPS
    assert len(StepLog(found.folder / "steps.jsonl").read("q1")) == MAX_STEPS
    assert found.report.failures == {"timeout": 1}
    search = found.report.search
    assert search is not None
    assert search.calls.max == MAX_STEPS
    assert search.searched == 1


async def test_the_address_refuses_what_it_cannot_search() -> None:
    async with recording() as recorder:
        async with recorder.question(Query("q1", "word1")) as session:
            url = f"{recorder.url}/q/{session.token}/search"
            async with httpx.AsyncClient() as http:

                async def status(**request: Any) -> int:
                    return (await http.post(url, **request)).status_code

                assert await status(content=b"{") == 400
                assert await status(json=["word1"]) == 422
                assert await status(json={"query": "x" * (MAX_QUERY + 1)}) == 422
                assert await status(json={"query": "word1", "top_k": 0}) == 422
                assert await status(content=b"x" * 10_000_000) == 413
                assert await status(json={"query": "word1"}) == 200
            async with Client(f"{recorder.url}/q/{session.token}/mcp") as client:
                for tool, query in (("search", ""), ("fetch", "word1")):
                    assert (await client.call_tool(tool, {"query": query})).is_error
        async with httpx.AsyncClient() as http:
            assert (await http.post(url, json={"query": "word1"})).status_code == 404
        assert [step.query for step in session.steps] == ["word1"]


async def test_two_fixed_agents_at_once_are_counted_as_unattributed() -> None:
    async with recording() as recorder:
        async with (
            recorder.question(Query("q1", "a")) as one,
            recorder.question(Query("q2", "b")) as two,
        ):
            assert await over_rest(f"{recorder.url}/search")("word1") == ["d1"]
            assert await over_mcp(f"{recorder.url}/mcp")("word2") == ["d2"]
        assert (one.steps, two.steps, recorder.unattributed) == ([], [], 2)


async def test_a_search_with_another_trace_is_not_credited() -> None:
    stranger = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    async with recording() as recorder:
        async with recorder.question(Query("q1", "a")) as session:
            await over_rest(f"{recorder.url}/search", stranger)("word1")
            kept = recorder.search
            with pytest.raises(SearchRefused, match="query must be"):
                await kept(session, "token", "\ud800")
            assert (session.steps, recorder.unattributed) == ([], 1)
            meta: Any = {"traceparent": f"00-{session.trace_id}-{'cd' * 8}-01"}
            async with Client(f"{recorder.url}/mcp") as client:
                await client.call_tool("search", {"query": "word1"}, meta=meta)
        assert [step.source for step in session.steps] == ["traceparent"]
        with pytest.raises(SearchRefused, match="this question has ended"):
            await kept(session, "token", "word1")


async def test_an_mcp_tool_behind_the_recorder_is_passed_through() -> None:
    server: MCPServer[Any] = MCPServer("library")

    @server.tool()
    async def lookup(question: str, language: str = "en") -> dict[str, Any]:
        return {"hits": [{"id": "d1", "note": language}], "took": 3}

    async with (
        serving(server.streamable_http_app()) as url,
        recording(search=f"mcp:{url}/mcp#lookup") as recorder,
        recorder.question(Query("q1", "word1")) as session,
        Client(f"{recorder.url}/q/{session.token}/mcp") as client,
    ):
        (tool,) = (await client.list_tools()).tools
        arguments = {"question": "word1", "language": "de"}
        result = await client.call_tool("search", arguments)
    assert set(tool.input_schema["properties"]) == {"question", "language"}
    assert result.structured_content == {"hits": [{"id": "d1", "note": "de"}], "took": 3}
    (step,) = session.steps
    assert (step.query, step.doc_ids) == ("word1", ("d1",))
    assert step.bytes > 0


async def test_nfcorpus_has_the_tool_of_its_specification() -> None:
    nfcorpus = replace(DATASET, name="nfcorpus")
    async with recording(nfcorpus) as recorder, Client(f"{recorder.url}/mcp") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("search_nfcorpus", {"query": "word1", "top_k": 1})
    assert names == ["search", "search_nfcorpus"]
    assert result.structured_content is not None
    (hit,) = result.structured_content["results"]
    assert (hit["doc_id"], hit["text"]) == ("d1", "word1")


async def test_an_address_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("9020", "http://127.0.0.1:99999", "https://127.0.0.1:9020"):
        monkeypatch.setenv(ADDRESS_VARIABLE, address)
        with pytest.raises(UsageError, match="ASSAY_RECORDER must be like"):
            async with recording():
                pass


@pytest.mark.parametrize("place", ["none.jsonl", "http://127.0.0.1:1/searches.jsonl"])
async def test_a_record_of_searches_has_to_be_there(place: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="with: assay serve mcp --record"):
        await run_function(lambda query, top_k: [], tmp_path, search="", searches=place)


@pytest.mark.parametrize(
    ("place", "traces"), [("file", True), ("ranges", True), ("ranges", False), ("whole", False)]
)
async def test_a_running_server_can_record(place: str, traces: bool, tmp_path: Path) -> None:
    """Read as a file or from an address, which may know no ranges; what was there before is not
    credited."""
    record = tmp_path / "searches.jsonl"
    record.write_text('{"query": "from before", "ids": ["d1"]}\n')

    async def load(_progress: Any) -> Retrieval:
        return open_retrieval(DATASET, "bm25")

    async def served(_request: Request) -> Response:
        return FileResponse(record) if place == "ranges" else Response(record.read_bytes())

    files = Starlette(routes=[Route("/s.jsonl", served)])
    async with serving(mcp_app(load, record=record)) as tool, serving(files) as address:
        service = SearchingService(fixed=f"{tool}/search_nfcorpus", traces=traces)
        async with serving(service.app) as url:
            searches = str(record) if place == "file" else f"{address}/s.jsonl"
            settings = config(f"a2a:{url}", search="", searches=searches, concurrency=4)
            found = await run(settings, tmp_path / "runs")
    check_attribution(found, "traceparent" if traces else "one at a time")


@pytest.mark.usefixtures("recorder_address")
async def test_a_second_run_does_not_share_the_address_of_another() -> None:
    async with recording():
        with pytest.raises(UsageError, match=r"port \d+ is taken .* ASSAY_RECORDER="):
            async with recording():
                pass


async def test_a_search_service_needs_no_place_for_the_query() -> None:
    asked: list[Any] = []

    async def search(request: Request) -> Response:
        asked.append(await request.json())
        found = [{"doc_id": "d1"}] if request.url.path == "/good" else {"n": 1}
        return JSONResponse({"results": found})

    app = Starlette(routes=[Route("/{path}", search, methods=["POST"])])
    async with serving(app) as url:
        async with recording(search=f"rest:{url}/good") as recorder:
            assert (await over_rest(f"{recorder.url}/search")("word1")) == ["d1"]
        assert asked[-1] == {"query": "word1", "top_k": 3}
        with pytest.raises(UsageError, match=r"no list of documents.* --map is about the agent"):
            async with recording(search=f"rest:{url}/bad"):
                pass


def broken(query: str, top_k: int) -> list[str]:
    if query == "word3":
        raise RuntimeError("no index")
    return ["d1"]


async def test_failed_searches_and_what_was_used_are_counted(tmp_path: Path) -> None:
    refused: list[str] = []

    async def find(query: str, top_k: int, search: Any) -> dict[str, Any]:
        try:
            found = [hit["doc_id"] for hit in await search(query)]
        except SearchRefused as refusal:
            refused.append(str(refusal))
            found = []
        return {"doc_ids": found, "usage": {"input_tokens": 100, "cost_usd": 0.01}}

    tool = "python:tests.evaluation.test_recorder:broken"
    found = await run_function(find, tmp_path, search=tool)
    search = found.report.search
    assert search is not None
    assert search.failed == 1
    assert all("the search tool failed" in each for each in refused)
    assert search.usage == {"input_tokens": 100 * SIZE, "cost_usd": pytest.approx(0.01 * SIZE)}
    shown = " ".join(f"{name} {text}" for name, text in search_lines(search))
    assert "1 search failed" in shown
    assert "usage 100 input tokens, $0.01" in shown


async def test_only_the_last_attempt_at_a_question_counts(tmp_path: Path) -> None:
    first: dict[str, Any] = {}

    async def find(query: str, top_k: int, search: Any) -> list[str]:
        if query not in first:
            first[query] = search
            await search("word0")
            raise ConnectionError("reset")
        with pytest.raises(SearchRefused, match="this question has ended"):
            await first[query]("word0")
        return [hit["doc_id"] for hit in await search(query)]

    found = await run_function(find, tmp_path, num_queries=2)
    log = StepLog(found.folder / "steps.jsonl")
    rows = list(found.rows())
    assert [[step.query for step in log.read(row.query_id)] for row in rows] == [
        [row.query_text] for row in rows
    ]
