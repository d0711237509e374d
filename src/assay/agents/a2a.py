"""Targets `a2a:URL`: agents that speak the Agent2Agent protocol, 0.3 or 1.0.

The calls are made directly over HTTP instead of through the protocol's own library: its client
can bound neither the size of an answer nor what a stream adds up to, hides Retry-After, and turns
integers into floats.
"""

import asyncio
import logging

import httpx
import orjson

from assay.agents.a2a_address import correct_addresses
from assay.agents.a2a_card import Card
from assay.agents.a2a_dialect import Dialect, WireRequest
from assay.agents.a2a_discovery import FoundCard, base_address, find_card, shown
from assay.agents.a2a_http import exchange
from assay.agents.a2a_reply import Reply, bad_reply
from assay.agents.a2a_response import UnknownMethod, read_response
from assay.agents.outbound import UNRESTRICTED, OutboundPolicy, OutboundRefused
from assay.agents.outbound_client import open_client
from assay.agents.protocol import AgentAnswer, AgentFailure, AgentInfo, FailureKind
from assay.errors import TargetError

_FIRST_POLL = 0.1
_LONGEST_POLL = 2.0

_log = logging.getLogger(__name__)


class A2AAgent:
    """`http` is shared and left open where it is given, else made for this agent.

    `timeout` bounds one call, in seconds; None where the caller does, as an evaluation does.
    After `open()`, `card`, `dialect` and `warnings` tell what was found.
    """

    def __init__(
        self,
        url: str,
        *,
        streaming: bool = False,
        track: str = "undeclared",
        policy: OutboundPolicy = UNRESTRICTED,
        http: httpx.AsyncClient | None = None,
        timeout: float | None = None,
    ) -> None:
        self._base = base_address(url)
        self._streaming = streaming
        self._policy = policy
        self._owns_http = http is None
        self._http = http
        self._timeout = timeout
        self.info = AgentInfo(name=f"a2a:{shown(self._base)}", protocol="a2a", track=track)
        self.warnings: tuple[str, ...] = ()
        self.found: FoundCard
        self.card: Card
        self.dialect: Dialect

    async def open(self) -> None:
        quiet_loggers()
        try:
            self._policy.check_url(self._base)
        except OutboundRefused as error:
            raise TargetError(str(error)) from None
        if self._http is None:
            self._http = open_client(self._policy)
        self.found = await find_card(self._http, self._base)
        self.card, replaced = await correct_addresses(self.found.card, self._base, self._policy)
        chosen = self.card.preferred(self._base)
        self._speak(Dialect(chosen.binding, chosen.version, chosen.url))
        self._warn(*self.card.notes, *replaced)
        if self._streaming and not self.card.streaming:
            self._warn("the card does not offer streaming; it is tried all the same")

    async def close(self) -> None:
        if self._owns_http and self._http is not None:
            await self._http.aclose()
            self._http = None

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        text = orjson.dumps({"query": query, "top_k": top_k}).decode()
        try:
            async with asyncio.timeout(self._timeout):
                return (await self._reply_to(text)).answer()
        except TimeoutError:
            message = f"no answer within {self._timeout:g} s"
            raise AgentFailure(FailureKind.TIMEOUT, message) from None

    async def _reply_to(self, text: str) -> Reply:
        dialect = self.dialect
        try:
            return await self._ask_in(dialect, text)
        except UnknownMethod:
            other = dialect.other_version()
        try:
            reply = await self._ask_in(other, text)
        except UnknownMethod:
            names = f"{dialect.send_name!r} nor {other.send_name!r}"
            message = f"the agent knows neither {names} at the address in its card"
            raise AgentFailure(FailureKind.PROTOCOL, message) from None
        if self.dialect != other:
            self._speak(other)
            self._warn(f"the agent does not speak the version its card names; using {other}")
        return reply

    async def _ask_in(self, dialect: Dialect, text: str) -> Reply:
        reply = Reply()
        await self._exchange(dialect, dialect.question(text, stream=self._streaming), reply)
        pause = _FIRST_POLL
        while not reply.finished:  # it answered before it was done
            if reply.task_id is None:
                raise bad_reply("an unfinished task without an id")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL)
            await self._exchange(dialect, dialect.task(reply.task_id), reply)
        return reply

    async def _exchange(self, dialect: Dialect, request: WireRequest, reply: Reply) -> None:
        assert self._http is not None, "open() comes before ask()"
        async with exchange(
            self._http,
            request.method,
            request.url,
            content=request.content,
            headers=request.headers,
        ) as response:
            await read_response(response, dialect, reply)

    def _speak(self, dialect: Dialect) -> None:
        self.dialect = dialect
        details = f"{self.card.name} {self.card.version}".strip() or "unnamed agent"
        where = f"{dialect} at {shown(dialect.url)}"
        self.info = AgentInfo(self.info.name, "a2a", self.info.track, details=f"{details}; {where}")

    def _warn(self, *messages: str) -> None:
        for message in messages:
            _log.warning("%s: %s", self.info.name, message)
        self.warnings += messages


def quiet_loggers() -> None:
    """These write whole cards and every address at INFO. Who set a level of their own keeps it."""
    for name in ("a2a", "httpx", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)
