"""Text from elsewhere, made harmless for a terminal: agents, data sets and files may hold anything.

Escape sequences move the cursor, change titles and can forge lines; bidirectional overrides show a
text in another order than it has. All of that is shown as a replacement character.
"""

import re

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators, bidirectional controls
    "\ud800-\udfff]"  # lone surrogates, which no terminal can be sent
)


def safe(text: str) -> str:
    return text if text.isascii() and text.isprintable() else _HARMFUL.sub(_REPLACEMENT, text)


def safe_json(text: str) -> str:
    """The same JSON, with what is harmful written as `\\u009b`: programs read it as before."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
