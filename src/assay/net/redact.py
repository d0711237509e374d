"""Redaction: removes secrets, addresses, paths and terminal controls.

Text from elsewhere is made harmless before it reaches a log, a report or a terminal. Agents, data
sets and files may hold anything.
"""

import re

PLACE = "a URL from its settings"

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Escape sequences move the cursor, change titles and can forge lines; bidirectional overrides show
# a text in another order than it has.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators, bidirectional controls
    "\ud800-\udfff]"  # lone surrogates, which no terminal can be sent
)
# Patterns of API keys: services quote a wrong key back, in part or in full.
_KEY = re.compile(r"\b(?:sk|pk|key|api)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_PLAIN_HOST = re.compile(r"(\[[^\]@]*\]|[^:@\[\]]*)(:\d*)?")
_URL = re.compile(r"""['"]?\b[a-z][a-z0-9+.-]*://[^\s'",;)]+['"]?""", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=://)[^\s/?#]*@")
_HOST_AND_PORT = re.compile(
    r"(?:\blocalhost|\b\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\]):\d{1,5}\b"
)
# In quotes a path may hold spaces. Drives and backslashes are those of Windows.
_PATH = re.compile(
    r"""(?P<quote>['"])(?:[^'"\n]*[/\\])(?P<quoted>[^'"/\\\n]*)(?P=quote)"""
    r"""|(?:[A-Za-z]:)?[^\s'",;:(]*[/\\](?P<bare>[^\s/\\'",;:)]*)"""
)
_QUOTE_LENGTH = 200


def redact_url(url: str) -> str:
    """The address without user, password, query and fragment, any of which may be a key.

    Of a URL that cannot be parsed, as much is kept as is certainly not a password.
    """
    scheme, separator, rest = re.split(r"[?#]", url, maxsplit=1)[0].partition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    if separator and not _PLAIN_HOST.fullmatch(host):
        host, slash, path = "...", "", ""
    return f"{scheme}{separator}{host}{slash}{path}"


def redact_credentials(text: str) -> str:
    """A text without the user names and passwords of the URLs in it."""
    return _CREDENTIALS.sub("***@", text)


def redact_secrets(text: str, *secrets: str | None, length: int = _QUOTE_LENGTH) -> str:
    """A service's message on one short line, without `secrets` or anything like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return _KEY.sub("***", " ".join(text.split()))[:length]


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
