"""JSON documents from outside: requests, responses and files of other programs."""

from typing import Any

import orjson

JsonObject = dict[str, Any]
"""An object of a foreign document, whose shape is not ours to declare."""


def parse_object(content: str | bytes) -> JsonObject | None:
    """The JSON object in `content`; None if it is not JSON, or not an object."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
