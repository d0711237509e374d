"""Targets `a2a:URL`: agents that speak the Agent2Agent protocol, 0.3 or 1.0.

The calls are made directly over HTTP instead of through the protocol's own library: its client
limits neither the size of an answer nor that of a stream, hides Retry-After, and turns integers
into floats.

The answer of a reply, `{"doc_ids": [...]}`, may be a data part, or text that is JSON, has it in a
code fence, or wraps it in prose. A list without its object violates the contract and is reported as
such, with the mapping that would read it. `--map` reads any other form, and `#text` takes prose for
the answer.
"""

import asyncio
import json
import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.http import exchange
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import printable, redact_url
from assay.targets.a2a.card import (
    Card,
    Finding,
    FoundCard,
    base_address,
    correct_addresses,
    find_card,
)
from assay.targets.a2a.reply import (
    A2AReply,
    Dialect,
    Sources,
    UnknownMethod,
    bad_reply,
    read_response,
    texts_of,
)
from assay.targets.answer_fields import find_usage, read_answer
from assay.targets.detection import json_values, marked_ids
from assay.targets.http_agent import HttpAgent
from assay.targets.mapping import AnswerReader, Received, validate_keys
from assay.targets.protocol import CURRENT_SEARCH, AgentAnswer, AgentInfo
from assay.targets.readiness import ready_url
from assay.targets.request_template import WireCall
from assay.targets.suggestion import suggest_pattern
from assay.targets.target_kinds import OpenContext, Target

_MIN_PIECES = 4
_MAX_PIECE_LENGTH = 40
PLAIN_TEXT_HINT = "for an agent that takes a question in plain text, use a2a:URL#text"
_FIRST_POLL = 0.1
_MAX_POLL_SECONDS = 2.0

_log = logging.getLogger(__name__)


class A2AAgent(HttpAgent):
    """An A2A agent. After `open()`, `card`, `dialect` and `findings` hold what was found.

    Parameters:
        url: the agent's address, or that of its card.
        streaming: whether to ask for a stream.
        plain_text: whether to send the query itself instead of `{"query", "top_k"}`.
    """

    def __init__(
        self,
        url: str,
        *,
        streaming: bool = False,
        track: str = "undeclared",
        policy: OutboundPolicy = UNRESTRICTED,
        mapping: Mapping[str, str] | None = None,
        known: Container[str] = (),
        plain_text: bool = False,
    ) -> None:
        self._base = base_address(url)
        self._streaming = streaming
        self.policy = policy
        self.ready_url = ready_url(self._base)
        self._plain_text = plain_text
        self.reader = AnswerReader(mapping or {}, known)
        self.info = AgentInfo(name=f"a2a:{redact_url(self._base)}", protocol="a2a", track=track)
        self.findings: tuple[Finding, ...] = ()
        self.found: FoundCard
        self.card: Card
        self.dialect: Dialect

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "A2AAgent":
        """`a2a:URL`, with `#stream` for answers as a stream and `#text` for queries as text."""
        ways = parse_fragment_options(target.fragment)
        mapping = context.mapping or {}
        validate_keys(mapping, target.kind)
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
        await self.connect(self._base)
        self.found = await find_card(self.http, self._base)
        # The user's address may be that of one interface; the card's own is the agent's.
        root = base_address(self.found.place)
        self.card, replaced = await correct_addresses(self.found.card, root, self.policy)
        chosen = self.card.preferred(self._base)
        self._use_dialect(Dialect(chosen.binding, chosen.version, chosen.url, chosen.tenant))
        self._report(*self.card.findings, *replaced)
        if self._streaming and not self.card.streaming:
            what = "the agent card does not declare streaming; trying it anyway"
            self._report(Finding(what, "remove '#stream' from the target"))

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Send the query as `{"query", "top_k"}`, in the other protocol version if necessary."""
        request: dict[str, str | int] = {"query": query, "top_k": top_k}
        if (search := CURRENT_SEARCH.get()) and search.search_url:
            request |= {"search_url": search.search_url, "mcp_server_url": search.mcp_url}
        text = query if self._plain_text else orjson.dumps(request).decode()
        reply = await self._reply_to(text)
        answer = read_reply(reply.sources(), self.reader, prose=self._plain_text)
        answer = replace(answer, usage=answer.usage or find_usage(*reply.metadata))
        if self._plain_text:  # the agent is not told how many are wanted
            return replace(answer, doc_ids=answer.doc_ids[:top_k])
        return answer

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
            pause = min(pause * 2, _MAX_POLL_SECONDS)
            try:
                await self._exchange(dialect, dialect.task(reply.task_id), reply)
            except UnknownMethod:
                raise bad_reply("an unfinished task that it later does not recognize") from None

    async def _exchange(self, dialect: Dialect, request: WireCall, reply: A2AReply) -> None:
        async with exchange(
            self.http,
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


def parse_fragment_options(fragment: str) -> frozenset[str]:
    """What follows the `#` of an `a2a:` target: `stream`, `text` or both. Raises `UsageError`."""
    ways = frozenset(filter(None, fragment.split(",")))
    if not ways <= {"stream", "text"}:
        choice = "'#stream', '#text' or '#text,stream'"
        raise UsageError(f"target 'a2a:...#{fragment}': only {choice} may follow the URL")
    return ways


def quiet_loggers() -> None:
    """Silence loggers that write whole cards and addresses at INFO; a level set before stays."""
    for name in ("a2a", "httpx", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


def read_reply(sources: Sources, reader: AnswerReader, *, prose: bool = False) -> AgentAnswer:
    """The answer in a reply. Raises `AgentFailure` if there is none.

    Without a mapping it is the first object with `doc_ids`; in `prose`, ids are in brackets.
    """
    values = list(_values(sources))
    text = "\n".join(filter(None, map(_joined, sources)))
    everything = [Received(text or json.dumps(value), value) for value in values]
    everything = everything or [Received(text, problem="the agent's answer contains no JSON")]
    reader.last = everything[0]
    if (reader.mapping and not (prose and not values)) or (prose and values):
        return _first_read(everything, reader)
    if prose:
        return _read_prose(everything[0], reader)
    plain = next((each for each in values if isinstance(each, Mapping) and "doc_ids" in each), None)
    try:
        if plain is None:
            what = _what_instead(next(iter(values), None), sum(map(len, sources)))
            raise AgentFailure(FailureKind.INVALID_ANSWER, what)
        return read_answer(plain)
    except AgentFailure as failure:
        raise reader.with_suggestion(failure, everything[0]) from None


def _joined(parts: Sequence[Mapping[str, Any]]) -> str:
    """The texts of parts. Many short ones are the pieces of a text that was streamed."""
    texts = list(texts_of(parts))
    pieces = len(texts) >= _MIN_PIECES and sum(map(len, texts)) < _MAX_PIECE_LENGTH * len(texts)
    return "".join(texts).strip() if pieces else "\n".join(text.strip() for text in texts)


def _first_read(everything: Sequence[Received], reader: AnswerReader) -> AgentAnswer:
    """What a mapping finds in the first value that it fits."""
    failure: AgentFailure | None = None
    for received in everything:
        try:
            return reader.read(received)
        except AgentFailure as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _read_prose(received: Received, reader: AnswerReader) -> AgentAnswer:
    if "ids" in reader.mapping:
        answer = reader.read(received)
    else:
        ids = marked_ids(received.text, reader.known)
        answer = AgentAnswer(ids, citations=ids)
        if not ids and suggest_pattern(received.text, reader.known):
            message = "the answer names documents, but not as [ID]"
            failure = AgentFailure(FailureKind.INVALID_ANSWER, message)
            raise reader.with_suggestion(failure, received)
    return answer if answer.answer is not None else replace(answer, answer=received.text)


def _values(sources: Sources) -> Iterator[object]:
    """Everything that could be the answer: data first, because text often only repeats it."""
    for parts in sources:
        for data in (part["data"] for part in parts if part.get("data") is not None):
            yield data
            if isinstance(data, Mapping) and isinstance(data.get("data"), Mapping):
                yield data["data"]  # the protobuf form of 0.3 has one more layer
        texts = list(texts_of(parts))
        for text in texts:
            yield from json_values(text)
        if len(texts) > 1:  # a text that was streamed in pieces
            yield from json_values("".join(texts))


def _what_instead(other: object, parts: int) -> str:
    if isinstance(other, Mapping):
        return "the answer is an object without 'doc_ids'"
    if other is not None:
        return f"the answer is a {type(other).__name__}, not an object with 'doc_ids'"
    missing = f"no JSON object with 'doc_ids' in {parts} part{'' if parts == 1 else 's'}"
    return f"{missing}; {PLAIN_TEXT_HINT}" if parts else missing
