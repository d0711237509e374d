"""Finds out which protocol is spoken at a bare http(s) URL, by the probes of the table."""

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import httpx
import orjson

from assay.contract.probes import sample_inputs
from assay.errors import AgentFailure, TargetError
from assay.llm.passages import Passage
from assay.net.client import open_client, token_for
from assay.net.http import exchange, read_chunks
from assay.net.json import JsonObject, parse_object
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, OutboundRefused
from assay.net.redact import redact_url
from assay.net.sse import EventReader
from assay.net.variables import AGENT_TOKEN_VARIABLE, MCP_TOKEN_VARIABLE
from assay.targets.a2a_card import CardNotFound, at_path, base_address, find_card
from assay.targets.http_agent import UNKNOWN, AgentReadiness, ReportsReadiness
from assay.targets.protocol import Agent, AgentAnswer, AgentInfo, context_taker
from assay.targets.target_kinds import (
    TARGET_KINDS,
    OpenContext,
    load,
    no_effect,
    parse_target,
)

_log = logging.getLogger(__name__)

RETRIEVAL_TASKS = ("RAG_RETRIEVE", "LIT_RETRIEVAL")

_SECONDS = 15.0
_NEWEST_MCP = "2026-07-28"
_CLIENT = {"name": "assay", "version": "1"}
_MCP_META = {
    "io.modelcontextprotocol/protocolVersion": _NEWEST_MCP,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_MCP_INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}
_JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class ProbedAgent:
    """The agent at a bare address; its kind is found out when it is opened."""

    def __init__(self, url: str, context: OpenContext) -> None:
        self._base = base_address(url)
        self._context = context
        self._agent: Agent | None = None

    @property
    def info(self) -> AgentInfo:
        """That of the agent that was found."""
        if self._agent is None:
            return AgentInfo(name=redact_url(self._base), protocol="unknown")
        return self._agent.info

    async def open(self) -> None:
        """Probe the address and open what is there. Raises `TargetError`."""
        found = parse_target(await probe(self._base, self._context.policy or UNRESTRICTED))
        kind = TARGET_KINDS[found.kind]
        if self._context.mapping and "mapping" not in kind.settings:
            # Not an error: it may be set for many targets, by a file or a variable.
            _log.warning("%s", no_effect("--map", "mapping", kind))
        self._agent = kind.open(found, self._context)
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
        "service (docs/targets.md):\n"
        f"  assay eval 'rest:{redact_url(base)}/PATH?q={{query}}&size={{top_k}}' --map ids=EXPR"
    )


async def probe_a2a(http: httpx.AsyncClient, base: str, tried: list[str]) -> str | None:
    """The target where an agent card is found; what was tried goes into `tried`."""
    try:
        await find_card(http, base)
    except CardNotFound:
        tried.append("A2A: no agent card at /.well-known/agent-card.json, agent.json or the root")
        return None
    return f"a2a:{base}"


async def probe_mcp(http: httpx.AsyncClient, base: str, tried: list[str]) -> str | None:
    """The target where an MCP server answers, at `/mcp` below the address or at itself.

    The newest method leaves nothing behind at the server; the older one opens a session.
    """
    own = urlsplit(base).path
    for place in dict.fromkeys((at_path(base, own.removesuffix("/mcp") + "/mcp"), base)):
        for method, params, extra in (
            ("server/discover", {"_meta": _MCP_META}, {"MCP-Protocol-Version": _NEWEST_MCP}),
            ("initialize", _MCP_INITIALIZE, {}),
        ):
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            headers = {**_JSON, **extra, **({"Mcp-Method": method} if extra else {})}
            status, answered, content = await _exchanged(http, "POST", place, call, headers)
            result = content.get("result")
            if isinstance(result, Mapping) and "capabilities" in result:
                if session := answered.get("mcp-session-id"):
                    ending = {**_JSON, "Mcp-Session-Id": session}
                    await _exchanged(http, "DELETE", place, None, ending)
                return f"mcp:{place}"
        hint = "; the server refuses this host name" if status == "HTTP 421" else ""
        tried.append(f"MCP: {redact_url(place)}: {status}{hint}")
    return None


async def probe_contract(http: httpx.AsyncClient, base: str, tried: list[str]) -> str | None:
    """The target for an agent of the HTTP contract, with the retrieval task that it supports."""
    base = base.partition("?")[0]  # the contract has no use for a query
    status, _, health = await _exchanged(http, "GET", f"{base}/health", None, _JSON)
    if not (isinstance(health.get("status"), str) and isinstance(health.get("service"), str)):
        tried.append(f"HTTP agent contract: {redact_url(base)}/health: {status}")
        return None
    for task in RETRIEVAL_TASKS:
        request = {
            "request_id": f"assay-probe-{uuid.uuid4().hex}",
            "task_type": task,
            "inputs": sample_inputs(task),
        }
        url = f"{base}/agents/run/sync"
        status, _, answer = await _exchanged(http, "POST", url, request, _JSON)
        error = answer.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        if isinstance(answer.get("request_id"), str) and code != "UNSUPPORTED_TASK_TYPE":
            return f"http:{base}={task}"
    tasks = " nor ".join(RETRIEVAL_TASKS)
    tried.append(
        f"HTTP agent contract: {redact_url(base)} answers, but does neither {tasks}: {status}"
    )
    return None


async def _exchanged(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    body: JsonObject | None,
    headers: Mapping[str, str],
) -> tuple[str, Mapping[str, str], JsonObject]:
    """The outcome in a few words, the headers, and the JSON object in the body ({} for none).

    Of a stream, which may stay open, that is the object of its first event.
    """
    content = None if body is None else orjson.dumps(body)
    received, reader = b"", EventReader()
    try:
        async with (
            asyncio.timeout(_SECONDS),
            exchange(http, method, url, content=content, headers=headers) as response,
        ):
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            async for chunk in read_chunks(response):
                received += chunk
                if streamed and (events := reader.feed(chunk)):
                    received = events[0].data.encode()
                    break
            return (
                f"HTTP {response.status_code}",
                response.headers,
                parse_object(received) or {},
            )
    except AgentFailure as failure:
        return str(failure), {}, {}
    except TimeoutError:
        return f"no answer in {_SECONDS:g} s", {}, {}
