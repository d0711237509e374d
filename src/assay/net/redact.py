"""Redaction: removes secrets, addresses, paths and terminal controls.

Secrets are known by value, not by form, so that they are found in whatever text enters a run: an
agent may repeat what it was sent, an exception may hold what its function read.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib import parse

from assay.errors import UsageError
from assay.privacy import is_private

# What callers of Assay's servers send; who may change what a server holds; what an agent under
# test, and an MCP server, ask for.
SERVER_TOKEN_VARIABLE = "ASSAY_TOKEN"
ADMIN_TOKEN_VARIABLE = "ASSAY_ADMIN_TOKEN"
AGENT_TOKEN_VARIABLE = "AGENT_TOKEN"
MCP_TOKEN_VARIABLE = "MCP_SERVER_TOKEN"
# Secrets of Assay's servers, which no process that is under test gets.
OWN_SECRETS = (SERVER_TOKEN_VARIABLE, ADMIN_TOKEN_VARIABLE)

MASK = "***"
# Shorter ones are not looked for in other texts, where they may be anything.
_MIN_SECRET = 6
# Shorter values of variables, such as `none` and `test`, are words rather than keys.
_MIN_VARIABLE = 8
# Every quoted text is searched for each: visitors must not slow a server down by naming more.
_MAX_KNOWN = 1000

# The name of a query's value, a header, a field or a variable that holds a secret.
SECRET_NAME = re.compile(
    r"(?:.*[-_.])?(?:keys?|pwd?|pass|sig|signature|auth|authorization|cookie|session|credentials?)"
    r"|api-?keys?|access-?key|.*(?:token|secret|password|passwd)s?",
    re.IGNORECASE,
)

# Values of a URL's query that describe a search. Others are masked, unless they are plain words or
# numbers: nobody can list the names that services have for keys.
_PUBLIC_VALUE = re.compile(
    r"(?:q|query|text|question|search|s|index|collection|filter|fields|fl|sort|yql|model|lang)=.*"
    r"|[^=]*=(?:-?\d{1,6}(?:\.\d{1,6})?|[a-z][a-z_.,:-]{0,39})",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\$?\{\w+\}")
# A name and its value in the query of a URL.
URL_VALUE = re.compile(r"[?&#](?P<name>[^=&#?\s]+)=(?P<secret>[^&#\s'\"]+)")
_HTTP_URL = re.compile(r"https?://[^/?#\s'\"]+(?P<path>/[^?#\s'\"]*)?[^#\s'\"]*(?P<end>#\S+)?")
# A key may be a part of the path, as in the addresses of webhooks, or the fragment. In names,
# letters and digits do not alternate as often; ids of collections are UUIDs.
_PATH_SEGMENT = re.compile(r"[\w.~%+=-]{16,}", re.ASCII)
_ALTERNATION = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_CREDENTIALS = re.compile(r"(?<=://)(?P<secret>[^\s/?#]*)@")
_BEARER = re.compile(r"\bBearer\s+(?P<secret>[^\s'\"$][^\s'\"]*)", re.IGNORECASE)
_ARGUMENT = re.compile(r"^arg\.(?P<name>[\w.-]+)=(?P<secret>.+)$", re.DOTALL)
# What a command is given as variables, options and headers.
_COMMAND = "mcp-stdio:"
_VALUE = r"(?:'(?P<quoted>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<secret>[^\s'\"]+))"
_VARIABLE = re.compile(rf"(?:^|[\s:'\"=])[A-Za-z_]\w*={_VALUE}")
_OPTION = re.compile(
    r"(?<![\w-])(?=\w*-[\w-]*(?:key|token|secret|password|passwd|auth))"
    rf"[\w-]++(?:=|\s++){_VALUE}",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(?:\b(?:authorization|proxy-authorization|cookie)"
    r"|(?<![\w-])(?=[\w-]*\bx-)(?=[\w-]*(?:key|token|auth))[\w-]++)"
    r"\s*+:\s*+(?P<secret>[^'\"]++)",
    re.IGNORECASE,
)

_known: dict[str, None] = {}


def remember_secrets(*values: str | None) -> None:
    """Have `redact_known` replace these values from now on, in this process."""
    for value in values:
        if value and len(value) >= _MIN_SECRET:
            _known[value] = None
    while len(_known) > _MAX_KNOWN:
        del _known[next(iter(_known))]


def redact_known(text: str) -> str:
    """The text with `***` for each known secret of this process."""
    return hide(text, known_secrets())


def known_secrets() -> list[str]:
    """The values that were remembered, and those of variables such as OPENAI_API_KEY."""
    variables = [
        value
        for name, value in os.environ.items()
        # PWD is the working folder, not a password.
        if len(value) >= _MIN_VARIABLE and name != "PWD" and SECRET_NAME.fullmatch(name)
    ]
    return sorted({*_known, *variables}, key=len, reverse=True)


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text with `***` for each of these values."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


# A subclass of text: whatever prints, stores, compares or sends it has the masked form without
# having to know of it, and only what connects to an agent asks for the full one.
class SecretText(str):
    """A masked text; `full` is the text as it was given."""

    full: str

    def __new__(cls, shown: str, full: str | None = None) -> "SecretText":
        text = super().__new__(cls, shown)  # copying and pickling pass `shown` alone
        text.full = shown if full is None else full
        return text


def mask_secrets(text: str) -> str:
    """`text` itself if it holds no secret, else a `SecretText`; its secrets are remembered."""
    if isinstance(text, SecretText):
        return text
    shown, end = "", 0
    for start, stop in sorted(_spans(text)):
        if stop <= end:
            continue  # within one that is masked already
        start = max(start, end)
        secret = text[start:stop]
        remember_secrets(secret, parse.unquote(secret))
        shown += text[end:start] + (MASK if start > end or not end else "")
        end = stop
    return SecretText(shown + text[end:], text) if end else text


def full_text(text: str) -> str:
    """The full form, so far as it is known."""
    return text.full if isinstance(text, SecretText) else text


def reveal(text: str) -> str:
    """The full form. Raises `UsageError` if it is not known: only the masked one was stored."""
    masked = any(f"{before}{MASK}" in text for before in ("=", "/", "#", " ", '"'))
    if masked and not isinstance(text, SecretText):
        raise UsageError(
            f"{text!r} has a secret that is not stored with a run; give it again in full, such as: "
            "assay eval TARGET --resume RUN"
        )
    return full_text(text)


def secret_fields(value: Any, *, secret: bool = False) -> Iterator[str]:
    """The texts in a JSON value under names of secrets, however deep: `{"auth": {"id": "..."}}`."""
    if isinstance(value, str):
        if secret and not _PLACEHOLDER.search(value):
            yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            named = SECRET_NAME.fullmatch(name) is not None
            yield from secret_fields(each, secret=secret or named)
    elif isinstance(value, list):
        for each in value:
            yield from secret_fields(each, secret=secret)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    is_command = text.strip().lower().startswith(_COMMAND)
    for pattern in (_CREDENTIALS, _BEARER, *((_VARIABLE, _OPTION, _HEADER) if is_command else ())):
        for match in pattern.finditer(text):
            yield from _given(match)
    for match in URL_VALUE.finditer(text):
        public = _PUBLIC_VALUE.fullmatch(match[0][1:])
        if SECRET_NAME.fullmatch(match["name"]) or not public:
            yield from _given(match)
    for url in _HTTP_URL.finditer(text):
        for part in ("path", "end"):
            for segment in _PATH_SEGMENT.finditer(text, *url.span(part)) if url[part] else ():
                is_uuid = len(segment[0]) == 36 and segment[0].count("-") == 4
                if len(_ALTERNATION.findall(segment[0])) > 2 and not is_uuid:
                    yield segment.span()
    if (match := _ARGUMENT.search(text)) and SECRET_NAME.fullmatch(match["name"]):
        yield from _given(match)
    if text.lstrip().startswith(("{", "[")):
        from assay.net.json import parse_json  # `assay --help` needs no parser of JSON

        with suppress(ValueError):
            for secret in set(secret_fields(parse_json(text))):
                for match in re.finditer(f'"({re.escape(secret)})"', text):
                    yield match.span(1)


def _given(match: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Where the value is, unless it only names a variable or is masked already."""
    for group in ("secret", "quoted", "double"):
        if group in match.re.groupindex and match[group]:
            value = match[group]
            if value != MASK and not _PLACEHOLDER.fullmatch(value) and value[0] != "$":
                yield match.span(group)


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Escape sequences move the cursor, change titles and can forge lines; bidirectional overrides show
# a text in another order than it has.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators, bidirectional controls
    "\ud800-\udfff"  # lone surrogates, which no terminal can be sent
    "\ufffe\uffff]"  # no characters: XML may not hold them
)
_ADDRESS = re.compile(
    r"""['"]?[a-z][a-z0-9+.-]{0,30}://[^\s'",;)]+['"]?"""
    r"|(?:\blocalhost|\b\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\]):\d{1,5}\b",
    re.IGNORECASE,
)
# In quotes a path may hold spaces. Drives and backslashes are those of Windows.
_PATH = re.compile(
    r"""(?P<quote>['"])(?:[^'"\n]*[/\\])(?P<quoted>[^'"/\\\n]*)(?P=quote)"""
    r"""|(?:(?<![^\s'",;:(])(?:[A-Za-z]:)?|(?=[/\\]))[^\s'",;:(]*[/\\](?P<bare>[^\s/\\'",;:)]*)"""
)
MAX_QUOTE = 300  # characters that are shown of what a service or an agent says
_QUOTED_BYTES = 20 * MAX_QUOTE
_MESSAGE_FIELDS = ("message", "detail", "error_description", "reason", "title", "error")
_PAGE = ("<!doctype", "<html", "<head", "<body")
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_MARKUP = re.compile(r"([\\`*_\[\]<>|#~])")


def redact_url(url: str) -> str:
    """The address without user, password, query and fragment, and with keys in its path masked."""
    try:
        parts = parse.urlsplit(url)
        _ = parts.port  # raises for what is not a host with a port
    except ValueError:
        return f"{url.partition('://')[0]}://..."
    # An address within the path, such as that behind a proxy, may have credentials too.
    shown = parts._replace(query="", fragment="").geturl()
    return str(mask_secrets(_CREDENTIALS.sub("", shown)))


def redact_credentials(text: str) -> str:
    """A text without the user names and passwords of the URLs in it."""
    return _CREDENTIALS.sub(f"{MASK}@", text)


def redact_secrets(text: str, *secrets: str | None, length: int = MAX_QUOTE) -> str:
    """A service's message on one short line, without `secrets` and whatever else is known.

    Empty in private mode: it may repeat the text that it was sent.
    """
    if is_private():
        return ""
    remember_secrets(*secrets)
    return redact_credentials(" ".join(redact_known(printable(text)).split()))[:length]


def quote(text: str | bytes) -> str:
    """An agent's own words on one line of at most 300 characters, as a report may quote them.

    Of an error in JSON the message alone, of a page its title. Empty in private mode: an agent may
    repeat what it was asked.
    """
    start = text[:_QUOTED_BYTES]
    if isinstance(start, bytes):
        start = start.decode("utf-8", "replace")
    return redact_secrets(_message_in(start))


def _message_in(text: str) -> str:
    """The part of an error body that was written for people."""
    if text.lstrip()[:9].lower().startswith(_PAGE):
        title = _TITLE.search(text)
        return title[1] if title else "an HTML page without a title"
    from assay.net.json import parse_object  # `assay --help` needs no parser of JSON

    found = parse_object(text) if text.lstrip().startswith("{") else None
    for _ in range(3):  # {"error": {"message": "..."}} and the like
        if found is None:
            break
        values = [found.get(name) for name in _MESSAGE_FIELDS]
        words = next((each for each in values if isinstance(each, str) and each), None)
        if words is not None:
            return words
        found = next((each for each in values if isinstance(each, dict)), None)
    return text


def redact_places(sentence: str) -> str:
    """A message without this machine's folders and addresses: of a path the file name is left."""

    def file_name(path: re.Match[str]) -> str:
        return repr(path["quoted"] or "...") if path["quote"] else path["bare"] or "..."

    return _PATH.sub(file_name, _ADDRESS.sub("a URL from its settings", sentence))


def printable(text: str) -> str:
    """The text with terminal controls and bidirectional overrides replaced by U+FFFD."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub(_REPLACEMENT, text)


def printable_json(text: str) -> str:
    """The same JSON with such characters written as `\\u009b`: programs read it as before."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def markdown_text(text: str) -> str:
    """Foreign words in one line of Markdown, in which nothing is markup."""
    return _MARKUP.sub(r"\\\1", printable(" ".join(text.split())))
