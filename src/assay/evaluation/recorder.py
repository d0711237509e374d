"""Stands between an agent and its search tool during a run, and records every search.

    async with open_recorder(config, dataset, say) as recorder:
        async with recorder.question(query) as session:  # its target tells the agent the address
            answer = await agent.ask(query.text, config.top_k)
        session.steps                              # what it searched for, in order

One address serves REST (`/q/TOKEN/search`) and MCP (`/q/TOKEN/mcp`), with a token for each attempt
at a question, so that concurrent questions stay apart.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httpx
import orjson

from assay.data.dataset import Dataset, Query
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.evaluation.plan import open_agent
from assay.extras import missing_extra
from assay.files import open_file
from assay.net.client import open_client
from assay.net.http import fetch
from assay.net.json import parse_json
from assay.net.outbound import UNRESTRICTED
from assay.net.redact import redact_url
from assay.run.calls import AskKey
from assay.run.config import RunConfig
from assay.steps import MAX_STEPS, SearchSource, SearchStep, read_served, trace_id_of
from assay.targets.protocol import (
    CURRENT_SEARCH,
    Agent,
    AgentAnswer,
    SearchAddress,
    is_unicode,
)
from assay.targets.target_kinds import parse_target

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolResult
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from assay.targets.mcp import McpAgent

ADDRESS_VARIABLE = "ASSAY_RECORDER"
DEFAULT_ADDRESS = "http://127.0.0.1:9020"
MAX_TOP_K = 100
MAX_QUERY = 64 * 1024  # Characters of a query: an agent that sends more has put a document there
_BODY_LIMIT = 2**20
_MAX_RECORD_BYTES = 100_000_000
_READ_SECONDS = 10.0
_TOOL = "search"
_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to search for."},
        "top_k": {"type": "integer", "minimum": 1, "maximum": MAX_TOP_K, "default": 5},
    },
    "required": ["query"],
}


class SearchRefused(Exception):
    """A search that is not carried out, with the HTTP status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class SearchSession:
    """One attempt at a question, and the searches that belong to it."""

    key: AskKey
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    trace_id: str = field(default_factory=lambda: secrets.token_hex(16))
    steps: list[SearchStep] = field(default_factory=list)


# Searches: what it shows, and the same as the answer of a target.
_Search = Callable[[], Awaitable[tuple[Any, AgentAnswer]]]


class SearchRecorder:
    """Answers searches from `tool`, and remembers them for the question they belong to.

    `tool` is None if searches are recorded elsewhere; `url` is the address that agents are given.
    """

    def __init__(self, tool: Agent | None, dataset: Dataset, url: str = "") -> None:
        self.tool, self.url = tool, url
        self.announces = True  # False if the agent refuses the fields with the address
        self.unattributed = 0  # searches that belong to no question
        self._dataset = dataset
        self._open: dict[str, SearchSession] = {}
        self._last: dict[AskKey, tuple[SearchStep, ...]] = {}

    @asynccontextmanager
    async def question(self, query: Query) -> AsyncIterator[SearchSession]:
        """Record the searches that are made within the block for `query`."""
        session = SearchSession((query.id, query.trial))
        await self.collect()
        self._open[session.token] = session
        current = CURRENT_SEARCH.set(self._address(session))
        try:
            yield session
        finally:
            CURRENT_SEARCH.reset(current)
            try:
                await self.collect()
            finally:
                del self._open[session.token]
                self._last[session.key] = tuple(session.steps)

    async def collect(self) -> None:
        """Take in what was recorded elsewhere, before a question begins and when it ends."""

    def take_steps(self, key: AskKey) -> tuple[SearchStep, ...]:
        """The searches of the last attempt at a question, which are forgotten here."""
        return self._last.pop(key, ())

    def find_session(
        self, token: str, traceparent: str
    ) -> tuple[SearchSession | None, SearchSource]:
        """The question that a search belongs to, and how that is known."""
        if token:
            if token not in self._open:
                raise SearchRefused(404, "this question has ended; use the address of the next one")
            return self._open[token], "token"
        trace_id = trace_id_of(traceparent)
        for session in self._open.values():
            if session.trace_id == trace_id:
                return session, "traceparent"
        # A search with another trace belongs to somebody else, even if one question is open.
        if len(self._open) == 1 and not trace_id:
            return next(iter(self._open.values())), "one at a time"
        self.unattributed += 1
        return None, "one at a time"

    async def search(
        self, session: SearchSession | None, source: SearchSource, query: object, top_k: object = 5
    ) -> list[dict[str, Any]]:
        """Search, and record it: a list of `{"doc_id", "score", "title", "text"}`."""
        # An async function that searches without end must let its time limit end it.
        await asyncio.sleep(0)
        if self.tool is None:
            raise SearchRefused(404, "searches are recorded elsewhere; use --search TARGET instead")
        if session is not None and session.token not in self._open:
            raise SearchRefused(404, "this question has ended; use the search of the next one")
        if not isinstance(query, str) or not 0 < len(query) <= MAX_QUERY or not is_unicode(query):
            raise SearchRefused(422, f"query must be a string of 1 to {MAX_QUERY} characters")
        if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
            raise SearchRefused(422, f"top_k must be an integer from 1 to {MAX_TOP_K}")
        search = partial(self._ask, query, top_k)
        results: list[dict[str, Any]] = await self._recorded(session, source, query, search)
        return results

    async def pass_through(
        self, session: SearchSession | None, source: SearchSource, arguments: dict[str, Any]
    ) -> "CallToolResult":
        """Call an MCP tool with the agent's own arguments; its result is not changed."""
        tool = cast("McpAgent", self.tool)
        query, call = tool.query_in(arguments)[:MAX_QUERY], partial(tool.call, arguments)
        return cast("CallToolResult", await self._recorded(session, source, query, call))

    async def _recorded(
        self, session: SearchSession | None, source: SearchSource, query: str, search: _Search
    ) -> Any:
        if session is not None and len(session.steps) >= MAX_STEPS:
            raise SearchRefused(429, f"a question may have at most {MAX_STEPS} searches")
        started = time.perf_counter()
        shown, answer, failed = None, AgentAnswer(()), True
        # The tool is asked by Assay, not by the agent: it must not be told where to search.
        current = CURRENT_SEARCH.set(None)
        try:
            shown, answer = await search()
            failed = False
        except AgentFailure as failure:
            raise SearchRefused(502, f"the search tool failed: {failure}") from failure
        finally:
            CURRENT_SEARCH.reset(current)
            if session is not None:
                ids = answer.doc_ids
                session.steps.append(
                    SearchStep(
                        tool=_TOOL,
                        query=query,
                        doc_ids=ids,
                        scores=answer.scores if len(answer.scores) == len(ids) else (),
                        ms=round(1000 * (time.perf_counter() - started), 3),
                        bytes=len(orjson.dumps(shown, default=_as_json)) if ids else 0,
                        source=source,
                        failed=failed,
                    )
                )
        return shown

    async def _ask(self, query: str, top_k: int) -> tuple[list[dict[str, Any]], AgentAnswer]:
        assert self.tool is not None, "searches are recorded elsewhere"
        answer = await self.tool.ask(query, top_k)
        answer = replace(answer, doc_ids=answer.doc_ids[:top_k], scores=answer.scores[:top_k])
        texts = {chunk.doc_id or chunk.id: chunk.text for chunk in answer.contexts}
        results = []
        for place, doc_id in enumerate(answer.doc_ids):
            document = self._dataset.documents.get(doc_id)
            results.append(
                {
                    "doc_id": doc_id,
                    "score": answer.scores[place] if place < len(answer.scores) else None,
                    "title": document.title if document else "",
                    "text": texts.get(doc_id) or (document.text if document else ""),
                }
            )
        return results, answer

    def _address(self, session: SearchSession) -> SearchAddress:
        base = f"{self.url}/q/{session.token}" if self.announces and self.url else ""
        return SearchAddress(
            search_url=f"{base}/search" if base else "",
            mcp_url=f"{base}/mcp" if base else "",
            traceparent=f"00-{session.trace_id}-{secrets.token_hex(8)}-01",
            call=partial(self.search, session, "token"),
        )

    async def rehearse(
        self, agent: Agent, query: Query, config: RunConfig, say: Callable[[str], None]
    ) -> bool:
        """One question that is not counted; whether to ask one at a time.

        An agent that fails with the address in its request and answers without it is strict about
        unknown fields; from then on it gets none.
        """
        steps, failure = await self._try(agent, query, config)
        point = f"point its tool at {self.url}/search or {self.url}/mcp"
        if failure is not None and self.url:
            self.announces = False
            steps, failure = await self._try(agent, query, config)
            self.announces = failure is not None
            if failure is None:
                say(
                    "the agent refuses a request with search_url and mcp_server_url, so they are "
                    f"left out; {point}"
                )
        if failure is None and not steps and self.url:
            say(
                "the agent did not search in the warm-up; if the address of its tool is fixed, "
                f"{point}"
            )
        self.unattributed = 0  # the searches of the warm-up count for nothing
        self._last.clear()
        serial = any(step.source == "one at a time" for step in steps)
        if serial:
            say("searches carry no trace of their question: asking one at a time")
        return serial

    async def _try(
        self, agent: Agent, query: Query, config: RunConfig
    ) -> tuple[list[SearchStep], AgentFailure | None]:
        found: AgentFailure | None = None
        async with self.question(query) as session:
            try:
                async with asyncio.timeout(config.timeout):
                    await agent.ask(query.text, config.top_k)
            except AgentFailure as failure:
                found = failure
            except TimeoutError:
                found = AgentFailure(FailureKind.TIMEOUT, "no answer in time")
        return session.steps, found


def _as_json(result: Any) -> Any:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


class FollowedSearches(SearchRecorder):
    """Reads the searches that a server with `assay serve mcp --record FILE` writes, while questions
    are asked: from that file, or from the address that serves it.
    """

    def __init__(self, place: str, dataset: Dataset, http: httpx.AsyncClient) -> None:
        super().__init__(None, dataset)
        self._place = place
        self._http = http
        self._offset = 0
        self._reading = asyncio.Lock()

    async def skip(self) -> None:
        """Pass over what was recorded before this run. Raises `UsageError` if nothing is there."""
        try:
            while lines := await self._read():
                self._offset += len(lines)
        except (AgentFailure, OSError) as failure:
            raise UsageError(
                f"--searches {redact_url(self._place)}: {failure}; start the search server with: "
                "assay serve mcp --record FILE"
            ) from None

    async def collect(self) -> None:
        """Credit each new search by its trace, or to the only question that is open."""
        async with self._reading:
            try:
                lines = await self._read()
            except (AgentFailure, OSError):
                return  # the next question that begins or ends reads them
            self._offset += len(lines)
            for traceparent, step in read_served(lines):
                session, source = self.find_session("", traceparent)
                if session is not None and len(session.steps) < MAX_STEPS:
                    session.steps.append(replace(step, source=source))

    async def _read(self) -> bytes:
        """The complete lines behind the offset."""
        start = self._offset
        if "://" in self._place:
            reply = await fetch(
                self._http,
                "GET",
                self._place,
                headers={"Range": f"bytes={start}-"},
                timeout=_READ_SECONDS,
                max_bytes=_MAX_RECORD_BYTES,
            )
            status, body = reply.status_code, reply.content
            if status not in (200, 206, 416):  # 416: nothing new
                raise AgentFailure(FailureKind.PROTOCOL, f"HTTP {status}")
            new = {200: body[start:], 206: body, 416: b""}[status]
        else:
            with open_file(Path(self._place)) as file:
                file.seek(start)
                new = file.read(_MAX_RECORD_BYTES)
        return new[: new.rfind(b"\n") + 1]  # a torn line waits


@asynccontextmanager
async def open_recorder(
    config: RunConfig, dataset: Dataset, say: Callable[[str], None]
) -> AsyncIterator[SearchRecorder]:
    """A recorder for `config.search`, listening unless the agent is a Python function."""
    if config.search and config.searches:
        raise UsageError("--search and --searches both say where searches are; pass one of them")
    if config.searches:
        async with open_client(UNRESTRICTED, max_bytes=_MAX_RECORD_BYTES) as http:
            followed = FollowedSearches(config.searches, dataset, http)
            await followed.skip()
            yield followed
        return
    # None of the settings that are about the agent.
    kept = ("dataset", "columns", "split", "timeout", "embedder", "bm25", "private")
    of_tool = {name: getattr(config, name) for name in kept}
    tool = open_agent(RunConfig(target=config.search, **of_tool), dataset)
    await tool.open()
    try:
        await _require_ids(tool, config, dataset)
        recorder = SearchRecorder(tool, dataset)
        if parse_target(config.target).kind == "python":
            yield recorder
            return
        try:
            make_app = partial(_app, recorder, dataset.name == "nfcorpus")
            async with _listening(make_app, say) as recorder.url:
                yield recorder
        except ImportError as error:
            raise missing_extra(error) or error from None
    finally:
        await tool.close()


async def _require_ids(tool: Agent, config: RunConfig, dataset: Dataset) -> None:
    """Raise `UsageError` if the answers of the tool cannot be read: every search would fail."""
    query = next(iter(dataset.queries.values()))
    try:
        async with asyncio.timeout(config.timeout):
            await tool.ask(query.text, 1)
    except TimeoutError:
        return  # it may be loading
    except AgentFailure as failure:
        if failure.kind is FailureKind.INVALID_ANSWER:
            raise UsageError(
                f"--search {redact_url(config.search)}: {str(failure).partition('; ')[0]}; --map is"
                ' about the agent: let the tool answer {"results": [{"doc_id": ...}]}, or call it '
                "in a function, --search python:module:function"
            ) from None


@asynccontextmanager
async def _listening(
    make_app: "Callable[[], ASGIApp]", say: Callable[[str], None]
) -> AsyncIterator[str]:
    """Serve on `ASSAY_RECORDER`; the address. Port 0 is any free port."""
    import uvicorn

    wanted, port = urlsplit(os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS), None
    with suppress(ValueError):  # above 65535
        port = wanted.port
    if wanted.scheme != "http" or not wanted.hostname or port is None:
        raise UsageError(
            f"{ADDRESS_VARIABLE} must be like {DEFAULT_ADDRESS}, got {wanted.geturl()!r}"
        )
    # Agents in containers need more than loopback.
    host = "127.0.0.1" if wanted.hostname in ("127.0.0.1", "localhost") else "0.0.0.0"
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        # On another port, an agent whose tool address is fixed would search in the other run.
        raise UsageError(
            f"port {port} is taken ({error.strerror}), maybe by another run that records searches; "
            f"set {ADDRESS_VARIABLE}=http://127.0.0.1:PORT, or :0 for any free port"
        ) from None
    url = f"http://{wanted.hostname}:{listener.getsockname()[1]}"
    settings = uvicorn.Config(
        make_app(), access_log=False, log_config=None, lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(settings)
    # Not `serve`, which takes the signals of the run.
    serving = asyncio.create_task(server._serve(sockets=[listener]))
    try:
        while not server.started:
            if serving.done():
                serving.result()
                raise UsageError(f"cannot serve searches on {url}")
            await asyncio.sleep(0.01)
        say(f"recording searches on {url}")
        yield url
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()


def _app(recorder: SearchRecorder, is_nfcorpus: bool) -> "ASGIApp":
    from mcp.server.streamable_http_manager import (
        StreamableHTTPASGIApp,
        StreamableHTTPSessionManager,
    )
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def search(request: "Request") -> "Response":
        body = b""
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > _BODY_LIMIT:
                    raise SearchRefused(413, f"the body has more than {_BODY_LIMIT} bytes")
            wanted = parse_json(body)
            if not isinstance(wanted, dict):
                raise SearchRefused(422, 'the body must be {"query": "...", "top_k": 5}')
            token = request.path_params.get("token", "")
            session, source = recorder.find_session(token, request.headers.get("traceparent", ""))
            query, top_k = wanted.get("query"), wanted.get("top_k", 5)
            results = await recorder.search(session, source, query, top_k)
        except orjson.JSONDecodeError:
            return JSONResponse({"error": "the body is not JSON"}, 400)
        except SearchRefused as refusal:
            return JSONResponse({"error": str(refusal)}, refusal.status)
        return Response(orjson.dumps({"results": results}), media_type="application/json")

    async def health(_request: "Request") -> "Response":
        return JSONResponse({"status": "ok", "service": "recorder"})

    manager = StreamableHTTPSessionManager(
        _mcp_server(recorder, is_nfcorpus),
        json_response=True,
        stateless=True,
        max_request_body_size=_BODY_LIMIT,
    )
    mcp = StreamableHTTPASGIApp(manager)
    return Starlette(
        routes=[
            Route("/q/{token}/search", search, methods=["POST"]),
            Route("/search", search, methods=["POST"]),
            Route("/q/{token}/mcp", mcp),
            Route("/mcp", mcp),
            Route("/health", health),
        ],
        lifespan=lambda _app: manager.run(),
    )


def _mcp_server(recorder: SearchRecorder, is_nfcorpus: bool) -> "Server[Any]":
    """The tool `search`, with the schema of the tool behind it if that is an MCP tool."""
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

    from assay.targets.mcp import McpAgent

    names = [_TOOL, *(["search_nfcorpus"] if is_nfcorpus else [])]
    through = isinstance(recorder.tool, McpAgent)
    schema = recorder.tool.input_schema if isinstance(recorder.tool, McpAgent) else _SCHEMA
    about = "Find documents for a query, best first, with their ids, titles, texts and scores."

    async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[Tool(name=name, description=about, input_schema=dict(schema)) for name in names]
        )

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        request = context.request
        meta, headers = context.meta or {}, request.headers if request else {}
        traceparent = str(meta.get("traceparent") or headers.get("traceparent", ""))
        token = request.path_params.get("token", "") if request else ""
        arguments = params.arguments or {}
        try:
            if params.name not in names:
                raise SearchRefused(404, f"there is no tool {params.name!r:.80}; see tools/list")
            session, source = recorder.find_session(token, traceparent)
            if through:
                return await recorder.pass_through(session, source, arguments)
            results = await recorder.search(
                session, source, arguments.get("query"), arguments.get("top_k", 5)
            )
        except SearchRefused as refusal:
            return CallToolResult(is_error=True, content=[TextContent(text=str(refusal))])
        found = {"results": results}
        text = orjson.dumps(found).decode()
        return CallToolResult(content=[TextContent(text=text)], structured_content=found)

    return Server("assay-recorder", on_list_tools=list_tools, on_call_tool=call_tool)
