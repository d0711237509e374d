"""Takes the places of this machine out of a sentence: folders and addresses.

Errors of ours name them for the person who runs the server. Whoever merely calls it learns what
is wrong, and not where things are kept.
"""

import re

ADDRESS = "an address of its settings"

_URL = re.compile(r"""['"]?\b[a-z][a-z0-9+.-]*://[^\s'",;)]+['"]?""", re.IGNORECASE)
_HOST_AND_PORT = re.compile(
    r"(?:\blocalhost|\b\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\]):\d{1,5}\b"
)
# In quotes a path may hold spaces. Drives and backslashes are those of Windows.
_PATH = re.compile(
    r"""(?P<quote>['"])(?:[^'"\n]*[/\\])(?P<quoted>[^'"/\\\n]*)(?P=quote)"""
    r"""|(?:[A-Za-z]:)?[^\s'",;:(]*[/\\](?P<bare>[^\s/\\'",;:)]*)"""
)


def without_places(sentence: str) -> str:
    """Of a path the name of the file is left, of an address nothing."""
    for address in (_URL, _HOST_AND_PORT):
        sentence = address.sub(ADDRESS, sentence)
    return _PATH.sub(_name, sentence)


def _name(path: re.Match[str]) -> str:
    if path["quote"]:
        return repr(path["quoted"] or "...")
    return path["bare"] or "..."
