"""No log, no error and no traceback of any server repeats what was sent to it.

Every server gets a canary through every endpoint, in requests that are valid and in ones that are
broken, while every logger of every library is at DEBUG.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from tests.contract_agents.sample_agents import make_resources
from tests.phi.calling import HEADERS, Caller, expect_silence, expect_silent_log, send_raw
from tests.phi.recording import CANARY, Recording, asking
from tests.serve.serving import NEW, request_0_3, request_1_0, serving
from tests.serve_mcp.serving import make_retrieval

from assay.data import Dataset, Document, Query
from assay.net.outbound import UNRESTRICTED
from assay.progress import Progress
from assay.serve.contract_agents.apps import TASKS, agents_app, path_of
from assay.serve.green.agent import green_app
from assay.serve.mcp.app import mcp_app
from assay.serve.purple import Find, purple_app
from assay.serve.request_log import RequestLog
from assay.serve.retrieval import Retrieval
from assay.serve.ui.app import ui_app

# --- the contract agents -------------------------------------------------------------------------

PACK = {"chunks": [{"chunk_id": "c", "text": f"{CANARY} slept well."}]}
INPUTS: dict[str, list[dict[str, Any]]] = {
    "RAG_RETRIEVE": [
        {"query": CANARY},
        {"query": CANARY, "metadataFilters": {CANARY: CANARY}},
        {"query": CANARY, "where": {CANARY: [CANARY, 7]}},
        {"query": CANARY, "knowledgeBase": CANARY},
        {"query": CANARY, "topK": CANARY},
        {"query_text": [CANARY]},
    ],
    "RAG_ANSWER": [{"query": f"Did {CANARY} sleep?"}, {"query": {CANARY: CANARY}}],
    "RAG_INGEST": [
        {
            "documents": [{"docId": CANARY, "title": CANARY, "text": f"{CANARY} slept."}],
            "knowledgeBase": "ward",
        },
        {"documents": [{"docId": CANARY, "text": ""}], "knowledgeBase": "ward"},
        {"documents": [{"docId": [CANARY], "text": CANARY}], "knowledgeBase": "ward"},
        {"documents": [{"docId": "a", "text": CANARY}], "knowledgeBase": f"{CANARY}/.."},
        {"documents": CANARY, "knowledgeBase": CANARY},
    ],
    "LIT_RETRIEVAL": [
        {"query": CANARY, "databases": ["index", "pubmed"]},
        {"query": CANARY, "databases": [CANARY]},
        {"query": CANARY * 100},
    ],
    "POLICY_REVIEW": [
        {"resource_id": "r", "note": f"{CANARY}@example.org, MRN 1234567"},
        {"resource_id": [CANARY]},
    ],
    "CLAIM_VERIFY": [
        {"claims": [f"{CANARY} slept well."], "groundingPack": PACK},
        {"claims": [CANARY], "groundingPack": CANARY},
        {"claims": [{CANARY: CANARY}], "groundingPack": PACK, "strictness": CANARY},
    ],
}


def body(number: int, task: str, inputs: Any, **fields: Any) -> dict[str, Any]:
    return {"request_id": f"r{number}", "task_type": task, "inputs": inputs, **fields}


@pytest.mark.parametrize("task", TASKS)
async def test_contract_agents(
    task: str, log: Recording, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    resources = make_resources(tmp_path / "bases")
    async with serving(agents_app(TASKS, resources)) as url:
        caller = Caller(http, url + path_of(task), [])
        await _all_of(caller, task)
        await caller.strange(["/agents/run/sync", "/agents/run/stream"])
    expect_silence(log, caller.errors, 20)


async def _all_of(caller: Caller, task: str) -> None:
    number = 0
    for way in ("/agents/run/sync", "/agents/run/stream"):
        for inputs in INPUTS[task]:
            number += 1
            await caller.post(way, body(number, task, inputs))
            await caller.post(way, body(number, task, inputs, mode=CANARY))  # the id is taken
        for more in (
            {"task_type": CANARY},
            {"budgets": {"timeout_ms": CANARY}},
            {"inputs": CANARY},
            {"user_id": CANARY, "domain_id": CANARY, "workflow_id": CANARY},
        ):
            number += 1
            await caller.post(way, {**body(number, task, {CANARY: CANARY}), **more})


# --- searching that breaks with the query in its hands ----------------------------------------


class Leaky:
    """As bad as a library can be."""

    def search(self, query: str, top_k: int = 10, **_: Any) -> Any:
        try:
            raise KeyError(query)
        except KeyError as error:
            raise RuntimeError(f"cannot search for {query}") from error


async def leaky_retrieval(_progress: Progress) -> Retrieval:
    good = make_retrieval()
    return Retrieval(good.dataset, Leaky(), good.mode)


async def test_agents_whose_search_breaks(
    log: Recording, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    resources = make_resources(tmp_path, load=leaky_retrieval)
    async with serving(agents_app(TASKS, resources)) as url:
        caller = Caller(http, url, [])
        for number, task in enumerate(("RAG_RETRIEVE", "RAG_ANSWER", "LIT_RETRIEVAL")):
            for way in ("sync", "stream"):
                request = body(number, task, {"query": CANARY})
                await caller.post(f"{path_of(task)}/agents/run/{way}", request)
    expect_silence(log, caller.errors, 6)
    assert "RuntimeError" in log.ours.getvalue()


# --- the purple agent ----------------------------------------------------------------------------


async def _find(query: str, _top_k: int) -> list[str]:
    if "break" in query:
        raise RuntimeError(f"cannot search for {query}")
    return ["MED-1"]


async def _load_find(_progress: Progress) -> Find:
    return _find


def a2a_messages() -> list[dict[str, Any]]:
    contents = [
        {"query": CANARY},
        {"query": f"break {CANARY}"},
        {"query": [CANARY], "top_k": CANARY},
        {CANARY: CANARY},
        {"participants": {"retrieval_agent": f"http://127.0.0.1:9/{CANARY}"}},
        {"participants": {CANARY: CANARY}, "config": {CANARY: CANARY}},
        {"participants": {"retrieval_agent": CANARY}, "config": {"num_queries": CANARY}},
        CANARY,
    ]
    made = []
    for content in contents:
        for as_data in (False, True) if isinstance(content, dict) else (False,):
            made += [
                request_1_0(content, as_data=as_data),
                request_1_0(content, "SendStreamingMessage", as_data=as_data),
                request_0_3(content, as_data=as_data),
                request_0_3(content, "message/stream", as_data=as_data),
            ]
    spoiled = request_1_0("{}")
    spoiled["params"]["message"]["parts"] = [{"text": {"x": CANARY}}]
    old = request_0_3("{}")
    old["params"]["message"]["parts"] = [{"kind": CANARY, "text": CANARY}]
    unknown = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": CANARY}}
    return [*made, spoiled, old, unknown, {**unknown, "method": "GetTask"}]


async def _send_a2a(caller: Caller) -> None:
    for message in a2a_messages():
        await caller.post("/", message)
        await caller.post("/", message, **NEW)
    for path in ("/a2a/rest/message:send", "/a2a/rest/v1/message:send"):
        await caller.post(path, {"message": {"parts": CANARY, "content": CANARY}})


@pytest.mark.slow
async def test_purple(log: Recording, http: httpx.AsyncClient) -> None:
    async with serving(purple_app(_load_find)) as url:
        caller = Caller(http, url, [])
        await _send_a2a(caller)
        await caller.strange(["/", "/a2a/rest/message:send", "/.well-known/agent-card.json"])
        await caller.get(f"/a2a/rest/tasks/{CANARY}")
    expect_silent_log(log)


# --- the green agent -----------------------------------------------------------------------------


@asynccontextmanager
async def green(tmp_path: Path) -> AsyncIterator[str]:
    dataset = Dataset(
        "tiny",
        {"d1": Document("d1", "", "word")},
        {"q1": Query("q1", f"word {CANARY}")},
        {"test": {"q1": {"d1": 1}}},
    )

    async def load(_progress: Progress) -> Dataset:
        return dataset

    app = green_app(load, source="tiny", out=tmp_path / "runs", policy=UNRESTRICTED)
    async with serving(app) as url:
        yield url


@pytest.mark.slow
async def test_green(log: Recording, http: httpx.AsyncClient, tmp_path: Path) -> None:
    async with green(tmp_path) as url, serving(purple_app(_load_find)) as agent:
        caller = Caller(http, url, [])
        await _send_a2a(caller)
        order = {"participants": {"retrieval_agent": agent}, "config": {"num_queries": 1}}
        started = json.loads(await caller.post("/tasks", order))
        await caller.get(f"/tasks/{started['id']}/events")
        for path in (f"/tasks/{CANARY}", f"/tasks/{CANARY}/events"):
            await caller.get(path)
        await caller.get(f"/tasks/{CANARY}", "DELETE")
        for config in ({"top_k": CANARY}, {"random_seed": [CANARY]}, CANARY):
            await caller.post("/tasks", {**order, "config": config})
        await caller.strange(["/", "/tasks"])
    expect_silent_log(log)


# --- MCP and REST --------------------------------------------------------------------------------


async def load_good(_progress: Progress) -> Retrieval:
    return make_retrieval()


MCP_HEADERS: Mapping[str, str] = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("load", [load_good, leaky_retrieval], ids=["good", "leaky"])
async def test_mcp_and_rest(
    load: Callable[[Progress], Awaitable[Retrieval]], log: Recording, http: httpx.AsyncClient
) -> None:
    errors: list[str] = []
    async with serving(mcp_app(load)) as url:
        caller = Caller(http, url, [])
        for version in ("legacy", "2026-07-28"):
            with asking():
                errors += await _mcp_errors(url, version)
        for method in ("tools/call", "resources/read", "prompts/get", "initialize", CANARY):
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": CANARY}}
            await caller.post("/mcp", call, **MCP_HEADERS)
            await caller.post("/mcp", call, **MCP_HEADERS, **{"MCP-Protocol-Version": "2026-07-28"})
            await caller.post("/mcp", call, **MCP_HEADERS, **{"Mcp-Session-Id": CANARY})
        await caller.post("/search_nfcorpus", {"query": CANARY, "top_k": 3})
        await caller.post("/search_nfcorpus", {"query": CANARY, "top_k": CANARY})
        await caller.strange(["/mcp", "/search_nfcorpus", "/stats", "/health_check"])
        await caller.post("/mcp", b"{}", Host=f"{CANARY}.example")
    expect_silence(log, errors, 20)


async def _mcp_errors(url: str, version: str) -> list[str]:
    """Through the real client."""
    found: list[str] = []
    async with Client(f"{url}/mcp", mode=version) as client:
        for tool in ("search_nfcorpus", "nc_semantic_search", "nc_semantic_search_answer", CANARY):
            for arguments in ({"query": CANARY}, {"query": [CANARY]}, {CANARY: CANARY}):
                try:
                    result = await client.call_tool(tool, arguments)
                except MCPError as error:
                    found.append(str(error).replace(repr(tool), "*"))
                    continue
                if result.is_error:
                    found.append(str(result.content))
        for ask in (client.read_resource(f"doc://{CANARY}"), client.get_prompt(CANARY, {})):
            try:
                await ask
            except MCPError as error:
                found.append(str(error))
    return found


# --- the web pages -------------------------------------------------------------------------------


async def test_pages(log: Recording, http: httpx.AsyncClient, tmp_path: Path) -> None:
    """Pages show a query to whoever typed it; logs and refusals do not."""
    async with serving(ui_app(tmp_path / "runs", dataset="notes")) as url:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": url}
        pages = (f"/search?q={CANARY}", f"/runs/{CANARY}", f"/compare?a={CANARY}&b={CANARY}")
        sent = f"token={CANARY}&target={CANARY}&url={CANARY}".encode()
        with asking():
            for page in pages:
                await http.get(url + page, headers=HEADERS)
            for path in ("/login", "/check", "/evaluations", "/start"):
                await http.post(url + path, content=sent, headers={**HEADERS, **form})
        await send_raw(url, f"GET /{CANARY} {CANARY}\r\n\r\n".encode())
    assert log.leaks(log.ours.getvalue()) == []
    assert log.leaks(log.raw.getvalue()) == []
    assert "assay.serve.requests" in log.ours.getvalue()


# --- what libraries say when something of ours breaks ------------------------------------------


async def _breaks(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await Starlette()(scope, receive, send)
        return
    asyncio.get_running_loop().call_soon(_fail_in_a_callback, CANARY)
    raise RuntimeError(CANARY)


def _fail_in_a_callback(text: str) -> None:
    raise KeyError(text)


async def test_an_exception_is_logged_by_its_class(log: Recording, http: httpx.AsyncClient) -> None:
    async with serving(RequestLog(_breaks)) as url:
        with asking():
            answer = await http.get(url)
    assert answer.status_code == 500
    assert CANARY not in answer.text
    for text in (log.ours.getvalue(), log.raw.getvalue()):
        assert log.leaks(text) == []
        assert "Exception in ASGI application (RuntimeError)" in text
        assert "(KeyError)" in text


@pytest.mark.parametrize("header", [f"{CANARY} b", f"{CANARY}?", f"{CANARY}@x", CANARY * 20])
async def test_a_request_id_that_is_none_is_replaced(
    header: str, log: Recording, http: httpx.AsyncClient
) -> None:
    async with serving(purple_app(_load_find)) as url:
        with asking():
            answer = await http.get(f"{url}/health", headers={"X-Request-ID": header})
    assert CANARY not in answer.headers["x-request-id"]
    assert log.leaks(log.ours.getvalue()) == []
