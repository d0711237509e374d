"""Secrets inside a target or a setting: masked where the text is taken in, and kept apart.

A `SecretText` is the masked text: whatever prints, stores, compares or sends it has the masked form
without having to know of it. What connects to an agent asks for the full form with `reveal`. What
was masked cannot be read back from a file: a run that needs it again is given it again.
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote

from assay.errors import UsageError

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
_URL = re.compile(
    r"https?://[^/?#\s'\"]+(?P<path>/[^?#\s'\"]*)?(?:\?[^#\s'\"]*)?(?P<fragment>#\S+)?"
)
_SEGMENT = re.compile(r"[\w.~%+=-]{20,}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# Not from a capital to a small letter: that is how words begin in the names of functions.
_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_CHANGES_PER_CHARACTER = 0.25
"""At least so many of small letters, capitals and digits in a random text, and fewer in a name."""
_USER = re.compile(r"(?<=://)(?P<secret>[^\s/?#@]*(?:@[^\s/?#@]*)*)(?=@)")
_KNOWN_KEY = re.compile(
    r"\b(?P<secret>(?:sk|pk|rk)-[\w-]{12,}|gh[opsu]_\w{20,}|xox[abp]-[\w-]{10,}|AKIA\w{12,}"
    r"|eyJ[\w-]{10,}\.[\w.-]+)"
)
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
    ) -> "SecretText":
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
    plain = unquote(secret)
    scheme, _, credentials = plain.partition(" ")
    if scheme.lower() in _SCHEMES and credentials:
        plain = credentials
    password = plain.partition(":")[2]
    spelled = [plain, password, secret.partition(":")[2]] if password else [plain]
    encoded = [quote(each, safe="") for each in spelled]
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
    for url in _URL.finditer(text):
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
