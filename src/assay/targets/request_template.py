"""HTTP requests with placeholders: what `rest:` and `openai:` targets send for each query.

`{query}` and `{top_k}` stand in the URL or in a JSON body; `{offset}`, `{page}` (from 1) and
`{page0}` (from 0) ask for further pages. `{search_url}` and `{mcp_server_url}`, also in headers,
are the addresses that `--search` gives the agent. `{contexts}` in a body stands for documents to
answer from, if these are given (`--counterfactuals`, `--poison`); else it is left out. Values enter
a body as JSON values, never by pasting text into JSON. `$NAME` in headers and `${NAME}` in the URL
are read from the environment for each call, so that no secret is stored with a run.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson

from assay.errors import UsageError, did_you_mean
from assay.files import read_text_file
from assay.net.outbound import split_address
from assay.net.redact import SECRET_NAME, remember_secrets, secret_fields
from assay.targets.protocol import CURRENT_SEARCH

METHODS = ("GET", "POST", "PUT", "PATCH", "QUERY")
PAGING = ("offset", "page", "page0")
CONTEXTS = "contexts"

SEARCH = ("search_url", "mcp_server_url")

_NAMES = ("query", "top_k", *PAGING, *SEARCH)
_PLACEHOLDER = re.compile(r"\{(query|top_k|offset|page0|page|contexts|search_url|mcp_server_url)\}")
_SEARCH_PLACEHOLDER = re.compile(r"\{(search_url|mcp_server_url)\}")
_BRACED = re.compile(r"(?<!\$)\{(\w+)\}")
_URL_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_HEADER_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_URL_VALUES = re.compile(r"[?&]([^=&#?\s]+)=([^&#\s]+)")
_MAX_BODY_BYTES = 1_000_000
_FORM = "application/x-www-form-urlencoded"

Contexts = Sequence[Mapping[str, str]]
Values = Mapping[str, str | int | Contexts]


class CallValues(dict[str, str | int | Contexts]):
    """The values of one call's placeholders, with the addresses of `--search` if it has one."""

    def __init__(self, query: str, top_k: int, **more: str | int | Contexts) -> None:
        super().__init__({"query": query, "top_k": top_k, **more})
        if search := CURRENT_SEARCH.get():
            self |= dict(zip(SEARCH, (search.search_url, search.mcp_url), strict=True))

    def __missing__(self, name: str) -> str:
        raise UsageError(f"{{{name}}} is known only during a run with --search TARGET")


@dataclass(frozen=True, slots=True)
class WireCall:
    """One request, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None


@dataclass(frozen=True, slots=True)
class HeaderTemplates:
    """Headers as the user wrote them, with `$NAME` for what the environment holds."""

    written: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "HeaderTemplates":
        """Read every `Name: value`. Raises `UsageError`, also for a secret that is spelled out."""
        return cls(tuple(map(_parse_header, texts)))

    @property
    def sends_form(self) -> bool:
        """Whether the body is sent as a form and not as JSON."""
        return any(n.lower() == "content-type" and v.startswith(_FORM) for n, v in self.written)

    def check_variables(self) -> None:
        """Raise `UsageError` for a variable that is not set."""
        for name, value in self.written:
            _expand(_HEADER_VARIABLE, value, f"--header '{name}: ...'")

    def expand(self, values: Values) -> dict[str, str]:
        """The headers with the values of a call and the environment's. Raises `UsageError`."""
        headers = {}
        for name, written in self.written:
            value = _SEARCH_PLACEHOLDER.sub(lambda match: str(values[match[1]]), written)
            expanded = _expand(_HEADER_VARIABLE, value, f"--header '{name}: ...'")
            if not expanded.isascii() or not expanded.isprintable():
                raise UsageError(
                    f"--header '{name}: {value}' has characters that an HTTP header cannot carry; "
                    "check the variable it names"
                )
            headers[name] = expanded
        return headers


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A request with placeholders; `body` is JSON, or None for a request without one."""

    method: str
    url: str
    headers: HeaderTemplates
    body: Any = None

    @classmethod
    def parse(
        cls, url: str, *, request: str, method: str, headers: Sequence[str]
    ) -> "RequestTemplate":
        """Check everything that can be checked before the first call. Raises `UsageError`.

        Parameters:
            url: the address, with placeholders.
            request: JSON, `@FILE`, or an empty text for no body.
            method: an HTTP method; by default POST with a body, else GET.
            headers: `Name: value` each.
        """
        body = read_body_template(request)
        verb = (method or ("POST" if request else "GET")).upper()
        if verb not in METHODS:
            raise UsageError(f"the HTTP method {method!r} is not one of {', '.join(METHODS)}")
        check_url(url)
        template = cls(verb, url, HeaderTemplates.parse(headers), body)
        if template.headers.sends_form and not _is_flat(body):
            raise UsageError(
                f"a body of {_FORM} needs an object of texts, numbers and lists of these in "
                '--request: {"q": "{query}", "limit": "{top_k}"}'
            )
        if "query" not in template.placeholders():
            raise UsageError(
                "neither the URL nor --request contains {query}; write it where the query goes, "
                "such as rest:https://host/search?q={query}&size={top_k}"
            )
        template.headers.check_variables()
        _expand(_URL_VARIABLE, url, "the URL")
        return template

    def placeholders(self) -> frozenset[str]:
        """The names of the placeholders in use."""
        return frozenset(_PLACEHOLDER.findall(self.url)) | frozenset(_names_in(self.body))

    @property
    def takes_contexts(self) -> bool:
        """Whether the body has a place for documents to answer from."""
        return has_contexts(self.body)

    @property
    def paged(self) -> bool:
        """Whether further pages can be requested."""
        return not self.placeholders().isdisjoint(PAGING)

    def fill(self, values: Values) -> WireCall:
        """The request for one query. Raises `UsageError` if a variable is gone."""
        url = fill_url(self.url, values)
        headers = {"Accept": "application/json"}
        content = None
        if self.body is not None:
            filled = fill_json(self.body, values)
            content = _form(filled) if self.headers.sends_form else orjson.dumps(filled)
            headers["Content-Type"] = _FORM if self.headers.sends_form else "application/json"
        given = self.headers.expand(values)
        headers = {n: v for n, v in headers.items() if n not in map(str.title, given)} | given
        return WireCall(self.method, url, headers, content)


def _form(body: Mapping[str, Any]) -> bytes:
    """A form with the values as JSON writes them: `true`, not `True`."""
    texts = {
        key: [each if isinstance(each, str) else json.dumps(each) for each in _as_list(value)]
        for key, value in body.items()
    }
    return urlencode(texts, doseq=True).encode()


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_flat(body: Any) -> bool:
    return isinstance(body, dict) and not any(
        isinstance(each, dict | list) for value in body.values() for each in _as_list(value)
    )


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
            f'{{"query": "{{query}}", "size": "{{top_k}}"}}; for a form, add --header '
            f"'Content-Type: {_FORM}'; for a body of another kind, use a function, "
            "python:module:function"
        ) from None
    remember_secrets(*secret_fields(body))
    return body


def fill_url(url: str, values: Values) -> str:
    """The URL with percent-encoded values."""
    expanded = _expand(_URL_VARIABLE, url, "the URL", lambda text: quote(text, safe=""))
    return _PLACEHOLDER.sub(lambda match: quote(str(values[match[1]]), safe=""), expanded)


def fill_json(body: Any, values: Values) -> Any:
    """A copy of `body` with its placeholders replaced.

    A string that is exactly one placeholder becomes the value itself, a number where it is one; in
    a longer string the value is inserted as text. Keys stay as they are. `"{contexts}"` becomes a
    list of `{"id", "title", "text"}`; where no contexts are given, its key is left out.
    """
    if isinstance(body, str):
        whole = _PLACEHOLDER.fullmatch(body)
        if whole:
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda match: _as_text(_value_of(match[1], values)), body)
    if isinstance(body, dict):
        return {
            key: fill_json(each, values) for key, each in body.items() if not _is_left(each, values)
        }
    if isinstance(body, list):
        return [fill_json(each, values) for each in body if not _is_left(each, values)]
    return body


def _is_left(value: Any, values: Values) -> bool:
    """Whether a value stands for contexts that are not given: the service is to search then."""
    return bool(value == f"{{{CONTEXTS}}}" and CONTEXTS not in values)


def _value_of(name: str, values: Values) -> str | int | Contexts:
    return values.get(name, "") if name == CONTEXTS else values[name]


def _as_text(value: str | int | Contexts) -> str:
    if isinstance(value, str | int):
        return str(value)
    return "\n\n".join(f"[{each['id']}] {each['title']}\n{each['text']}" for each in value)


def _names_in(body: Any) -> list[str]:
    if isinstance(body, str):
        return _PLACEHOLDER.findall(body)
    inner = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return [name for each in inner for name in _names_in(each)]


def has_contexts(body: Any) -> bool:
    """Whether a body has a place for documents to answer from."""
    return CONTEXTS in _names_in(body)


def check_url(url: str) -> None:
    """Raise `UsageError` for no http(s) URL, unknown placeholders, secrets that are spelled out."""
    split_address(url)
    host = urlsplit(url).netloc if "://" in url else url.partition("/")[0]
    if "{" in host:
        raise UsageError("a placeholder or variable must not be in the host of a rest: URL")
    for name in _BRACED.findall(url):
        if name not in _NAMES:
            known = ", ".join(f"{{{each}}}" for each in _NAMES)
            hint = did_you_mean(f"{{{name}}}", [f"{{{each}}}" for each in _NAMES])
            raise UsageError(f"{{{name}}} in the URL is not a placeholder; known are {known}{hint}")
    for name, value in _URL_VALUES.findall(url):
        if SECRET_NAME.fullmatch(name) and not _URL_VARIABLE.search(value) and "{" not in value:
            variable = re.sub(r"\W", "_", name).upper()
            raise UsageError(
                f"{name!r} in the URL looks like a secret, which would be stored with the run; set "
                f"a variable and write '{name}=${{{variable}}}', in single quotes"
            )


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise UsageError("--header must be 'Name: value', such as 'Authorization: Bearer $TOKEN'")
    if not value or not value.isprintable():
        raise UsageError(f"--header '{name}: ...' has no value, or one with control characters")
    variables = [match for match in _HEADER_VARIABLE.finditer(value) if match[0] != "$$"]
    if SECRET_NAME.fullmatch(name) and not variables:
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
        if match[0] == "$$":
            return "$"
        name = next(filter(None, match.groups()))
        found = os.environ.get(name)
        if not found:
            raise UsageError(f"{where} needs the environment variable {name}, which is not set")
        remember_secrets(found, encode(found))
        return encode(found)

    return pattern.sub(value, text)
