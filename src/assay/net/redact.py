"""Redaction: removes secrets, addresses, paths and terminal controls.

Text from elsewhere is made harmless before it reaches a log, a report or a terminal. Agents, data
sets and files may hold anything.
"""

import re

from assay.net.secret_text import environment_secrets, hide, mask_secrets
from assay.privacy import is_private

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
# Patterns of API keys: services quote a wrong key back, in part or in full.
_KEY = re.compile(r"\b(?:sk|pk|key|api)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
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
_QUOTE_LENGTH = 200
QUOTE_LENGTH = 300
_QUOTED_BYTES = 20 * QUOTE_LENGTH
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
    return _CREDENTIALS.sub("***@", text)


def redact_secrets(text: str, *secrets: str | None, length: int = _QUOTE_LENGTH) -> str:
    """A service's message on one short line, without `secrets` or anything like a key.

    The keys and tokens in this process's environment are always among the secrets: a service may
    repeat the one that it was sent. Empty in private mode: it may repeat the text as well.
    """
    return "" if is_private() else _cleaned(text, *secrets, length=length)


def _cleaned(text: str, *secrets: str | None, length: int) -> str:
    text = hide(printable(text), [*filter(None, secrets), *environment_secrets()])
    return _KEY.sub("***", " ".join(text.split()))[:length]


def quote(text: str | bytes, *secrets: str | None, private: bool | None = None) -> str:
    """An agent's own words, as a report may quote them: the one way for every protocol.

    On one line of at most 300 characters, without control characters, `secrets` and anything like
    a key. Of an error in JSON the message alone, of a page its title. Empty in private mode, that
    of the process unless `private` says otherwise: an agent may repeat what it was asked.
    """
    if is_private() if private is None else private:
        return ""
    start = text[:_QUOTED_BYTES]
    if isinstance(start, bytes):
        start = start.decode("utf-8", "replace")
    return _cleaned(_message_in(start), *secrets, length=QUOTE_LENGTH)


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
