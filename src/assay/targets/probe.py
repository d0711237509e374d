"""Finds out which protocol is spoken at a bare http(s) URL: A2A, MCP or the HTTP contract."""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
import orjson

from assay.contract.probes import sample_inputs
from assay.errors import AgentFailure, TargetError
from assay.llm.passages import Passage
from assay.net.client import open_client, token_for
from assay.net.http import fetch
from assay.net.json import JsonObject, parse_object
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, OutboundRefused
from assay.net.redact import AGENT_TOKEN_VARIABLE, redact_url
from assay.targets.a2a_card import CardNotFound, at_path, base_address, find_card
from assay.targets.http_agent import UNKNOWN, AgentReadiness, ReportsReadiness
from assay.targets.protocol import Agent, AgentAnswer, AgentInfo, context_taker
from assay.targets.target_kinds import TARGET_KINDS, OpenContext, no_effect, parse_target

_log = logging.getLogger(__name__)

RETRIEVAL_TASKS = ("RAG_RETRIEVE", "LIT_RETRIEVAL")

_SECONDS = 15.0


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
    """The target at an address: `a2a:URL`, `mcp:URL` or `http:URL=TASK`.

    The user's token is sent. Raises `TargetError` with everything that was tried if nothing is
    recognized.
    """
    base = base_address(url)
    try:
        policy.check_url(base)
    except OutboundRefused as error:
        raise TargetError(str(error)) from None
    tried: list[str] = []
    async with open_client(policy, auth=token_for(base, policy, AGENT_TOKEN_VARIABLE)) as http:
        try:
            await find_card(http, base)
            return f"a2a:{base}"
        except CardNotFound:
            tried.append(
                "A2A: no agent card at /.well-known/agent-card.json, agent.json or the root"
            )
        if found := await _probe_mcp(base, policy, tried):
            return found
        if found := await _probe_contract(http, base.partition("?")[0], tried):
            return found
    lines = "".join(f"\n  {line}" for line in tried)
    raise TargetError(
        f"cannot detect the protocol at {redact_url(base)}; tried:{lines}\n"
        "Name the protocol: a2a:URL, mcp:URL or http:URL=TASK, or check the URL. Any other HTTP "
        "service (docs/targets.md):\n"
        f"  assay eval 'rest:{redact_url(base)}/PATH?q={{query}}&size={{top_k}}' --map ids=EXPR"
    )


async def _probe_mcp(base: str, policy: OutboundPolicy, tried: list[str]) -> str | None:
    """The target where an MCP server answers, at `/mcp` below the address or at itself."""
    from assay.targets.mcp import McpSession  # the SDK is slow to import, and an A2A agent needs
    from assay.targets.mcp_connection import HttpServer  # none

    own = urlsplit(base).path
    places = [at_path(base, own.removesuffix("/mcp") + "/mcp"), *([base] if own else [])]
    for place in dict.fromkeys(places):
        server = HttpServer(place, policy)
        session = McpSession(server.connect)
        try:
            async with asyncio.timeout(_SECONDS):
                await session.open()
            return f"mcp:{place}"
        except TargetError as error:
            tried.append(f"MCP: {redact_url(place)}: {error}")
        except TimeoutError:
            tried.append(f"MCP: {redact_url(place)}: no answer in {_SECONDS:g} s")
        finally:
            await session.close()
            await server.close()
    return None


async def _probe_contract(http: httpx.AsyncClient, base: str, tried: list[str]) -> str | None:
    """The target for an agent of the HTTP contract, with the retrieval task that it supports."""

    async def exchanged(method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        content = None if body is None else orjson.dumps(body)
        reply = await fetch(
            http,
            method,
            base + path,
            content=content,
            headers={"Content-Type": "application/json"},
            timeout=_SECONDS,
        )
        return {"HTTP": reply.status, **(parse_object(reply.body) or {})}

    try:
        health = await exchanged("GET", "/health")
        if not (isinstance(health.get("status"), str) and isinstance(health.get("service"), str)):
            tried.append(f"HTTP agent contract: {redact_url(base)}/health: HTTP {health['HTTP']}")
            return None
        for task in RETRIEVAL_TASKS:
            request = {
                "request_id": f"assay-probe-{uuid.uuid4().hex}",
                "task_type": task,
                "inputs": sample_inputs(task),
            }
            answer = await exchanged("POST", "/agents/run/sync", request)
            error = answer.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            if isinstance(answer.get("request_id"), str) and code != "UNSUPPORTED_TASK_TYPE":
                return f"http:{base}={task}"
    except AgentFailure as failure:
        tried.append(f"HTTP agent contract: {redact_url(base)}: {failure}")
        return None
    tasks = " nor ".join(RETRIEVAL_TASKS)
    tried.append(f"HTTP agent contract: {redact_url(base)} answers, but does neither {tasks}")
    return None
