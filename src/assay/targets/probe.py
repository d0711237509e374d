"""Finds out which protocol is spoken at a bare http(s) URL, by the probes of the table."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import orjson

from assay.contract.conformance.probes import sample_inputs
from assay.errors import AgentFailure, TargetError, TargetLoading
from assay.llm.passages import Passage
from assay.net.client import open_client, token_for
from assay.net.http import exchange, read_chunks
from assay.net.json import JsonObject, parse_object
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, OutboundRefused
from assay.net.redact import redact_url
from assay.net.sse import EventReader
from assay.net.variables import AGENT_TOKEN_VARIABLE, MCP_TOKEN_VARIABLE
from assay.targets.a2a.card import (
    AgentNotCallable,
    ConnectionUnavailable,
    at_path,
    base_address,
    find_card,
)
from assay.targets.opening import parse_target
from assay.targets.protocol import Agent, AgentAnswer, AgentInfo, context_taker
from assay.targets.readiness import UNKNOWN, AgentReadiness, ReportsReadiness
from assay.targets.target_kinds import TARGET_KINDS, OpenContext, Target, load, no_effect

_log = logging.getLogger(__name__)

RETRIEVAL_TASKS = ("RAG_RETRIEVE", "LIT_RETRIEVAL")

_SECONDS = 15.0
_NEWEST_MCP = "2026-07-28"
_OLDER_MCP = "2025-06-18"
_CLIENT = {"name": "assay", "version": "1"}
_JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class ProbedAgent:
    """The agent at a bare address; its kind is found out when it is opened.

    Parameters:
        url: the address.
        build: makes the agent from the target that was found.
        policy: which addresses may be called.
    """

    def __init__(
        self, url: str, build: Callable[[str], Agent], policy: OutboundPolicy = UNRESTRICTED
    ) -> None:
        self._base = base_address(url)
        self._build = build
        self._policy = policy
        self._agent: Agent | None = None

    @property
    def info(self) -> AgentInfo:
        """That of the agent that was found."""
        if self._agent is None:
            return AgentInfo(name=redact_url(self._base), protocol="unknown")
        return self._agent.info

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "ProbedAgent":
        """A bare `http://...`."""

        def build(found: str) -> Agent:
            parsed = parse_target(found)
            kind = TARGET_KINDS[parsed.kind]
            if context.mapping and "mapping" not in kind.settings:
                # Not an error: it may be set for many targets, by a file or a variable.
                _log.warning("%s", no_effect("--map", "mapping", kind))
            return kind.open(parsed, context)

        return cls(target.address, build, context.policy or UNRESTRICTED)

    async def open(self) -> None:
        """Probe the address and open what is there. Raises `TargetError`."""
        self._agent = self._build(await probe(self._base, self._policy))
        await self._agent.open()

    async def readiness(self) -> AgentReadiness:
        """That of the agent that was found."""
        return (
            await self._agent.readiness() if isinstance(self._agent, ReportsReadiness) else UNKNOWN
        )

    @property
    def takes_context(self) -> bool:
        """Whether the agent that was found does."""
        return self._agent is not None and context_taker(self._agent) is not None

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Pass the call on."""
        taker = None if self._agent is None else context_taker(self._agent)
        assert taker is not None, "this agent does not take a context; check takes_context first"
        return await taker.answer_from(query, passages)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Pass the call on."""
        assert self._agent is not None, "call open() before ask()"
        return await self._agent.ask(query, top_k)

    async def close(self) -> None:
        """Close what was opened."""
        if self._agent is not None:
            await self._agent.close()


async def probe(url: str, policy: OutboundPolicy = UNRESTRICTED) -> str:
    """The target at an address: each kind that can be probed is tried, in the table's order.

    The user's token is sent. Raises `TargetError` with everything that was tried if nothing is
    recognized.
    """
    base = base_address(url)
    try:
        policy.check_url(base)
    except OutboundRefused as error:
        raise TargetError(str(error)) from None
    tried: list[str] = []
    token = token_for(base, policy, AGENT_TOKEN_VARIABLE, MCP_TOKEN_VARIABLE)
    async with open_client(policy, auth=token) as http:
        for kind in TARGET_KINDS.values():
            found: str | None = await load(kind.probe)(http, base, tried) if kind.probe else None
            if found:
                return found
    lines = "".join(f"\n  {line}" for line in tried)
    raise TargetError(
        f"cannot detect the protocol at {redact_url(base)}; tried:{lines}\n"
        "Name the protocol: a2a:URL, mcp:URL or http:URL=TASK, or check the URL. Any other HTTP "
        "service:\n"
        f"  assay eval 'rest:{redact_url(base)}/PATH?q={{query}}&size={{top_k}}' --map ids=EXPR\n"
        "or a function in my_search.py, for assay eval python:my_search:find "
        "(docs/targets.md has more):\n"
        "  import httpx\n\n"
        "  def find(query: str, top_k: int) -> list[str]:\n"
        f'      found = httpx.get("{redact_url(base)}/PATH", params={{"q": query}}).json()\n'
        '      return [each["id"] for each in found["results"]][:top_k]'
    )


async def probe_a2a(http: httpx.AsyncClient, base: str, tried: list[str]) -> str | None:
    """The target where an agent card is found; what was tried goes into `tried`."""
    try:
        await find_card(http, base)
    except (ConnectionUnavailable, AgentNotCallable, TargetLoading):
        raise
    except TargetError:
        tried.append("A2A: no agent card at /.well-known/agent-card.json, agent.json or the root")
        return None
    return f"a2a:{base}"


async def probe_mcp(http: httpx.AsyncClient, base: str, tried: list[str]) -> str | None:
    """The target where an MCP server answers, at `/mcp` below the address or at itself."""
    own = urlsplit(base).path
    for place in dict.fromkeys((at_path(base, own.removesuffix("/mcp") + "/mcp"), base)):
        if found := await _mcp(http, place, tried):
            return found
    return None


async def _mcp(http: httpx.AsyncClient, place: str, tried: list[str]) -> str | None:
    """The newest method leaves nothing behind at the server; the older one opens a session."""
    for method in ("server/discover", "initialize"):
        newest = method == "server/discover"
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": _mcp_params(newest)}
        extra = {"MCP-Protocol-Version": _NEWEST_MCP, "Mcp-Method": method} if newest else {}
        status, headers, content = await _post(http, place, call, extra)
        result = content.get("result")
        if isinstance(result, Mapping) and "capabilities" in result:
            await _end_session(http, place, headers)
            return f"mcp:{place}"
    hint = "; the server refuses this host name" if status == "HTTP 421" else ""
    tried.append(f"MCP: {redact_url(place)}: {status}{hint}")
    return None


def _mcp_params(newest: bool) -> JsonObject:
    if not newest:
        return {"protocolVersion": _OLDER_MCP, "capabilities": {}, "clientInfo": _CLIENT}
    prefix = "io.modelcontextprotocol"
    return {
        "_meta": {
            f"{prefix}/protocolVersion": _NEWEST_MCP,
            f"{prefix}/clientInfo": _CLIENT,
            f"{prefix}/clientCapabilities": {},
        }
    }


async def _end_session(http: httpx.AsyncClient, place: str, headers: Mapping[str, str]) -> None:
    session = headers.get("mcp-session-id")
    if session is None:
        return
    with suppress(AgentFailure, TimeoutError):
        async with (
            asyncio.timeout(_SECONDS),
            exchange(http, "DELETE", place, headers={**_JSON, "Mcp-Session-Id": session}),
        ):
            pass


async def probe_contract(http: httpx.AsyncClient, base: str, tried: list[str]) -> str | None:
    """The target for an agent of the HTTP contract, with the retrieval task that it supports."""
    base = base.partition("?")[0]  # the contract has no use for a query
    accept = {"Accept": "application/json"}
    status, _, health = await _exchanged(http, "GET", f"{base}/health", None, accept)
    if not (isinstance(health.get("status"), str) and isinstance(health.get("service"), str)):
        tried.append(f"HTTP agent contract: {redact_url(base)}/health: {status}")
        return None
    for task in RETRIEVAL_TASKS:
        request = {
            "request_id": f"assay-probe-{uuid.uuid4().hex}",
            "task_type": task,
            "inputs": sample_inputs(task),
        }
        status, _, answer = await _post(http, f"{base}/agents/run/sync", request, {})
        error = answer.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        if isinstance(answer.get("request_id"), str) and code != "UNSUPPORTED_TASK_TYPE":
            return f"http:{base}={task}"
    tasks = " nor ".join(RETRIEVAL_TASKS)
    tried.append(
        f"HTTP agent contract: {redact_url(base)} answers, but does neither {tasks}: {status}"
    )
    return None


_Answer = tuple[str, Mapping[str, str], JsonObject]


async def _post(
    http: httpx.AsyncClient, url: str, body: JsonObject, extra: Mapping[str, str]
) -> _Answer:
    return await _exchanged(http, "POST", url, orjson.dumps(body), {**_JSON, **extra})


async def _exchanged(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    content: bytes | None,
    headers: Mapping[str, str],
) -> _Answer:
    """The outcome in a few words, the headers, and the JSON object in the body ({} for none)."""
    try:
        async with (
            asyncio.timeout(_SECONDS),
            exchange(http, method, url, content=content, headers=headers) as response,
        ):
            status = f"HTTP {response.status_code}"
            return status, response.headers, await _first_object(response)
    except AgentFailure as failure:
        return str(failure), {}, {}
    except TimeoutError:
        return f"no answer in {_SECONDS:g} s", {}, {}


async def _first_object(response: httpx.Response) -> JsonObject:
    """The body, or the first event of a stream, which may stay open."""
    streamed = str(response.headers.get("content-type", "")).startswith("text/event-stream")
    reader = EventReader()
    body = bytearray()
    async for chunk in read_chunks(response):
        body += chunk
        if streamed and (events := reader.feed(chunk)):
            return parse_object(events[0].data) or {}
    return parse_object(bytes(body)) or {}
