"""Finds the answer `{"doc_ids": [...]}` in the parts of an artifact or a message.

It may be a data part, or text that is JSON, has it in a code fence, or wraps it in prose. A list
without its object is not taken: an agent that answers so breaks the contract, and is told so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from assay.agents.protocol import AgentAnswer
from assay.agents.python_call import read_answer
from assay.errors import AgentFailure, FailureKind

_MOST_STARTS = 64
"""How many braces in a text are tried as the start of an object: prose may be full of them."""

_decoder = json.JSONDecoder()


def find_answer(sources: Sequence[Sequence[Mapping[str, Any]]]) -> AgentAnswer:
    """The first object with `doc_ids`, in the order of `sources`, each a list of parts."""
    other: object = None
    parts = 0
    for source in sources:
        parts += len(source)
        for value in _values(source):
            if isinstance(value, Mapping) and "doc_ids" in value:
                return read_answer(value)
            other = value if other is None else other
    raise AgentFailure(FailureKind.INVALID_ANSWER, _what_instead(other, parts))


def _values(parts: Sequence[Mapping[str, Any]]) -> Iterator[object]:
    """Everything that could be the answer: data first, since text often only repeats it."""
    for part in parts:
        data = part.get("data")
        if data is not None:
            yield data
            if isinstance(data, Mapping) and isinstance(data.get("data"), Mapping):
                yield data["data"]  # the protobuf form of 0.3 has one more layer
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    for text in texts:
        yield from _objects_in(text)
    if len(texts) > 1:  # a text that was streamed in pieces
        yield from _objects_in("".join(texts))


def _objects_in(text: str) -> Iterator[object]:
    try:
        yield orjson.loads(text)
    except orjson.JSONDecodeError:
        yield from _embedded(text)


def _embedded(text: str) -> Iterator[object]:
    """JSON objects amid other text. A fence needs no care of its own: it is text around one."""
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
            yield value


def _what_instead(other: object, parts: int) -> str:
    if isinstance(other, Mapping):
        return "the answer is an object without 'doc_ids'"
    if other is not None:
        return f"the answer is a {type(other).__name__}, not an object with 'doc_ids'"
    return f"no JSON object with 'doc_ids' in {parts} part{'' if parts == 1 else 's'}"
