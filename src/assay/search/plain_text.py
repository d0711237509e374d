"""Text that every part below can take: no lone surrogates, no control characters."""

import re

# C0 and C1 controls except tab, line feed and carriage return, which are white space.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """JSON may hold half a surrogate pair, which no UTF-8 engine accepts; NUL ends C strings."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub(" ", text)
