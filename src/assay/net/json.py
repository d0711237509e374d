"""JSON documents from outside: requests, responses and files of other programs."""

from collections.abc import Container
from reprlib import Repr
from typing import Any

import orjson

from assay.net.redact import redact_secrets

JsonObject = dict[str, Any]  # of a foreign document, whose shape is not ours to declare

_PIECE = 160  # characters of a document that a message quotes
_SHAPE = Repr()
_SHAPE.maxlevel, _SHAPE.maxdict, _SHAPE.maxlist, _SHAPE.maxstring = 4, 8, 2, 40

# What walks, prints or writes a document again has a stack, and the parser alone would hand it a
# thousand levels.
MAX_DEPTH = 128
# No figure of a run is larger: as milliseconds, it is 30,000 years.
LARGEST = 1e15


def parse_json(content: str | bytes) -> Any:
    """The value in `content`. Raises `orjson.JSONDecodeError`, also if it is nested too deeply."""
    value = orjson.loads(content)
    if is_too_deep(value, content):
        text = content if isinstance(content, str) else ""
        raise orjson.JSONDecodeError(f"nested more than {MAX_DEPTH} deep", text, 0)
    return value


def parse_object(content: str | bytes) -> JsonObject | None:
    """The JSON object in `content`; None if it is not JSON, or not an object."""
    try:
        value = parse_json(content)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def is_too_deep(value: Any, content: str | bytes) -> bool:
    """Whether more than `MAX_DEPTH` lists and objects are nested in the value of a document."""
    # At least as many as there are levels, and counted in no time: most documents have few.
    signs = ("[", "{") if isinstance(content, str) else (b"[", b"{")
    openings = sum(map(content.count, signs))  # type: ignore[arg-type]
    return openings > MAX_DEPTH and is_deep(value)


def is_deep(value: Any) -> bool:
    """Whether more than `MAX_DEPTH` lists and objects are nested in a value."""
    # Level by level: a function that calls itself would meet Python's own limit on the way.
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            each
            for outer in level
            for each in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(each, dict | list)
        ]
    return bool(level)


def is_extreme(value: object, keys: Container[str] | None = None) -> bool:
    """Whether a number, or one within a JSON document, is too large to be a figure.

    Sums and scales of such numbers would be infinite. With `keys`, others of an object are not
    looked at.
    """
    if isinstance(value, float):
        return not -LARGEST <= value <= LARGEST
    if isinstance(value, dict):
        inner = [each for key, each in value.items() if not keys or key in keys]
    elif isinstance(value, list):
        inner = value
    else:
        return False
    # Ids and texts, most of a row of a run, are not looked at one by one.
    return any(is_extreme(each) for each in inner if isinstance(each, float | dict | list))


def shorten(value: Any) -> str:
    """A value on one short line for a message, texts and lists cut; "" in private mode."""
    text = value[: 4 * _PIECE] if isinstance(value, str) else _SHAPE.repr(value)
    return redact_secrets(text, length=_PIECE)
