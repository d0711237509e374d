"""Targets `rest:URL`: any search service that answers HTTP requests with JSON.

The request is a template. `{query}` and `{top_k}` stand in the URL or in a JSON body; without
either, the body is `{"query", "top_k"}`. `{search_url}` and `{mcp_server_url}`, also in headers,
are the addresses that `--search` gives the agent, `{contexts}` in a body the documents to answer
from (`--counterfactuals`, `--poison`). `$NAME` in headers and `${NAME}` in the URL are read from
the environment for each call, so that no secret is stored with a run.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote as percent_encode
from urllib.parse import urlsplit

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind, UsageError, did_you_mean
from assay.files import read_text_file
from assay.llm.passages import Passage
from assay.net.http import exchange, failure_of_status, read_error_body
from assay.net.json import parse_json
from assay.net.outbound import split_address
from assay.net.redact import SECRET_NAME, URL_VALUE, quote, remember_secrets, secret_fields
from assay.net.sse import EventReader
from assay.targets.answer_reader import AnswerReader, Received, strings_in, validate_keys
from assay.targets.http_agent import HttpAgent, front_page, ready_url
from assay.targets.protocol import CURRENT_SEARCH, AgentAnswer, AgentInfo
from assay.targets.target_kinds import OpenContext, RequestSettings, Target, redact_target

METHODS = ("GET", "POST", "PUT", "PATCH", "QUERY")
CONTEXTS = "contexts"
REPLY_MAX_BYTES = 8_000_000  # services send whole documents along with their ids
NOT_JSON_EVENT = "an event of the stream is not JSON"

_NAMES = ("query", "top_k", "search_url", "mcp_server_url")
_SEARCH_PLACE = re.compile(r"\{(search_url|mcp_server_url)\}")
_PLACEHOLDER = re.compile(r"\{(query|top_k|contexts|search_url|mcp_server_url)\}")
_BRACED = re.compile(r"(?<!\$)\{(\w+)\}")
_URL_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_HEADER_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INDEX = re.compile(r"[\w.,*@+-]{1,255}")
_MAX_BODY_BYTES = 1_000_000
_DEFAULT_BODY = '{"query": "{query}", "top_k": "{top_k}"}'
_LAST_EVENT = "[DONE]"

Contexts = Sequence[Mapping[str, str]]
Values = Mapping[str, str | int | Contexts]


class CallValues(dict[str, str | int | Contexts]):
    """The values of one call's placeholders, with the addresses of `--search` if it has one."""

    def __init__(self, query: str, top_k: int, **more: str | int | Contexts) -> None:
        super().__init__({"query": query, "top_k": top_k, **more})
        if search := CURRENT_SEARCH.get():
            self |= {"search_url": search.search_url, "mcp_server_url": search.mcp_url}

    def __missing__(self, name: str) -> str:
        raise UsageError(f"{{{name}}} is known only during a run with --search TARGET")


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A request with placeholders; `headers` have `$NAME` for what the environment holds."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: Any = None

    @classmethod
    def parse(
        cls, url: str, *, request: str = "", method: str = "", headers: Sequence[str] = ()
    ) -> "RequestTemplate":
        """Check everything that can be checked before the first call. Raises `UsageError`.

        The method is by default POST with a body, else GET.
        """
        check_url(url)
        if not request and "{query}" not in url:
            request = _DEFAULT_BODY
        body = read_body_template(request)
        verb = (method or ("POST" if request else "GET")).upper()
        if verb not in METHODS:
            raise UsageError(f"the HTTP method {method!r} is not one of {', '.join(METHODS)}")
        template = cls(verb, url, tuple(map(_parse_header, headers)), body)
        if "query" not in template.placeholders():
            raise UsageError(
                "neither the URL nor --request contains {query}; write it where the query goes, "
                "such as rest:https://host/search?q={query}&size={top_k}"
            )
        _expand(_URL_VARIABLE, url, "the URL")
        for name, value in template.headers:
            _expand(_HEADER_VARIABLE, value, f"--header '{name}: ...'")
        return template

    def placeholders(self) -> frozenset[str]:
        texts = (self.url, *strings_in(self.body))
        return frozenset(name for text in texts for name in _PLACEHOLDER.findall(text))

    async def send(self, http: httpx.AsyncClient, values: Values) -> Received:
        """What the service answers. Raises `AgentFailure` for a status of 300 or more.

        Of a stream, a list of the values of its events, up to the last: many servers keep it open.
        """
        headers, content = {"accept": "application/json"}, None
        if self.body is not None:
            content = orjson.dumps(fill_json(self.body, values))
            headers["content-type"] = "application/json"
        for name, value in self.headers:
            filled = _SEARCH_PLACE.sub(lambda match: str(values[match[1]]), value)
            headers[name.lower()] = _expand(_HEADER_VARIABLE, filled, f"--header '{name}: ...'")
            if not headers[name.lower()].isascii() or not headers[name.lower()].isprintable():
                raise UsageError(
                    f"--header '{name}: {value}' has characters that an HTTP header cannot carry; "
                    "check the variable it names"
                )
        url = fill_url(self.url, values)
        async with exchange(
            http, self.method, url, content=content, headers=headers, max_bytes=REPLY_MAX_BYTES
        ) as response:
            if failure := failure_of_status(response.status_code, response.headers, ""):
                failure.said = quote(await read_error_body(response))
                raise failure
            if not str(response.headers.get("content-type", "")).startswith("text/event-stream"):
                return Received.from_text(await response.aread())
            reader, body, data = EventReader(REPLY_MAX_BYTES), bytearray(), list[str]()
            async for chunk in response.aiter_raw():
                body += chunk
                data += [event.data.strip() for event in reader.feed(chunk)]
                if _LAST_EVENT in data[-1:]:
                    break
        data += [event.data for event in reader.feed(b"\n\n")]  # some servers omit the last end
        text = body.decode("utf-8", "replace")
        try:
            events = [parse_json(each) for each in data if each not in ("", _LAST_EVENT)]
        except orjson.JSONDecodeError:
            events = []
        received = Received(text, events, messages=True)
        return received if events else Received(text, problem=NOT_JSON_EVENT)


def read_body_template(request: str) -> Any:
    """The JSON of `--request`, which may be `@FILE`; None for an empty text."""
    text = request.strip()
    if not text:
        return None
    source = "--request"
    if text.startswith("@"):
        source = f"--request {text}"
        path = Path(text[1:]).expanduser()
        try:
            text = read_text_file(path, encoding="utf-8-sig", limit=_MAX_BODY_BYTES)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise UsageError(f"{source}: cannot read the file: {reason}") from None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = " ".join(text.split())[:80]
        raise UsageError(
            f"{source} is not JSON: {error}; got {shown!r}. Placeholders stand inside quotes: "
            '{"query": "{query}", "size": "{top_k}"}'
        ) from None
    remember_secrets(*secret_fields(body))
    return body


def fill_url(url: str, values: Values) -> str:
    """The URL with percent-encoded values."""

    def encode(value: object) -> str:
        return percent_encode(str(value), safe="")

    expanded = _expand(_URL_VARIABLE, url, "the URL", encode)
    return _PLACEHOLDER.sub(lambda match: encode(values[match[1]]), expanded)


def fill_json(body: Any, values: Values) -> Any:
    """A copy of `body` with its placeholders replaced, also inside longer strings.

    A string that is exactly one placeholder becomes the value itself. `"{contexts}"` becomes a list
    of `{"id", "title", "text"}`; if no contexts are given, its key is left out.
    """
    # Without contexts, the service is to search.
    left = () if CONTEXTS in values else (f"{{{CONTEXTS}}}",)

    def text(match: re.Match[str]) -> str:
        value = values.get(match[1], "") if match[1] == CONTEXTS else values[match[1]]
        if isinstance(value, str | int):
            return str(value)
        return "\n\n".join(f"[{each['id']}] {each['title']}\n{each['text']}" for each in value)

    if isinstance(body, str):
        whole = _PLACEHOLDER.fullmatch(body)
        return values[whole[1]] if whole else _PLACEHOLDER.sub(text, body)
    if isinstance(body, dict):
        return {key: fill_json(each, values) for key, each in body.items() if each not in left}
    if isinstance(body, list):
        return [fill_json(each, values) for each in body if each not in left]
    return body


def check_url(url: str) -> None:
    """Raise `UsageError` for no http(s) URL, unknown placeholders, secrets that are spelled out."""
    split_address(url)
    host = urlsplit(url).netloc if "://" in url else url.partition("/")[0]
    if "{" in host:
        raise UsageError("a placeholder or variable must not be in the host of a rest: URL")
    if unknown := [name for name in _BRACED.findall(url) if name not in _NAMES]:
        known = ", ".join(f"{{{name}}}" for name in _NAMES)
        raise UsageError(f"{{{unknown[0]}}} in the URL is not a placeholder; known are {known}")
    for name, value in URL_VALUE.findall(url):
        if SECRET_NAME.fullmatch(name) and "{" not in value:
            variable = re.sub(r"\W", "_", name).upper()
            raise UsageError(
                f"{name!r} in the URL looks like a secret, which would be stored with the run; set "
                f"a variable and write '{name}=${{{variable}}}', in single quotes"
            )


def _parse_header(text: str) -> tuple[str, str]:
    """`Name: value`. Raises `UsageError`, also for a secret that is spelled out."""
    name, _, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not _HEADER_NAME.fullmatch(name) or not value or not value.isprintable():
        raise UsageError(
            f"--header {name[:40]!r}: it must be 'Name: value', such as 'Authorization: Bearer "
            "$TOKEN', without control characters"
        )
    if SECRET_NAME.fullmatch(name) and not _HEADER_VARIABLE.search(value):
        scheme = "Bearer " if value.casefold().startswith("bearer ") else ""
        raise UsageError(
            f"--header '{name}: ...' spells a secret out, which would be stored with the run; set "
            f"a variable and write --header '{name}: {scheme}$TOKEN', in single quotes"
        )
    return name, value


def _expand(
    pattern: re.Pattern[str], text: str, where: str, encode: Callable[[str], str] = str
) -> str:
    def value(match: re.Match[str]) -> str:
        name = next(filter(None, match.groups()))
        found = os.environ.get(name)
        if not found:
            raise UsageError(f"{where} needs the environment variable {name}, which is not set")
        remember_secrets(found, encode(found))
        return encode(found)

    return pattern.sub(value, text)


# Of a search engine: the path after its address, the JSON body, where its answers have ids and
# scores.
_Preset = tuple[str, str, Mapping[str, str]]

_LUCENE: _Preset = (
    "/{index}/_search",
    '{"query": {"multi_match": {"query": "{query}", "lenient": true}}, '
    '"size": "{top_k}", "_source": false}',
    {"ids": "hits.hits[]._id", "scores": "hits.hits[]._score"},
)

PRESETS: dict[str, _Preset] = {
    "elasticsearch": _LUCENE,
    "opensearch": _LUCENE,
    "solr": (
        "/solr/{index}/select",
        '{"query": "{query}", "limit": "{top_k}", "fields": ["id", "score"], '
        '"params": {"defType": "edismax", "q.op": "OR", "wt": "json"}}',
        {"ids": "response.docs[].id", "scores": "response.docs[].score"},
    ),
    "vespa": (
        "/search/",
        '{"yql": "select * from sources {index} where userQuery()", '
        '"query": "{query}", "hits": "{top_k}"}',
        {"ids": r're:"(?:documentid|id)"\s*:\s*"id:[^":]*:[^":]*:[^":]*:([^"]+)"'},
    ),
    "qdrant": (
        "/collections/{index}/points/query",
        '{"query": {"text": "{query}", "model": "qdrant/bm25"}, "using": "bm25", '
        '"limit": "{top_k}", "with_payload": true}',
        {
            "ids": "result.points[].[payload.doc_id || payload.document_id || payload.id || id][]",
            "scores": "result.points[].score",
        },
    ),
}


def _use_preset(
    given: RequestSettings, base: str, mapping: Mapping[str, str]
) -> tuple[str, str, Mapping[str, str]]:
    """The URL, the body and the mapping of `--preset NAME:INDEX`; the user's own come first."""
    preset = PRESETS.get(given.preset.lower())
    if preset is None:
        hint = did_you_mean(given.preset, PRESETS)
        raise UsageError(f"--preset {given.preset!r} is not one of {', '.join(PRESETS)}{hint}")
    if not _INDEX.fullmatch(given.index):
        got = f"got {given.index[:80]!r}" if given.index else "it is missing"
        raise UsageError(f"--preset needs an index: --preset NAME:INDEX; {got}")
    path, request, usual = preset
    url = base.rstrip("/") + path.replace("{index}", given.index)
    body = given.body or request.replace("{index}", given.index)
    if not {"ids", "results", "doc_id"} & mapping.keys():
        mapping = {**usual, **mapping}
    return url, body, mapping


class RestAgent(HttpAgent):
    """A search service behind `rest:[METHOD ]URL`."""

    sends_token = False  # a key goes where --header puts it

    def __init__(self, target: Target, context: OpenContext) -> None:
        if context.policy.public_only:  # before anything is read
            require_public(context.request, target.address)
        self.policy = context.policy
        validate_keys(context.mapping or {}, target.kind)
        self._template, mapping = self._prepare(target, context.request, context.mapping or {})
        self._sends_top_k = "top_k" in self._template.placeholders()
        self.reader = AnswerReader(mapping, context.dataset.known_ids)
        self.ready_url = ready_url(self._template.url, below="")
        details = f"{self._template.method} {redact_target(self._template.url)}"
        if context.request.preset:
            details += f", preset {context.request.preset}"
        name = redact_target(str(target))
        self.info = AgentInfo(name, protocol=target.kind, track=context.track, details=details)

    def _prepare(
        self, target: Target, given: RequestSettings, mapping: Mapping[str, str]
    ) -> tuple[RequestTemplate, Mapping[str, str]]:
        """The request, and where its answers have what is read."""
        url, body = target.address, given.body
        if given.preset or given.index:
            url, body, mapping = _use_preset(given, url, mapping)
        template = RequestTemplate.parse(
            url, request=body, method=target.fragment, headers=given.headers
        )
        return template, mapping

    async def open(self) -> None:
        url = self._template.url
        await self.connect(url, token=self.sends_token)
        await self.require_listener(front_page(url))

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        answer = self._read(await self._template.send(self.http, CallValues(query, top_k)))
        if self._sends_top_k:
            return answer
        return replace(answer, doc_ids=answer.doc_ids[:top_k], scores=answer.scores[:top_k])

    @property
    def takes_context(self) -> bool:
        return CONTEXTS in self._template.placeholders()

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        given = [asdict(each) for each in passages]
        values = CallValues(query, max(1, len(passages)), contexts=given)
        return self._read(await self._template.send(self.http, values))

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


def require_public(given: RequestSettings, url: str) -> None:
    """Raise `UsageError` for what reads this machine's files or environment for a stranger."""
    reads_file = given.body.lstrip().startswith("@")
    if reads_file or any("$" in header for header in given.headers) or "${" in url:
        raise UsageError("@FILE and $NAME are of this server; write the JSON, and leave $NAME out")
