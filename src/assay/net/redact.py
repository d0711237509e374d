"""Redaction: removes secrets, addresses, paths and terminal controls.

Secrets inside a target or a setting are masked where the text is taken in. A `SecretText` is the
masked text: whatever prints, stores, compares or sends it has the masked form without having to
know of it. What connects to an agent asks for the full form with `reveal`. What was masked cannot
be read back from a file: a run that needs it again is given it again.

Text from elsewhere is made harmless before it reaches a log, a report or a terminal. Agents, data
sets and files may hold anything.
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from urllib import parse

from assay.errors import UsageError
from assay.privacy import is_private

MASK = "***"
_SHORTEST = 4
"""Shorter ones are not looked for in other texts, where they may be anything."""

SECRET_NAME = re.compile(
    r"(?:.*[-_.])?(?:key|pwd|sig|signature|auth|authorization|cookie)|api-?key|access-?key"
    r"|.*(?:token|secret|password|passwd)",
    re.IGNORECASE,
)
"""Of a query's value, a header or a field that holds a secret."""

# Values of a URL's query that describe a search. All others are masked, unless they are plain words
# or numbers: nobody can list the names that services have for keys.
_SEARCH_NAMES = frozenset(
    {
        *("q", "query", "text", "question", "search", "s", "size", "limit", "k", "top_k", "topk"),
        *("top", "n", "num", "count", "rows", "start", "from", "offset", "page", "page0"),
        *("per_page", "format", "wt", "lang", "locale", "fields", "fl", "df", "index"),
        *("collection", "sort", "order", "type", "mode", "alpha", "filter", "search_type"),
        *("explain", "pretty", "hits", "yql", "ranking", "summary", "model", "task", "stream"),
    }
)
_PLACEHOLDER = re.compile(r"\$?\{\w+\}")
_PLAIN_VALUE = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?|[a-z][a-z_.,:-]{0,39}")
"""Numbers and words in lower case, such as the names of fields."""
_SHORT_NAME = re.compile(
    r"(?i:p|pw|pass|code|app_?id|client_?id|credentials?|session|sid|ticket|sas)"
)

_QUERY_VALUE = re.compile(r"[?&](?P<name>[^=&#?\s]+)=(?P<secret>[^&#\s'\"]+)")
_FRAGMENT_VALUE = re.compile(r"[#&](?P<name>[^=&#\s]+)=(?P<secret>[^&#\s'\"]+)")
# A key may be a part of the path, as in the addresses of webhooks, or be the fragment.
_HTTP_URL = re.compile(
    r"https?://[^/?#\s'\"]+(?P<path>/[^?#\s'\"]*)?(?:\?[^#\s'\"]*)?(?P<fragment>#\S+)?"
)
_SEGMENT = re.compile(r"[\w.~%+=-]{20,}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# Not from a capital to a small letter: that is how words begin in the names of functions.
_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_CHANGES_PER_CHARACTER = 0.25
"""At least so many of small letters, capitals and digits in a random text, and fewer in a name."""
_USER = re.compile(r"(?<=://)(?P<secret>[^\s/?#@]*(?:@[^\s/?#@]*)*)(?=@)")
_KEY_FORMATS = (
    r"(?:sk|pk|rk)-[\w-]{12,}|gh[opsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_\w{20,}"
    r"|xox[abp]-[\w-]{10,}|AKIA\w{12,}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{10,}\.[\w.-]+"
)
_KNOWN_KEY = re.compile(rf"\b(?P<secret>{_KEY_FORMATS})")
_BEARER = re.compile(r"\bBearer\s+(?P<secret>[^\s'\"$][^\s'\"]*)", re.IGNORECASE)
_FIELD = re.compile(r"\"(?P<name>[\w.-]+)\"\s*:\s*\"(?P<secret>[^\"]+)\"")
_ARGUMENT = re.compile(r"^arg\.(?P<name>[\w.-]+)=(?P<secret>.+)$", re.DOTALL)
# What a command is given as variables, options and headers.
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
_COMMAND = "mcp-stdio:"
_SCHEMES = ("basic", "bearer", "token")
_SECRET_VARIABLE = re.compile(r".*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|_KEY)", re.IGNORECASE)
_SHORTEST_VARIABLE = 6
"""Shorter values, such as `none` and `test`, are words rather than keys."""


class SecretText(str):
    """A text without its secrets. `full` has them, `secrets` are they.

    Parameters:
        shown: the masked text, which this is.
        full: the text as it was given.
        secrets: what was masked.
    """

    full: str
    secrets: tuple[str, ...]

    def __new__(
        cls, shown: str, full: str | None = None, secrets: tuple[str, ...] = ()
    ) -> "SecretText":  # copying and pickling pass `shown` alone
        text = super().__new__(cls, shown)
        text.full, text.secrets = shown if full is None else full, secrets
        return text


def mask_secrets(text: str) -> str:
    """`text` itself if it holds no secret, else a `SecretText` of it."""
    if isinstance(text, SecretText):
        return text
    shown, end = "", 0
    secrets = []
    for start, stop in _merged(_spans(text)):
        shown += text[end:start] + MASK
        secrets.append(text[start:stop])
        end = stop
    return SecretText(shown + text[end:], text, tuple(secrets)) if secrets else text


def full_text(text: str) -> str:
    """The full form, so far as it is known."""
    return text.full if isinstance(text, SecretText) else text


def reveal(text: str) -> str:
    """The full form. Raises `UsageError` where it is not known: only the masked one was stored."""
    if not isinstance(text, SecretText) and MASK in text and _is_masked(text):
        raise UsageError(
            f"{text!r} has a secret that is not stored with a run; give it again in full, such as: "
            "assay eval TARGET --resume RUN"
        )
    return full_text(text)


def remove_secrets(words: str, texts: Iterable[str]) -> str:
    """What others say without the secrets of `texts`, which they may repeat."""
    found = {each for text in texts if isinstance(text, SecretText) for each in text.secrets}
    return hide(words, (each for each in found if len(each) >= _SHORTEST))


def hide(words: str, secrets: Iterable[str]) -> str:
    """`words` without the secrets, in every form in which they travel: as they were given, with
    and without the percent signs of a URL, a password without its user, both in Base64.
    """
    forms = {form for secret in secrets for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        words = words.replace(form, MASK)
    return words


def environment_secrets() -> list[str]:
    """The keys and tokens in the variables of this process, one of which an agent was sent."""
    return [
        value
        for name, value in os.environ.items()
        if _SECRET_VARIABLE.fullmatch(name) and len(value) >= _SHORTEST_VARIABLE
    ]


def _forms(secret: str) -> Iterator[str]:
    yield secret
    plain = parse.unquote(secret)
    scheme, _, credentials = plain.partition(" ")
    if scheme.lower() in _SCHEMES and credentials:
        plain = credentials
    password = plain.partition(":")[2]
    spelled = [plain, password, secret.partition(":")[2]] if password else [plain]
    encoded = [parse.quote(each, safe="") for each in spelled]
    in_base64 = [b64encode(plain.encode("utf-8", "replace")).decode()]
    yield from (each for each in (*spelled, *encoded, *in_base64) if len(each) >= _SHORTEST)


def _is_masked(text: str) -> bool:
    return any(f"{before}{MASK}" in text for before in ("=", "/", "#", " ", '"'))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    is_command = text.strip().lower().startswith(_COMMAND)
    patterns = [_USER, _KNOWN_KEY, _BEARER]
    patterns += [_VARIABLE, _OPTION, _HEADER] if is_command else []
    for pattern in patterns:
        for match in pattern.finditer(text):
            yield from _given(match)
    for match in _QUERY_VALUE.finditer(text):
        name, value = match["name"], match["secret"]
        harmless = name.lower() in _SEARCH_NAMES or _PLAIN_VALUE.fullmatch(value)
        if SECRET_NAME.fullmatch(name) or _SHORT_NAME.fullmatch(name) or not harmless:
            yield from _given(match)
    for url in _HTTP_URL.finditer(text):
        for part in ("path", "fragment"):
            found = _SEGMENT.finditer(text, *url.span(part)) if url[part] else ()
            yield from (each.span() for each in found if _is_random(each[0]))
    for pattern in (_FIELD, _ARGUMENT, _FRAGMENT_VALUE):
        for match in pattern.finditer(text):
            if SECRET_NAME.fullmatch(match["name"]):
                yield from _given(match)


def _is_random(segment: str) -> bool:
    """Whether it looks like a key rather than a name: its kinds of characters change often."""
    if _UUID.fullmatch(segment):  # of a collection or an index, as a rule
        return False
    changes = len(_CHANGE.findall(segment))
    return changes >= _CHANGES_PER_CHARACTER * len(segment) and any(map(str.isdigit, segment))


def _given(match: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Where the value is, unless it only names a variable or is masked already."""
    for group in ("secret", "quoted", "double"):
        if group in match.re.groupindex and match[group]:
            value = match[group]
            if value != MASK and not _PLACEHOLDER.fullmatch(value) and value[0] != "$":
                yield match.span(group)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


PLACE = "a URL from its settings"

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Escape sequences move the cursor, change titles and can forge lines; bidirectional overrides show
# a text in another order than it has.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators, bidirectional controls
    "\ud800-\udfff"  # lone surrogates, which no terminal can be sent
    "\ufffe\uffff]"  # no characters: XML may not hold them
)
# Services quote a wrong key back, in part or in full: looser than what is looked for in a target.
# Without a digit or an asterisk it is a word, such as "api-version".
_KEY = re.compile(
    r"\b(?:(?i:(?:sk|pk|key|api)[-_](?=[\w.\-]{0,99}[\d*])[\w*.\-]{6,}|Bearer\s+\S+)"
    rf"|{_KEY_FORMATS})"
)
_PLAIN_HOST = re.compile(r"(\[[^\]@]*\]|[^:@\[\]]*)(:\d*)?")
_URL = re.compile(r"""['"]?[a-z][a-z0-9+.-]{0,30}://[^\s'",;)]+['"]?""", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=://)[^\s/?#]*@")
_HOST_AND_PORT = re.compile(
    r"(?:\blocalhost|\b\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\]):\d{1,5}\b"
)
# In quotes a path may hold spaces. Drives and backslashes are those of Windows.
_PATH = re.compile(
    r"""(?P<quote>['"])(?:[^'"\n]*[/\\])(?P<quoted>[^'"/\\\n]*)(?P=quote)"""
    r"""|(?:(?<![^\s'",;:(])(?:[A-Za-z]:)?|(?=[/\\]))[^\s'",;:(]*[/\\](?P<bare>[^\s/\\'",;:)]*)"""
)
_MESSAGE_LENGTH = 200
_QUOTE_LENGTH = 300
_QUOTED_BYTES = 20 * _QUOTE_LENGTH
_MESSAGE_FIELDS = ("message", "detail", "error_description", "reason", "title", "error")
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_MARKUP = re.compile(r"([\\`*_\[\]<>|#~])")


def redact_url(url: str) -> str:
    """The address without user, password, query and fragment, any of which may be a key, and with
    what looks like one in the path masked.

    Of a URL that cannot be parsed, as much is kept as is certainly not a password.
    """
    scheme, separator, rest = re.split(r"[?#]", url, maxsplit=1)[0].partition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    if separator and not _PLAIN_HOST.fullmatch(host):
        host, slash, path = "...", "", ""
    # An address within the path, such as that behind a proxy, has credentials of its own.
    return str(mask_secrets(_CREDENTIALS.sub("", f"{scheme}{separator}{host}{slash}{path}")))


def redact_credentials(text: str) -> str:
    """A text without the user names and passwords of the URLs in it."""
    return _CREDENTIALS.sub(f"{MASK}@", text)


def redact_secrets(text: str, *secrets: str | None, length: int = _MESSAGE_LENGTH) -> str:
    """A service's message on one short line, without `secrets` or anything like a key.

    The keys and tokens in this process's environment are always among the secrets: a service may
    repeat the one that it was sent. Empty in private mode: it may repeat the text as well.
    """
    return "" if is_private() else _cleaned(text, *secrets, length=length)


def _cleaned(text: str, *secrets: str | None, length: int) -> str:
    text = hide(printable(text), [*filter(None, secrets), *environment_secrets()])
    return _KEY.sub(MASK, redact_credentials(" ".join(text.split())))[:length]


def quote(text: str | bytes, *secrets: str | None) -> str:
    """An agent's own words, as a report may quote them: the one way for every protocol.

    On one line of at most 300 characters, without control characters, `secrets` and anything like
    a key. Of an error in JSON the message alone, of a page its title. Empty in private mode: an
    agent may repeat what it was asked.
    """
    if is_private():
        return ""
    start = text[:_QUOTED_BYTES]
    if isinstance(start, bytes):
        start = start.decode("utf-8", "replace")
    return _cleaned(_message_in(start), *secrets, length=_QUOTE_LENGTH)


def _message_in(text: str) -> str:
    """The part of an error body that was written for people."""
    if page := _PAGE.match(text):
        title = _TITLE.search(text, page.end())
        return title[1] if title else _TAG.sub(" ", text)
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
    """A message without this machine's folders and addresses: of a path the file name is left.

    Errors name places for the operator of a server. Its callers learn what is wrong, and not where
    things are kept.
    """
    for address in (_URL, _HOST_AND_PORT):
        sentence = address.sub(PLACE, sentence)
    return _PATH.sub(_file_name, sentence)


def _file_name(path: re.Match[str]) -> str:
    if path["quote"]:
        return repr(path["quoted"] or "...")
    return path["bare"] or "..."


def printable(text: str) -> str:
    """The text with terminal controls and bidirectional overrides replaced by U+FFFD."""
    return text if text.isascii() and text.isprintable() else _CONTROLS.sub(_REPLACEMENT, text)


def printable_json(text: str) -> str:
    """The same JSON with such characters written as `\\u009b`: programs read it as before."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def markdown_text(text: str) -> str:
    """Foreign words in one line of Markdown, in which nothing is markup."""
    return _MARKUP.sub(r"\\\1", printable(" ".join(text.split())))
