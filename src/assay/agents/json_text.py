"""JSON inside text: as a whole, in a code fence, or in the middle of prose."""

import json
import re
from collections.abc import Iterator

import orjson

from assay.net.json import is_deep, parse_json

_MOST_STARTS = 64
"""How many braces in a text are tried as the start of an object: prose may be full of them."""
_FENCE = re.compile(r"```[\w-]{0,20}[ \t]*\n(.*?)```", re.DOTALL)
_MOST_FENCES = 16

_decoder = json.JSONDecoder()


def json_values(text: str) -> Iterator[object]:
    """Every JSON value in a text, likeliest first: the text itself, code fences, objects in it."""
    try:
        yield parse_json(text)
        return
    except orjson.JSONDecodeError:
        pass
    for place, fenced in enumerate(_FENCE.finditer(text)):
        if place == _MOST_FENCES:
            break
        try:
            yield parse_json(fenced[1])
        except orjson.JSONDecodeError:
            continue
    yield from _embedded(text)


def _embedded(text: str) -> Iterator[object]:
    """JSON objects in the middle of other text."""
    start = 0
    for _ in range(_MOST_STARTS):
        start = text.find("{", start)
        if start < 0:
            return
        try:
            value, start = _decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
        else:
            if not is_deep(value):
                yield value
