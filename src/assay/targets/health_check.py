"""Finds out which protocol is spoken at an address, and checks the health of one agent.

await probe("http://localhost:8000")         # "a2a:URL", "mcp:URL" or "http:URL=TASK"
await check_health(config, query, build)     # a sample call, each problem with a remedy
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from urllib.parse import urlsplit

import httpx
import orjson

from assay.contract.probes import sample_inputs
from assay.data.dataset import Dataset
from assay.errors import AgentFailure, FailureKind, TargetError
from assay.net.client import open_client, token_for
from assay.net.http import fetch
from assay.net.json import JsonObject, parse_object
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, OutboundRefused
from assay.net.redact import (
    AGENT_TOKEN_VARIABLE,
    mask_secrets,
    redact_known,
    redact_secrets,
    redact_url,
)
from assay.run.calls import with_quote
from assay.run.config import RunConfig
from assay.targets.a2a import WELL_KNOWN, A2AAgent, CardNotFound, base_address, find_card
from assay.targets.answer_reader import AnswerReader
from assay.targets.chunks import suggest_separator
from assay.targets.http_agent import UNKNOWN, AgentReadiness, ReportsReadiness
from assay.targets.protocol import Agent, AgentAnswer, AgentInfo
from assay.targets.target_kinds import (
    TARGET_KINDS,
    OpenContext,
    Target,
    no_effect,
    parse_target,
    redact_target,
    remedy_for,
)

RETRIEVAL_TASKS = ("RAG_RETRIEVE", "LIT_RETRIEVAL")

_PROBE_SECONDS = 15.0
_RAW_LENGTH = 600
_ANSWER_LENGTH = 120

_log = logging.getLogger(__name__)


class ProbedAgent:
    """The agent at a bare address; its kind is found out when it is opened."""

    def __init__(self, target: Target, context: OpenContext) -> None:
        self._base = base_address(target.address)
        self._context = context
        self._agent: Agent | None = None

    @property
    def info(self) -> AgentInfo:
        if self._agent is None:
            return AgentInfo(name=redact_url(self._base), protocol="unknown")
        return self._agent.info

    async def open(self) -> None:
        found = parse_target(await probe(self._base, self._context.policy))
        kind = TARGET_KINDS[found.kind]
        if self._context.mapping and "mapping" not in kind.settings:
            # Not an error: it may be set for many targets, by a file or a variable.
            _log.warning("%s", no_effect("--map", "mapping", kind))
        self._agent = kind.open(found, self._context)
        await self._agent.open()

    async def readiness(self) -> AgentReadiness:
        agent = self._agent
        return await agent.readiness() if isinstance(agent, ReportsReadiness) else UNKNOWN

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._agent is not None, "call open() before ask()"
        return await self._agent.ask(query, top_k)

    async def close(self) -> None:
        if self._agent is not None:
            await self._agent.close()


async def probe(url: str, policy: OutboundPolicy = UNRESTRICTED) -> str:
    """The target at an address: `a2a:URL`, `mcp:URL` or `http:URL=TASK`.

    Raises `TargetError` with everything that was tried.
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
            tried.append(f"A2A: no agent card at {', '.join(WELL_KNOWN)} or the root")
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


async def _probe_mcp(base: str, policy: OutboundPolicy, tried: list[str]) -> str:
    """The target where an MCP server answers, at `/mcp` below the address or at itself."""
    # The SDK is slow to import, and an A2A agent needs none.
    from assay.targets.mcp_connection import HttpServer, McpSession

    parts = urlsplit(base)
    below = parts._replace(path=parts.path.removesuffix("/mcp") + "/mcp").geturl()
    for place in dict.fromkeys([below, *([base] if parts.path else [])]):
        session = McpSession(HttpServer(place, policy))
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await session.open()
            return f"mcp:{place}"
        except (TargetError, TimeoutError) as error:
            reason = str(error) or f"no answer in {_PROBE_SECONDS:g} s"
            tried.append(f"MCP: {redact_url(place)}: {reason}")
        finally:
            await session.close()
    return ""


async def _probe_contract(http: httpx.AsyncClient, base: str, tried: list[str]) -> str:
    """The target for an agent of the HTTP contract, with the retrieval task that it supports."""
    shown = f"HTTP agent contract: {redact_url(base)}"

    async def ask(method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        content = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": "application/json"}
        reply = await fetch(
            http, method, base + path, content=content, headers=headers, timeout=_PROBE_SECONDS
        )
        return {"HTTP": reply.status_code, **(parse_object(reply.content) or {})}

    try:
        health = await ask("GET", "/health")
        if not (isinstance(health.get("status"), str) and isinstance(health.get("service"), str)):
            tried.append(f"{shown}/health: HTTP {health['HTTP']}")
            return ""
        for task in RETRIEVAL_TASKS:
            request_id = f"assay-probe-{uuid.uuid4().hex}"
            request = {"request_id": request_id, "task_type": task, "inputs": sample_inputs(task)}
            answer = await ask("POST", "/agents/run/sync", request)
            error = answer.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            # A run that fails, of a knowledge base that is missing say, knows its task all the same
            if isinstance(answer.get("request_id"), str) and code != "UNSUPPORTED_TASK_TYPE":
                return f"http:{base}={task}"
        tried.append(f"{shown} answers, but does neither {' nor '.join(RETRIEVAL_TASKS)}")
    except AgentFailure as failure:
        tried.append(f"{shown}: {failure}")
    return ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of an agent; `grave` if it prevents an evaluation."""

    what: str
    remedy: str
    grave: bool


@dataclass(frozen=True, slots=True)
class SampleCall:
    """A sample call, made in a `way`; `failure` is empty if it succeeded.

    `raw` and `answer` are the start of what came and of the text that was read, `suggestion` is a
    mapping that would find ids of the data set, and `remedy` what to do about the failure, if not
    the usual for its kind.
    """

    way: str
    milliseconds: float
    doc_ids: tuple[str, ...] = ()
    failure: str = ""
    message: str = ""
    remedy: str = ""
    raw: str = ""
    suggestion: str = ""
    answer: str | None = None
    answer_length: int = 0
    citations: int = 0
    status: int | None = None


@dataclass(frozen=True)
class HealthReport:
    """What was found out about one agent.

    `known_ids` is how many ids of the call are documents of the data set, None without one.
    """

    url: str
    protocol: str
    target: str
    details: str = ""
    card_place: str = ""
    card: JsonObject | None = None
    calls: tuple[SampleCall, ...] = ()
    problems: tuple[Problem, ...] = ()
    dataset: str = ""
    known_ids: int | None = None

    @property
    def healthy(self) -> bool:
        """Whether the agent can be evaluated."""
        return not any(problem.grave for problem in self.problems)


def query_of(data: Dataset | None) -> str:
    """A query of the data set that has a relevant document; the usual one without a data set."""
    for judgments in data.judgments.values() if data else ():
        for query_id, grades in judgments.items():
            if data and query_id in data.queries and max(grades.values(), default=0):
                return data.queries[query_id].text
    return "Does vitamin D lower blood pressure?"


async def check_health(
    config: RunConfig,
    query: str,
    build: Callable[[Target], Agent],
    policy: OutboundPolicy = UNRESTRICTED,
    *,
    dataset: Dataset | None = None,
) -> HealthReport:
    """Find out what the agent of a run's target speaks, call it as the run would, and list what is
    wrong. `build` makes the agent. Raises `TargetError` if it cannot be reached.
    """
    try:
        target = parse_target(mask_secrets(config.target))
        if target.kind == "url":
            target = parse_target(await probe(target.address, policy))
        agent = build(target)
        try:
            await agent.open()
            call = await _call(agent, query, config, dataset)
        finally:
            await agent.close()
    except TargetError as error:
        raise type(error)(redact_known(str(error))) from error
    report = HealthReport(
        url=redact_target(target.address),
        protocol=target.kind,
        target=redact_target(str(target)),
        details=agent.info.details,
        calls=(call,),
    )
    problems: list[Problem] = []
    if isinstance(agent, A2AAgent):
        card, shown = agent.card, redact_url(base_address(target.address))
        report = replace(
            report,
            url=shown,
            target=redact_target(str(replace(target, address=shown))),
            card_place=redact_url(card.place),
            card=dict(card.document),
        )
        problems = [Problem(redact_known(what), do, grave=False) for what, do in agent.findings]
    problems += _about_call(call, config, target)
    if dataset is not None:
        problems += _about_ids(call, dataset)
        known = sum(each in dataset.known_ids for each in call.doc_ids)
        report = replace(report, dataset=dataset.name, known_ids=known)
    return replace(report, problems=tuple(problems))


async def _call(agent: Agent, query: str, config: RunConfig, dataset: Dataset | None) -> SampleCall:
    way = "sample"
    if isinstance(agent, A2AAgent):
        way = "streaming" if agent.streaming else "blocking"
    started = time.perf_counter()
    answer = AgentAnswer(())
    failure: AgentFailure | None = None
    try:
        async with asyncio.timeout(config.timeout):
            answer = await agent.ask(query, config.top_k)
    except AgentFailure as error:
        failure = error
    except TimeoutError:
        failure = AgentFailure(FailureKind.TIMEOUT, f"no answer within {config.timeout:g} s")
    milliseconds = (time.perf_counter() - started) * 1000
    known = frozenset() if dataset is None else dataset.known_ids
    reader: AnswerReader | None = getattr(agent, "reader", None)
    raw = suggestion = ""
    if reader and reader.last:
        raw = redact_secrets(reader.last.text, length=_RAW_LENGTH)
        finds_ids = any(each in known for each in answer.doc_ids)
        suggestion = "" if finds_ids else reader.suggest(reader.last)
    # What came is shown once, in full if it was read.
    said = failure.said if failure and not raw else ""
    text = answer.answer
    return SampleCall(
        way,
        milliseconds,
        doc_ids=tuple(map(redact_known, answer.doc_ids)),
        failure=str(failure.kind) if failure else "",
        message=redact_known(with_quote(failure.message, said)) if failure else "",
        remedy=redact_known(failure.remedy) if failure else "",
        raw=raw,
        suggestion=suggestion,
        answer=None if text is None else redact_secrets(text, length=_ANSWER_LENGTH),
        answer_length=len(text or ""),
        citations=len(answer.citations),
        status=failure.status if failure else None,
    )


def _about_call(call: SampleCall, config: RunConfig, target: Target) -> Iterator[Problem]:
    kind = TARGET_KINDS[target.kind]
    if call.failure:
        remedy = call.remedy or remedy_for(call.failure, call.status, kind)
        yield Problem(f"{call.failure}: {call.message}", remedy, grave=True)
        return
    if not call.doc_ids:
        remedy = "ask something that it should know, with --query, or --map ids=EXPR"
        if kind.searches_dataset:
            remedy = f"it searches a data set, and none is loaded here; try: assay eval {target}"
        elif call.suggestion:
            remedy = f"try: --map '{call.suggestion}'"
        yield Problem("the answer has no ids", remedy, grave=False)
    if config.answers and not call.answer:
        what = "no answer text was read: --answers has nothing to evaluate"
        remedy = 'answer with {"doc_ids": [...], "answer": "..."}, or name it: --map answer=EXPR'
        yield Problem(what, remedy, grave=True)
    if len(call.doc_ids) > config.top_k:
        what = f"the answer has {len(call.doc_ids)} ids, top_k is {config.top_k}"
        yield Problem(what, "send at most top_k: the rest scores nothing", grave=False)
    if len(set(call.doc_ids)) < len(call.doc_ids):
        remedy = "send each id once: a repeat scores nothing and takes a place"
        yield Problem("the answer has duplicate ids", remedy, grave=False)


def _about_ids(call: SampleCall, dataset: Dataset) -> Iterator[Problem]:
    unknown = [each for each in call.doc_ids if each not in dataset.known_ids]
    if unknown and len(unknown) == len(call.doc_ids):
        ours = ", ".join(repr(each) for each in islice(dataset.known_ids, 2))
        theirs = ", ".join(repr(each[:40]) for each in call.doc_ids[:2])
        what = f"no id is a document of {dataset.name!r}: got {theirs}; it has ids such as {ours}"
        remedy = "map the field with these ids, --map ids=EXPR, or change --dataset"
        if separator := suggest_separator(call.doc_ids, dataset.known_ids):
            remedy = f"these look like chunks of documents; try: --map 'chunk={separator}'"
        elif call.suggestion:
            remedy = f"try: --map '{call.suggestion}'"
        yield Problem(what, remedy, grave=dataset.corpus_ids is not None)
    elif dataset.documents and unknown:
        what = f"{len(unknown)} of {len(call.doc_ids)} ids are not in {dataset.name!r}"
        remedy = "unknown ids score nothing: search the documents of the data set alone"
        yield Problem(what, remedy, grave=False)
