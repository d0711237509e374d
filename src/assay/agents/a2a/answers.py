"""The answer in the parts of an A2A reply.

`{"doc_ids": [...]}` may be a data part, or text that is JSON, has it in a code fence, or wraps it
in prose. A list without its object violates the contract and is reported as such, with the mapping
that would read it. `--map` reads any other form, and `#text` takes prose for the answer.
"""

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.agents.detection import json_values, marked_ids
from assay.agents.mapping import AnswerReader, Received
from assay.agents.protocol import AgentAnswer
from assay.agents.python_call import read_answer
from assay.agents.suggestion import suggest_pattern
from assay.errors import AgentFailure, FailureKind

Parts = list[Mapping[str, Any]]
Sources = Sequence[Sequence[Mapping[str, Any]]]
"""Where an answer may be, likeliest first; each is a list of parts."""

_FEWEST_PIECES = 4
_LONGEST_PIECE = 40
PLAIN_TEXT_HINT = "for an agent that takes a question in plain text, use a2a:URL#text"
_NO_JSON = "the agent's answer contains no JSON"


class ReplyReader:
    """Reads the answer from a reply.

    Parameters:
        mapping: what `--map` says, parsed; without it, the answer is `{"doc_ids": [...]}`.
        known: the ids of the data set.
        prose: whether the agent answers in prose, with ids in brackets.
    """

    def __init__(
        self,
        mapping: Mapping[str, str] | None = None,
        known: Container[str] = (),
        *,
        prose: bool = False,
    ) -> None:
        self._mapping = mapping or {}
        self._known = known
        self._prose = prose
        self.reader = AnswerReader(self._mapping, known)

    def read(self, sources: Sources) -> AgentAnswer:
        """The answer. Raises `AgentFailure` if there is none."""
        received = _received(sources)
        self.reader.last = received
        if self._prose:
            return self._read_prose(sources, received)
        if self._mapping:
            return read_mapped(sources, self.reader)
        try:
            return find_answer(sources)
        except AgentFailure as failure:
            raise self.reader.with_suggestion(failure, received) from None

    def _read_prose(self, sources: Sources, received: Received) -> AgentAnswer:
        if any(True for source in sources for _ in _values(source)):
            return read_mapped(sources, self.reader)
        if "ids" in self._mapping:
            answer = self.reader.read(received)
        elif ids := marked_ids(received.text, self._known):
            answer = AgentAnswer(ids, citations=ids)
        elif suggest_pattern(received.text, self._known):
            message = "the answer names documents, but not as [ID]"
            failure = AgentFailure(FailureKind.INVALID_ANSWER, message)
            raise self.reader.with_suggestion(failure, received)
        else:
            answer = AgentAnswer(())  # it has named none
        return answer if answer.answer is not None else replace(answer, answer=received.text)


def find_answer(sources: Sources) -> AgentAnswer:
    """The first object with `doc_ids`, in the order of `sources`."""
    other: object = None
    parts = 0
    for source in sources:
        parts += len(source)
        for value in _values(source):
            if isinstance(value, Mapping) and "doc_ids" in value:
                return read_answer(value)
            other = value if other is None else other
    raise AgentFailure(FailureKind.INVALID_ANSWER, _what_instead(other, parts))


def read_mapped(sources: Sources, reader: AnswerReader) -> AgentAnswer:
    """What `--map` finds in the first value that it fits, or in the text of all parts."""
    text = _text(sources)
    failure: AgentFailure | None = None
    for source in sources:
        for value in _values(source):
            try:
                return reader.read(Received(text or json.dumps(value), value))
            except AgentFailure as error:
                failure = failure or error
    if failure is not None:
        raise failure
    return reader.read(Received(text, problem=_NO_JSON))


def texts_of(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The texts of parts."""
    for part in parts:
        if isinstance(part.get("text"), str):
            yield part["text"]


def _text(sources: Sources) -> str:
    return "\n".join(filter(None, map(_joined, sources)))


def _joined(parts: Sequence[Mapping[str, Any]]) -> str:
    """The texts of parts. Many short ones are the pieces of a text that was streamed."""
    texts = list(texts_of(parts))
    pieces = len(texts) >= _FEWEST_PIECES and sum(map(len, texts)) < _LONGEST_PIECE * len(texts)
    return "".join(texts).strip() if pieces else "\n".join(text.strip() for text in texts)


def _received(sources: Sources) -> Received:
    """All text, and the first value that there is."""
    text = _text(sources)
    for source in sources:
        for value in _values(source):
            return Received(text or json.dumps(value), value)
    return Received(text, problem=_NO_JSON)


def _values(parts: Sequence[Mapping[str, Any]]) -> Iterator[object]:
    """Everything that could be the answer: data first, because text often only repeats it."""
    for part in parts:
        data = part.get("data")
        if data is not None:
            yield data
            if isinstance(data, Mapping) and isinstance(data.get("data"), Mapping):
                yield data["data"]  # the protobuf form of 0.3 has one more layer
    texts = list(texts_of(parts))
    for text in texts:
        yield from json_values(text)
    if len(texts) > 1:  # a text that was streamed in pieces
        yield from json_values("".join(texts))


def _what_instead(other: object, parts: int) -> str:
    if isinstance(other, Mapping):
        return "the answer is an object without 'doc_ids'"
    if other is not None:
        return f"the answer is a {type(other).__name__}, not an object with 'doc_ids'"
    missing = f"no JSON object with 'doc_ids' in {parts} part{'' if parts == 1 else 's'}"
    return f"{missing}; {PLAIN_TEXT_HINT}" if parts else missing
