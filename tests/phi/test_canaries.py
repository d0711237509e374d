"""No log, no error and no traceback of any server repeats what was sent to it.

Every server gets a canary through every endpoint, in requests that are valid and in ones that are
broken, while every logger of every library is at DEBUG.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError
from starlette.types import ASGIApp
from tests.contract_agents.sample_agents import make_knowledge
from tests.phi.recording import CANARY, Recording, asking
from tests.serve.serving import NEW, finds, request_0_3, request_1_0, serving
from tests.serve_mcp.serving import make_retrieval

from assay.data import Dataset, Document, Query
from assay.net.outbound import UNRESTRICTED
from assay.progress import Progress
from assay.search.retriever import Retriever
from assay.serve.contract_agents.apps import TASKS, agents_app
from assay.serve.green.agent import green_app
from assay.serve.mcp.server import mcp_app
from assay.serve.purple import purple_app
from assay.serve.retrieval import Retrieval
from assay.serve.ui.app import ui_app

Sent = tuple[str, str, Any, dict[str, str]]
"""Method, path, body and headers."""

HEADERS = {"X-Patient": CANARY, "User-Agent": CANARY, "Referer": f"http://x/?q={CANARY}"}
BROKEN: list[bytes] = [
    CANARY.encode(),
    f'{{"query": "{CANARY}'.encode(),
    f'["{CANARY}"]'.encode(),
    f'"{CANARY}"'.encode(),
    CANARY.encode() + b"\xff\xfe",
    json.dumps({CANARY: {CANARY: [CANARY]}}).encode(),
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": CANARY, "params": [CANARY]}).encode(),
]


# --- what servers search with, well or with the query in an exception -----------------------------


class Leaky(Retriever):
    def __init__(self) -> None: ...

    def search(self, query: str, top_k: int = 10, **_: Any) -> Any:
        try:
            raise KeyError(query)
        except KeyError as error:
            raise RuntimeError(f"cannot search for {query}") from error


async def leaky_retrieval(_progress: Progress) -> Retrieval:
    good = make_retrieval()
    return Retrieval(good.dataset, Leaky(), good.mode)


async def good_retrieval(_progress: Progress) -> Retrieval:
    return make_retrieval()


async def find_or_break(query: str) -> list[str]:
    if "break" in query:
        raise RuntimeError(f"cannot search for {query}")
    return ["MED-1"]


async def load_dataset(_progress: Progress) -> Dataset:
    documents = {"d1": Document("d1", "", "word")}
    queries = {"q1": Query("q1", f"word {CANARY}")}
    return Dataset("tiny", documents, queries, {"test": {"q1": {"d1": 1}}})


def purple(_folder: Path) -> ASGIApp:
    return purple_app(finds(find_or_break))


def green(folder: Path) -> ASGIApp:
    return green_app(load_dataset, source="tiny", out=folder / "runs", policy=UNRESTRICTED)


# --- what they are sent ---------------------------------------------------------------------------

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
    "RAG_INGEST": [
        {"documents": [{"docId": CANARY, "text": f"{CANARY} slept."}], "knowledgeBase": "ward"},
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
WAYS = ("/agents/run/sync", "/agents/run/stream")


def contract_requests(task: str) -> Iterator[Sent]:
    valid = {"request_id": "r1", "task_type": task}
    wrong: list[dict[str, Any]] = [
        {"task_type": CANARY, "inputs": {CANARY: CANARY}},
        {"budgets": {"timeout_ms": CANARY}},
        {"inputs": CANARY},
        {"user_id": CANARY, "domain_id": CANARY, "mode": CANARY, "inputs": {CANARY: CANARY}},
        {"request_id": f"{CANARY}\n"},
    ]
    for way in WAYS:
        for more in (*({"inputs": inputs} for inputs in INPUTS[task]), *wrong):
            yield "POST", way, {**valid, **more}, {}


def a2a_requests() -> Iterator[Sent]:
    contents: list[Any] = [
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
    spoiled, old = request_1_0("{}"), request_0_3("{}")
    spoiled["params"]["message"]["parts"] = [{"text": {"x": CANARY}}]
    old["params"]["message"]["parts"] = [{"kind": CANARY, "text": CANARY}]
    unknown = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": CANARY}}
    for message in (*made, spoiled, old, unknown, {**unknown, "method": "GetTask"}):
        yield "POST", "/", message, {}
        yield "POST", "/", message, NEW


def green_requests() -> Iterator[Sent]:
    yield from a2a_requests()
    for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", "")):
        yield method, f"/tasks/{CANARY}{path}", None, {}
    for config in ({"top_k": CANARY}, {"random_seed": [CANARY]}, CANARY):
        order = {"participants": {"retrieval_agent": "http://127.0.0.1:9"}, "config": config}
        yield "POST", "/tasks", order, {}


def mcp_requests() -> Iterator[Sent]:
    kinds = {"Accept": "application/json, text/event-stream"}
    for method in ("tools/call", "resources/read", "prompts/get", "initialize", CANARY):
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": CANARY}}
        yield "POST", "/mcp", call, kinds
        yield "POST", "/mcp", call, {**kinds, "MCP-Protocol-Version": "2026-07-28"}
        yield "POST", "/mcp", call, {**kinds, "Mcp-Session-Id": CANARY}
    for top_k in (3, CANARY):
        yield "POST", "/search_nfcorpus", {"query": CANARY, "top_k": top_k}, {}
    yield "POST", "/mcp", b"{}", {"Host": f"{CANARY}.example"}


def ui_requests() -> Iterator[Sent]:
    for page in (f"/?q={CANARY}", f"/runs/{CANARY}", f"/compare?a={CANARY}&b={CANARY}"):
        yield "GET", page, None, {}
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost"}
    for path in ("/login", "/evaluate", "/chosen", "/start"):
        yield "POST", path, f"token={CANARY}&target={CANARY}&url={CANARY}".encode(), form


@dataclass(frozen=True)
class Server:
    """`quotes`: to its own caller alone, it quotes what does not parse, or shows what was typed."""

    app: Callable[[Path], ASGIApp]
    requests: Callable[[], Iterator[Sent]]
    paths: tuple[str, ...]
    quotes: bool = False


def agent(task: str, **options: Any) -> Server:
    return Server(
        lambda folder: agents_app([task], make_knowledge(folder / "bases", **options)),
        lambda: contract_requests(task),
        WAYS,
    )


A2A_PATHS = ("/", "/.well-known/agent-card.json")
MCP_PATHS = ("/mcp", "/search_nfcorpus", "/stats", "/health_check")
SERVERS = {
    **{task: agent(task) for task in TASKS},
    "RAG_RETRIEVE, broken": agent("RAG_RETRIEVE", load=leaky_retrieval),
    "LIT_RETRIEVAL, broken": agent("LIT_RETRIEVAL", load=leaky_retrieval),
    "purple": Server(purple, a2a_requests, A2A_PATHS, quotes=True),
    "green": Server(green, green_requests, (*A2A_PATHS, "/tasks"), quotes=True),
    "mcp": Server(lambda _: mcp_app(good_retrieval), mcp_requests, MCP_PATHS, quotes=True),
    "mcp, broken": Server(lambda _: mcp_app(leaky_retrieval), mcp_requests, MCP_PATHS, quotes=True),
    "ui": Server(lambda folder: ui_app(folder / "runs"), ui_requests, (), quotes=True),
}


# --- sending it, and what must not come back ------------------------------------------------------


@dataclass
class Caller:
    """Sends, and keeps what came back if it was an error."""

    http: httpx.AsyncClient
    url: str
    errors: list[str] = field(default_factory=list)

    async def send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> str:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **HEADERS, **headers}
        with asking():
            answer = await self.http.request(method, self.url + path, content=content, headers=sent)
        said = any(mark in answer.text for mark in ('"ok":false', '"error":', '"isError":true'))
        if answer.status_code >= 400 or said:
            shown = path.replace(CANARY, "*")
            self.errors.append(f"{shown} {answer.text} {dict(answer.headers)}")
        return answer.text

    async def send_strange(self, paths: tuple[str, ...]) -> None:
        """What every server may be sent: wrong paths, methods, queries and bodies."""
        for path in paths:
            for body in BROKEN:
                await self.send("POST", path, body, {})
            await self.send("POST", path, b"x=" + CANARY.encode(), {"Content-Type": CANARY})
            await self.send("GET", path, None, {})
        for method in ("GET", "DELETE", "PUT"):
            await self.send(method, f"/{CANARY}/x?q={CANARY}", None, {})
        place = httpx.URL(self.url)
        reader, writer = await asyncio.open_connection(place.host, place.port)
        writer.write(f"GET /{CANARY} {CANARY}\r\n{CANARY}\r\n\r\n".encode())
        await reader.read()
        writer.close()


def expect_silent_log(log: Recording) -> None:
    for text in (log.ours.getvalue(), log.raw.getvalue()):
        assert log.leaks(text) == []
    assert "Traceback" not in log.ours.getvalue()
    assert "assay.serve.requests" in log.ours.getvalue(), "nothing was logged at all"


@pytest.mark.parametrize("name", SERVERS)
async def test_no_server_repeats_what_was_sent(
    name: str, log: Recording, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    server = SERVERS[name]
    async with serving(server.app(tmp_path)) as url:
        caller = Caller(http, url)
        for sent in server.requests():
            await caller.send(*sent)
        await caller.send_strange(server.paths)
        if name.startswith("mcp"):
            with asking():
                quoted = [await mcp_errors(url, era) for era in ("legacy", "2026-07-28")]
            assert [text for era in quoted for text in era if CANARY in text] == []
    assert len(caller.errors) >= (20 if server.paths else 3), "broken requests were taken for good"
    if not server.quotes:
        assert [text[:400] for text in caller.errors if CANARY in text] == []
    expect_silent_log(log)


async def mcp_errors(url: str, era: str) -> list[str]:
    found: list[str] = []
    async with Client(f"{url}/mcp", mode=era) as client:
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
    assert len(found) > 5
    return found


async def test_no_query_is_logged(log: Recording, http: httpx.AsyncClient, tmp_path: Path) -> None:
    async with serving(green(tmp_path)) as url, serving(purple_app(finds(find_or_break))) as purple:
        caller = Caller(http, url)
        order = {"participants": {"retrieval_agent": purple}, "config": {"num_queries": 1}}
        started = json.loads(await caller.send("POST", "/tasks", order, {}))
        events = await caller.send("GET", f"/tasks/{started['id']}/events", None, {})
    assert '"state":"completed"' in events
    expect_silent_log(log)


# --- what libraries say when something of ours breaks ---------------------------------------------


@pytest.mark.parametrize("header", [f"{CANARY} b", f"{CANARY}?", CANARY * 20])
async def test_a_wrong_id_is_replaced(header: str, log: Recording, http: httpx.AsyncClient) -> None:
    async with serving(purple_app(finds(find_or_break))) as url:
        with asking():
            answer = await http.get(f"{url}/health", headers={"X-Request-ID": header})
    assert CANARY not in answer.headers["x-request-id"]
    assert log.leaks(log.ours.getvalue()) == []
