"""Targets `a2a:URL`: agents that speak the Agent2Agent protocol, 0.3 or 1.0.

The calls are made directly over HTTP instead of through the protocol's own library: its client
limits neither the size of an answer nor that of a stream, hides Retry-After, and turns integers
into floats.
"""

import asyncio
import logging
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import replace

import httpx
import orjson

from assay.agents.a2a.answers import ReplyReader
from assay.agents.a2a.card import (
    Card,
    Finding,
    FoundCard,
    base_address,
    correct_addresses,
    find_card,
)
from assay.agents.a2a.reply import (
    A2AReply,
    Dialect,
    UnknownMethod,
    WireRequest,
    bad_reply,
    read_response,
)
from assay.agents.mapping import refuse_arguments
from assay.agents.protocol import AgentAnswer, AgentInfo
from assay.agents.readiness import AgentReadiness, ask_readiness, ready_url
from assay.agents.target_kinds import OpenContext, Target
from assay.errors import AgentFailure, FailureKind, TargetError, UsageError
from assay.net.client import TOKEN_VARIABLE, open_client, token_for
from assay.net.http import exchange
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, OutboundRefused
from assay.net.redact import printable, redact_url

_FIRST_POLL = 0.1
_LONGEST_POLL = 2.0

_log = logging.getLogger(__name__)


class A2AAgent:
    """An A2A agent. After `open()`, `card`, `dialect` and `findings` hold what was found.

    Parameters:
        url: the agent's address, or that of its card.
        streaming: whether to ask for a stream.
        track: how the agent may have learned.
        policy: which addresses may be called.
        timeout: seconds for one call; None if the caller bounds it, as an evaluation does.
        mapping: where answers have their ids; without it, they are `{"doc_ids": [...]}`.
        known: the ids of the data set.
        plain_text: whether to send the query itself instead of `{"query", "top_k"}`.
    """

    def __init__(
        self,
        url: str,
        *,
        streaming: bool = False,
        track: str = "undeclared",
        policy: OutboundPolicy = UNRESTRICTED,
        timeout: float | None = None,
        mapping: Mapping[str, str] | None = None,
        known: Container[str] = (),
        plain_text: bool = False,
    ) -> None:
        self._base = base_address(url)
        self._streaming = streaming
        self._policy = policy
        self._http: httpx.AsyncClient | None = None
        self._timeout = timeout
        self._plain_text = plain_text
        self._replies = ReplyReader(mapping, known, prose=plain_text)
        self.reader = self._replies.reader
        self.info = AgentInfo(name=f"a2a:{redact_url(self._base)}", protocol="a2a", track=track)
        self.findings: tuple[Finding, ...] = ()
        self.found: FoundCard
        self.card: Card
        self.dialect: Dialect

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "A2AAgent":
        """`a2a:URL`, with `#stream` for answers as a stream and `#text` for queries as text."""
        ways = parse_ways(target.fragment)
        mapping = context.mapping or {}
        refuse_arguments(mapping, target.kind)
        return cls(
            target.address,
            mapping=mapping,
            known=context.dataset.known_ids,
            streaming="stream" in ways,
            plain_text="text" in ways,
            track=context.track,
            policy=context.policy or UNRESTRICTED,
        )

    async def open(self) -> None:
        """Find the card and choose an interface. Raises `TargetError` if there is none."""
        quiet_loggers()
        try:
            self._policy.check_url(self._base)
        except OutboundRefused as error:
            raise TargetError(str(error)) from None
        token = token_for(self._base, self._policy, TOKEN_VARIABLE)
        self._http = open_client(self._policy, auth=token)
        self.found = await find_card(self._http, self._base)
        # The user's address may be that of one interface; the card's own is the agent's.
        root = base_address(self.found.place)
        self.card, replaced = await correct_addresses(self.found.card, root, self._policy)
        chosen = self.card.preferred(self._base)
        self._use_dialect(Dialect(chosen.binding, chosen.version, chosen.url, chosen.tenant))
        self._report(*self.card.findings, *replaced)
        if self._streaming and not self.card.streaming:
            what = "the agent card does not declare streaming; trying it anyway"
            self._report(Finding(what, "remove '#stream' from the target"))

    async def readiness(self) -> AgentReadiness:
        """What `/health/ready` below the agent's address says."""
        assert self._http is not None, "call open() before readiness()"
        return await ask_readiness(self._http, ready_url(self._base))

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Send the query as `{"query", "top_k"}`, in the other protocol version if necessary."""
        text = orjson.dumps({"query": query, "top_k": top_k}).decode()
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self._reply_to(query if self._plain_text else text)
            answer = reply.answer(self._replies)
            if self._plain_text:  # the agent is not told how many are wanted
                return replace(answer, doc_ids=answer.doc_ids[:top_k])
            return answer
        except TimeoutError:
            message = f"no answer within {self._timeout:g} s"
            raise AgentFailure(FailureKind.TIMEOUT, message) from None

    async def _reply_to(self, text: str) -> A2AReply:
        dialect = self.dialect
        try:
            return await self._ask_in(dialect, text)
        except UnknownMethod:
            other = dialect.other_version()
        try:
            reply = await self._ask_in(other, text)
        except UnknownMethod:
            names = f"{dialect.send_name!r} nor {other.send_name!r}"
            message = f"the agent supports neither {names} at the address in its card"
            raise AgentFailure(FailureKind.PROTOCOL, message) from None
        if self.dialect != other:
            self._use_dialect(other)
            what = f"{dialect.send_name!r} is in the card but not supported; using {other}"
            self._report(Finding(what, f"declare protocol version {other.version!r} in the card"))
        return reply

    async def _ask_in(self, dialect: Dialect, text: str) -> A2AReply:
        reply = A2AReply()
        await self._exchange(dialect, dialect.question(text, stream=self._streaming), reply)
        if not reply.finished:
            await self._wait_for(dialect, reply)
        elif reply.only_says_done and reply.task_id is not None:
            with suppress(AgentFailure):  # then what came is all there is
                await self._exchange(dialect, dialect.task(reply.task_id), reply)
        return reply

    async def _wait_for(self, dialect: Dialect, reply: A2AReply) -> None:
        """Poll a task that was returned before it was done."""
        pause = _FIRST_POLL
        while not reply.finished:
            if reply.task_id is None:
                raise bad_reply("an unfinished task without an id")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL)
            try:
                await self._exchange(dialect, dialect.task(reply.task_id), reply)
            except UnknownMethod:
                raise bad_reply("an unfinished task that it later does not recognize") from None

    async def _exchange(self, dialect: Dialect, request: WireRequest, reply: A2AReply) -> None:
        assert self._http is not None, "call open() before ask()"
        async with exchange(
            self._http,
            request.method,
            request.url,
            content=request.content,
            headers=request.headers,
        ) as response:
            await read_response(response, dialect, reply)

    def _use_dialect(self, dialect: Dialect) -> None:
        self.dialect = dialect
        agent = printable(f"{self.card.name} {self.card.version}".strip())
        where = f"{dialect} at {redact_url(dialect.url)}"
        details = f"{agent or 'unnamed agent'}; {where}"
        self.info = replace(self.info, details=details, agent=agent or None)

    def _report(self, *findings: Finding) -> None:
        for finding in findings:
            _log.warning("%s: %s", self.info.name, finding.what)
        self.findings += findings


def parse_ways(fragment: str) -> frozenset[str]:
    """What follows the `#` of an `a2a:` target: `stream`, `text` or both. Raises `UsageError`."""
    ways = frozenset(filter(None, fragment.split(",")))
    if ways <= {"stream", "text"}:
        return ways
    raise UsageError(
        f"target 'a2a:...#{fragment}': only '#stream', '#text' or '#text,stream' may follow the URL"
    )


def quiet_loggers() -> None:
    """Silence loggers that write whole cards and addresses at INFO; a level set before stays."""
    for name in ("a2a", "httpx", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
