"""Targets `rest:URL`: any search service that answers HTTP requests with JSON.

The request is a template (`request_template`), the answer is read by `--map` (`mapping`). If the
template has `{offset}` or `{page}`, further pages are requested until there are `top_k` documents.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind, UsageError, did_you_mean
from assay.llm.passages import Passage
from assay.net.http import HttpReply, exchange, failure_of_status, read_chunks
from assay.net.json import parse_json
from assay.net.outbound import UNRESTRICTED
from assay.net.redact import quote, redact_url
from assay.net.sse import EventReader
from assay.targets.http_agent import HttpAgent
from assay.targets.mapping import AnswerReader, Received, validate_keys
from assay.targets.opening import redact_target
from assay.targets.protocol import AgentAnswer, AgentInfo
from assay.targets.readiness import ready_url
from assay.targets.request_template import CONTEXTS, CallValues, Contexts, RequestTemplate, WireCall
from assay.targets.target_kinds import OpenContext, RequestSettings, Target

_INDEX = re.compile(r"[\w.,*@+-]{1,255}")


@dataclass(frozen=True, slots=True)
class Preset:
    """One search engine: the path after its address, the JSON body, and where its answers have
    ids and scores.
    """

    path: str
    request: str
    mapping: Mapping[str, str]

    def with_index(self, base: str, index: str) -> tuple[str, str]:
        """The URL and the body for the service at `base`. Raises `UsageError` for a bad index."""
        if not _INDEX.fullmatch(index):
            got = f"got {index[:80]!r}" if index else "it is missing"
            raise UsageError(f"--preset needs an index: --preset NAME:INDEX; {got}")
        url = base.rstrip("/") + self.path.replace("{index}", index)
        return url, self.request.replace("{index}", index)


_LUCENE = Preset(
    path="/{index}/_search",
    request='{"query": {"multi_match": {"query": "{query}", "lenient": true}}, '
    '"size": "{top_k}", "_source": false}',
    mapping={"ids": "hits.hits[]._id", "scores": "hits.hits[]._score"},
)

PRESETS: dict[str, Preset] = {
    "elasticsearch": _LUCENE,
    "opensearch": _LUCENE,
    "solr": Preset(
        path="/solr/{index}/select",
        request='{"query": "{query}", "limit": "{top_k}", "fields": ["id", "score"], '
        '"params": {"defType": "edismax", "q.op": "OR", "wt": "json"}}',
        mapping={"ids": "response.docs[].id", "scores": "response.docs[].score"},
    ),
    "vespa": Preset(
        path="/search/",
        request='{"yql": "select * from sources {index} where userQuery()", '
        '"query": "{query}", "hits": "{top_k}"}',
        mapping={"ids": r're:"(?:documentid|id)"\s*:\s*"id:[^":]*:[^":]*:[^":]*:([^"]+)"'},
    ),
    "qdrant": Preset(
        path="/collections/{index}/points/query",
        request='{"query": {"text": "{query}", "model": "qdrant/bm25"}, "using": "bm25", '
        '"limit": "{top_k}", "with_payload": true}',
        mapping={
            "ids": "result.points[].[payload.doc_id || payload.document_id || payload.id || id][]",
            "scores": "result.points[].score",
        },
    ),
}


def find_preset(name: str) -> Preset:
    """The preset called `name`. Raises `UsageError` with the names that there are."""
    found = PRESETS.get(name.lower())
    if found is None:
        hint = did_you_mean(name, PRESETS)
        raise UsageError(f"--preset {name!r} is not one of {', '.join(PRESETS)}{hint}")
    return found


MAX_PAGES = 20
REPLY_MAX_BYTES = 8_000_000
"""Of one page: services send whole documents along with their ids."""

NOT_JSON_EVENT = "an event of the stream is not JSON"
_LAST_EVENT = "[DONE]"
_REFUSED = (400, 404, 405, 411, 413, 414, 415, 422)


class RestAgent(HttpAgent):
    """A search service: `name` is how a run calls it, `details` what a report says about it."""

    sends_token = False  # a key goes where --header puts it

    def __init__(
        self,
        name: str,
        template: RequestTemplate,
        reader: AnswerReader,
        context: OpenContext,
        details: str = "",
    ) -> None:
        self.info = AgentInfo(name=name, protocol="rest", track=context.track, details=details)
        self.reader = reader
        self._template = template
        self._sends_top_k = "top_k" in template.placeholders()
        self.policy = context.policy or UNRESTRICTED
        self.ready_url = ready_url(template.url, below="")

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "RestAgent":
        """`rest:URL` or `rest:METHOD URL` with the request, headers and preset of the context."""
        given = context.request
        if context.policy is not None and context.policy.public_only:  # before anything is read
            require_public(given, target.address)
        mapping = dict(context.mapping or {})
        validate_keys(mapping, target.kind)
        url, body = target.address, given.body
        if given.preset:
            preset = find_preset(given.preset)
            url, request = preset.with_index(url, given.index)
            body = body or request
            if not {"ids", "results", "doc_id"} & mapping.keys():
                mapping = {**preset.mapping, **mapping}
        elif given.index:
            raise UsageError("--preset :INDEX has no NAME before the colon")
        template = RequestTemplate.parse(
            url, request=body, method=target.fragment, headers=given.headers
        )
        details = f"{template.method} {redact_target(url)}"
        if given.preset:
            details += f", preset {given.preset}"
        reader = AnswerReader(mapping, context.dataset.known_ids)
        return cls(redact_target(str(target)), template, reader, context, details)

    async def open(self) -> None:
        """Check that something listens there. Raises `TargetError`."""
        url = self._template.url
        await self.connect(url, token=self.sends_token, max_bytes=REPLY_MAX_BYTES)
        await self.require_listener(url)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Send the request for one query, page by page if one page has too few documents."""
        if not self._template.paged:
            answer = await self._page(query, top_k, offset=0, page=0)
            return answer if self._sends_top_k else _cut(answer, top_k)
        whole: AgentAnswer | None = None
        received = 0
        for page in range(MAX_PAGES):
            answer = await self._page(query, top_k, offset=received, page=page)
            received += len(answer.doc_ids)
            before = 0 if whole is None else len(whole.doc_ids)
            whole = answer if whole is None else _joined(whole, answer)
            if len(whole.doc_ids) >= top_k or len(whole.doc_ids) == before:
                break
        assert whole is not None
        return _cut(whole, top_k)

    @property
    def takes_context(self) -> bool:
        """Whether the request has a place for them: `"{contexts}"`."""
        return self._template.takes_contexts

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Send the request with these passages in place of `{contexts}`."""
        given = {CONTEXTS: [asdict(each) for each in passages]}
        return await self._page(query, max(1, len(passages)), offset=0, page=0, more=given)

    async def _page(
        self,
        query: str,
        top_k: int,
        *,
        offset: int,
        page: int,
        more: Mapping[str, Contexts] = MappingProxyType({}),
    ) -> AgentAnswer:
        values = CallValues(query, top_k, offset=offset, page=page + 1, page0=page, **more)
        try:
            call = self._template.fill(values)
        except UsageError as error:
            raise AgentFailure(FailureKind.PROTOCOL, str(error)) from None
        return self._read(received_reply(await send(self.http, call)))

    def _read(self, received: Received) -> AgentAnswer:
        reported = error_in(received)
        try:
            answer = self.reader.read(received)
        except AgentFailure as failure:
            raise (reported or failure) from None
        if reported is None or answer.doc_ids or answer.answer is not None:
            return answer
        raise reported


def error_in(received: Received) -> AgentFailure | None:
    """The failure that an answer with HTTP 200 reports, as those of GraphQL do; None if none."""
    value = received.value if isinstance(received.value, dict) else {}
    if not (value.get("error") or value.get("errors")):
        return None
    said = quote(received.text)
    return AgentFailure(FailureKind.AGENT_ERROR, "the service answered with an error", said=said)


def received_reply(reply: HttpReply) -> Received:
    """What a service sent. Events of a stream, and JSON a line, are a list of JSON values."""
    whole = Received.from_text(reply.body)
    if _is_stream(reply.headers):
        parts = [event.data for event in EventReader(REPLY_MAX_BYTES).feed(reply.body + b"\n\n")]
        whole = Received(whole.text, problem=NOT_JSON_EVENT)
    elif whole.problem and "\n" in whole.text.strip():
        parts = whole.text.split("\n")  # other line breaks may stand in a text
    else:
        return whole
    try:
        values = [parse_json(part) for part in parts if part.strip() not in ("", _LAST_EVENT)]
    except orjson.JSONDecodeError:
        return whole
    return Received(whole.text, values, messages=True) if values else whole


async def send(http: httpx.AsyncClient, call: WireCall) -> HttpReply:
    """The reply to one call. Raises `AgentFailure` for a status of 300 or more."""
    headers = call.headers
    async with exchange(
        http, call.method, call.url, content=call.content, headers=headers
    ) as response:
        body = b"".join([chunk async for chunk in _read_to_end(response)])
        reply = HttpReply(response.status_code, response.headers, body)
    if failure := _status_failure(reply, call.url):
        raise failure
    return reply


async def _read_to_end(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body; of a stream up to its last event, after which many servers keep it open."""
    reader = EventReader(REPLY_MAX_BYTES) if _is_stream(response.headers) else None
    async for chunk in read_chunks(response, REPLY_MAX_BYTES):
        yield chunk
        if reader and any(event.data.strip() == _LAST_EVENT for event in reader.feed(chunk)):
            return


def _is_stream(headers: Mapping[str, str]) -> bool:
    return str(headers.get("content-type", "")).startswith("text/event-stream")


def _status_failure(reply: HttpReply, url: str) -> AgentFailure | None:
    """The failure that a status stands for, with the service's own words; None below 300."""
    status = reply.status
    if status < 300:
        return None
    failure = failure_of_status(httpx.Response(status, headers=dict(reply.headers)))
    if status in (401, 403):
        message = (
            f"HTTP {status}: the service refused the credentials; send them with "
            "--header 'Authorization: Bearer $TOKEN'"
        )
        failure = AgentFailure(FailureKind.AGENT_ERROR, message, status=status)
    elif failure is None and (status in _REFUSED or status < 400):
        what = "found nothing at" if status == 404 else "refused the request to"
        message = (
            f"HTTP {status}: the service {what} {redact_url(url)}; check the URL and --request"
        )
        failure = AgentFailure(FailureKind.PROTOCOL, message, status=status)
    failure = failure or AgentFailure(FailureKind.AGENT_ERROR, f"HTTP {status}", status=status)
    failure.said = quote(reply.body)
    return failure


def require_public(given: RequestSettings, url: str) -> None:
    """Raise `UsageError` for what reads this machine's files or environment for a stranger."""
    if given.body.lstrip().startswith("@"):
        raise UsageError("--request @FILE reads a file on this server; write the JSON itself")
    if any("$" in header for header in given.headers) or "${" in url:
        raise UsageError("$NAME reads the environment of this server; leave it out")


def _cut(answer: AgentAnswer, top_k: int) -> AgentAnswer:
    return replace(answer, doc_ids=answer.doc_ids[:top_k], scores=answer.scores[:top_k])


def _joined(first: AgentAnswer, second: AgentAnswer) -> AgentAnswer:
    """Two pages as one; what the second repeats is left out, for a service that ignores pages."""
    seen = set(first.doc_ids)
    new = [place for place, doc_id in enumerate(second.doc_ids) if doc_id not in seen]
    if len(new) < len(second.doc_ids):
        ids = tuple(second.doc_ids[place] for place in new)
        return replace(first, doc_ids=first.doc_ids + ids, scores=())
    return replace(
        first,
        doc_ids=first.doc_ids + second.doc_ids,
        scores=first.scores + second.scores,
        contexts=first.contexts + second.contexts,
    )
