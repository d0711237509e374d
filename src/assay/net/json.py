"""JSON documents from outside: requests, responses and files of other programs."""

import json
from collections.abc import Container
from typing import Any

import orjson

from assay.net.redact import printable
from assay.privacy import is_private

JsonObject = dict[str, Any]  # of a foreign document, whose shape is not ours to declare

_PIECE = 160
_TEXT_PIECE = 24

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


def is_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Whether more than `most` lists and objects are nested in a value."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
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
    """A value as a short piece of JSON for a message: texts cut, long lists counted. Withheld in
    private mode.
    """
    if is_private():
        return "(withheld)"
    if isinstance(value, str):
        text = " ".join(value[: 4 * _PIECE].split())
    else:
        text = json.dumps(_outline(value, 4), ensure_ascii=False, default=str)
    text = printable(text)
    return text if len(text) <= _PIECE else text[:_PIECE] + "…"


def _outline(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_PIECE else value[:_TEXT_PIECE] + "…"
    if isinstance(value, dict):
        items = list(value.items())[:8]
        return {str(key)[:40]: _outline(each, depth - 1) for key, each in items} if depth else "…"
    if isinstance(value, list):
        more = [f"… {len(value)} items"] if len(value) > 2 else []
        return [_outline(each, depth - 1) for each in value[:2]] + more if depth else more
    return value
