"""`--map KEY=EXPR`: where in an agent's answer the ids, the scores and the answer are.

The same for every protocol. `EXPR` is JMESPath over the answer, or `re:PATTERN` with one group that
is searched for in the answer's text. Without `ids`, the field is detected (see `detection`).
"""

import codecs
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jmespath
import orjson
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.llm.passages import ContextChunk
from assay.net.json import parse_json, shorten
from assay.steps import SearchStep
from assay.targets.answer_fields import find_steps, find_usage, read_contexts, read_steps
from assay.targets.detection import (
    IdDetector,
    detect_answer,
    detect_citations,
    detect_lines,
    detect_list,
    strings_in,
)
from assay.targets.protocol import AgentAnswer, document_id, is_unicode
from assay.targets.suggestion import suggest_mapping

EXPRESSIONS = ("ids", "scores", "titles", "texts", "answer", "citations", "contexts", "steps")
"""Keys whose value is an expression over the answer."""
ARGUMENTS = ("query", "top_k")
"""Keys that name arguments of an MCP tool."""
CONSTANT = "arg."
"""`arg.NAME=VALUE` sends an argument of an MCP tool with every call."""

_FIELDS = ("results", "doc_id")  # of the first version: a path to the list, a field of its items
_KEYS = (*EXPRESSIONS, *ARGUMENTS, *_FIELDS)
_NAMES = (*ARGUMENTS, "doc_id")  # a comma in these is a second mapping that is misspelled
_REGEX = "re:"
_MAX_LENGTH = 2000
_MAX_SUGGESTIONS = 20  # of one run: a suggestion looks through a whole answer
_PLACEHOLDER = 'an expression such as items[].[id || `"none"`][]'
_PLAIN_PATH = re.compile(r"[\w-]+(?:\.[\w-]+)*")

Texts = tuple[str, ...]
_Evaluate = Callable[["Received"], Any]
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Received:
    """What an agent sent: its text and, if it is JSON, its value.

    `problem` says why there is no value, for the message that follows. `messages` is whether the
    value is a list of messages, such as events of a stream, which are not all results.
    """

    text: str
    value: Any = _MISSING
    problem: str = ""
    messages: bool = False

    @classmethod
    def from_text(cls, content: str | bytes) -> "Received":
        """From a body that should be JSON in UTF-8, with a byte order mark or without."""
        if isinstance(content, bytes):
            content = content.removeprefix(codecs.BOM_UTF8)
        text = content if isinstance(content, str) else content.decode("utf-8", "replace")
        try:
            return cls(text, parse_json(content))
        except orjson.JSONDecodeError:
            return cls(text, problem="the answer is not JSON")

    def require_value(self) -> Any:
        """The value. Raises `AgentFailure` if the answer is not JSON."""
        if self.value is _MISSING:
            raise _invalid(
                f"{self.problem}; received {_shown(self.text)}; to read ids from text, write "
                "--map 'ids=re:PATTERN' with one group"
            )
        return self.value


def parse_mapping(texts: Sequence[str]) -> dict[str, str]:
    """Read every `KEY=EXPR`; of a key that is given twice, the last counts.

    One text may hold several, `query=q,top_k=limit,doc_id=id`, if each part has a key and none
    is a regular expression: a value may hold commas. Raises `UsageError`.
    """
    mapping: dict[str, str] = {}
    for text in texts:
        for part in _parts(text):
            key, _, value = part.partition("=")
            mapping[key.strip()] = value.strip()
    for key, value in mapping.items():
        if key in EXPRESSIONS or key == "results":
            _compile(key, value)
    return mapping


def _parts(text: str) -> list[str]:
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    if all(map(_is_mapping, pieces)) and not any("=re:" in piece for piece in pieces):
        return pieces
    first = pieces[0] if pieces else text
    wrong = next((piece for piece in pieces if not _is_mapping(piece)), text)
    names = first.partition("=")[0].strip() in _NAMES
    if not _is_mapping(first) or names:
        keys = ", ".join(_KEYS)
        raise UsageError(f"--map {wrong!r} is not KEY=EXPR; KEY is one of {keys}, or arg.NAME")
    return [text.strip()]


def _is_mapping(piece: str) -> bool:
    key, sign, value = piece.partition("=")
    key = key.strip()
    known = key in _KEYS or (key.startswith(CONSTANT) and len(key) > len(CONSTANT))
    return bool(sign and value.strip() and known)


def validate_keys(mapping: Mapping[str, str], kind: str) -> None:
    """Raise `UsageError` for keys that only MCP tools have, in the mapping of another target."""
    for key in mapping:
        if key in ARGUMENTS or key.startswith(CONSTANT):
            raise UsageError(
                f"--map {key}=... names an argument of an MCP tool, which {kind}: targets do not "
                "have; leave it out"
            )


class AnswerReader:
    """Reads ids, scores, texts, answer and citations from what an agent sent.

    Parameters:
        mapping: what `parse_mapping` returned.
        known: the ids of the data set, by which ids are detected if no expression names them.
    """

    def __init__(self, mapping: Mapping[str, str], known: Container[str] = ()) -> None:
        self.mapping = mapping
        self._evaluate: dict[str, _Evaluate] = {
            key: _compile(key, text)
            for key, text in mapping.items()
            if key in EXPRESSIONS or key == "results"
        }
        self._items = _projected(mapping.get("ids", ""))
        self._detector = IdDetector(known, mapping.get("doc_id"))
        self.known = known
        self._suggestions = 0
        self.last: Received | None = None
        """What was read last, for `assay doctor`."""

    def read(self, received: Received) -> AgentAnswer:
        """The answer. Raises `AgentFailure` if what was received cannot be one."""
        self.last = received
        try:
            return self._read(received)
        except AgentFailure as failure:
            raise self.with_suggestion(failure, received) from None

    def with_suggestion(self, failure: AgentFailure, received: Received) -> AgentFailure:
        """The failure with the mapping that finds ids of the data set in what was received."""
        self.last = received
        self._suggestions += 1
        if self._suggestions > _MAX_SUGGESTIONS:
            return failure
        suggestion = suggest_mapping(received.value, received.text, self.known)
        if not suggestion or suggestion == f"ids={self.mapping.get('ids')}":
            return failure
        return AgentFailure(failure.kind, f"{failure}; try: --map '{suggestion}'")

    def _read(self, received: Received) -> AgentAnswer:
        doc_ids = self.ids(received)
        value = None if received.value is _MISSING else received.value
        mapped = "answer" in self._evaluate
        answer = self._one_text("answer", received) if mapped else detect_answer(value)
        citations = self._texts("citations", received)
        return AgentAnswer(
            doc_ids,
            answer,
            detect_citations(value, answer, doc_ids) if citations is None else citations,
            scores=self._scores(received, len(doc_ids)),
            contexts=self._contexts(received, doc_ids, answer),
            steps=self._steps(received),
            usage=find_usage(value),
        )

    def _steps(self, received: Received) -> tuple[SearchStep, ...]:
        if "steps" in self._evaluate:
            return read_steps(self._list("steps", received))
        return find_steps(received.value)

    def _contexts(
        self, received: Received, doc_ids: Texts, answer: str | None
    ) -> tuple[ContextChunk, ...]:
        """The passages that an answer was written from; by default the documents' own texts."""
        if "contexts" in self._evaluate:
            return read_contexts(self._list("contexts", received))
        texts = self._texts("texts", received)
        titles = self._texts("titles", received) or ()
        if texts is None or answer is None:
            return ()
        if len(texts) != len(doc_ids) or len(titles) not in (0, len(doc_ids)):
            what = f"{len(texts)} texts for {len(doc_ids)} ids"
            raise self._mismatch("texts", what, received)
        whole = [f"{title}\n{text}" for title, text in zip(titles, texts, strict=bool(titles))]
        chunks = zip(doc_ids, whole or texts, strict=True)
        return read_contexts([{"id": doc_id, "text": text} for doc_id, text in chunks])

    def ids(self, received: Received) -> Texts:
        """The document ids alone."""
        mapped = self._texts("ids", received)
        if mapped is not None:
            self._require_ids(len(mapped), received)
            return tuple(map(document_id, mapped))
        if "answer" in self.mapping and not self._has_list(received):
            return ()  # an application that only answers
        if received.value is _MISSING and (lines := detect_lines(received.text, self.known)):
            return self._detector.detect(lines)
        value = received.require_value()
        if "results" in self._evaluate:
            items = self._evaluate["results"](received)
        else:
            items = detect_list(value, self.known)
        if not isinstance(items, list):
            raise _invalid(
                "the answer has no list of documents; received "
                f"{_shown(value)}; name the field: --map results=FIELD, or --map ids=EXPR"
            )
        return self._detector.detect(items)

    def _has_list(self, received: Received) -> bool:
        return received.value is not _MISSING and (
            "results" in self.mapping or detect_list(received.value, self.known) is not None
        )

    def _texts(self, key: str, received: Received) -> Texts | None:
        if key not in self._evaluate:
            return None
        found = self._list(key, received)
        return tuple(self._text(key, item, place, received) for place, item in enumerate(found))

    def _list(self, key: str, received: Received) -> list[Any]:
        found = self._evaluate[key](received)
        if isinstance(found, list):
            return found
        if found is None:
            what = f"nothing; if that is an answer without documents, add: || `[]` (--map {key})"
            raise self._mismatch(key, what, received)
        raise self._mismatch(key, f"{_kind(found)}, not a list", received)

    def _require_ids(self, found: int, received: Received) -> None:
        """Refuse results without an id: JMESPath passes over them, and all others would move up."""
        items = None if self._items is None else self._items.search(received.value)
        if not isinstance(items, list) or len(items) <= found or received.messages:
            return
        raise _invalid(
            f"--map ids={self.mapping['ids']}: {len(items) - found} of {len(items)} items have no "
            f"id there; received {_shown(received.value)}; write {_PLACEHOLDER} to let them hold "
            "their places, or items[?id].id to leave them out"
        )

    def _text(self, key: str, item: Any, place: int, received: Received) -> str:
        if isinstance(item, str) and is_unicode(item):
            return item
        if isinstance(item, float) and item.is_integer() and abs(item) < 2**53:
            return str(int(item))
        if isinstance(item, int) and not isinstance(item, bool):
            return str(item)
        raise self._mismatch(key, f"{_kind(item)} as item {place + 1}, not a text", received)

    def _mismatch(self, key: str, what: str, received: Received) -> AgentFailure:
        """An expression that does not fit the answer."""
        whole = f"received {_shown(received.value)}"
        return _invalid(f"--map {key}={self.mapping[key]} yields {what}; {whole}")

    def _one_text(self, key: str, received: Received) -> str | None:
        found = self._evaluate[key](received)
        if isinstance(found, list) and self.mapping[key].startswith(_REGEX):
            found = found[0] if found else None
        if found is None or (isinstance(found, str) and is_unicode(found)):
            return found
        raise self._mismatch(key, f"{_kind(found)}, not a text", received)

    def _scores(self, received: Received, count: int) -> tuple[float, ...]:
        if "scores" not in self._evaluate:
            return ()
        found = self._evaluate["scores"](received)
        numbers = isinstance(found, list) and all(
            isinstance(each, int | float) and not isinstance(each, bool) for each in found
        )
        if not numbers or len(found) != count:
            what = f"{_shown(found)}, not one number for each of {count} ids"
            raise self._mismatch("scores", what, received)
        return tuple(map(float, found))


def _compile(key: str, text: str) -> _Evaluate:
    if len(text) > _MAX_LENGTH:
        raise UsageError(
            f"--map {key}=... has {len(text)} characters; at most {_MAX_LENGTH} are read"
        )
    if text.startswith(_REGEX):
        return _compile_pattern(key, text.removeprefix(_REGEX))
    try:
        expression = jmespath.compile(_written(text))
    except JMESPathError as error:
        reason = " ".join(str(error).split("\n")[0].split())[:160]
        raise UsageError(
            f"--map {key}={text}: not a JMESPath expression ({reason}); an example: "
            f"--map '{key}=results[].id'"
        ) from None

    def evaluate(received: Received) -> Any:
        value = received.require_value()
        try:
            return expression.search(value)
        except (JMESPathError, TypeError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())[:160]
            raise _invalid(f"--map {key}={text}: {reason}; received {_shown(value)}") from None

    return evaluate


def _written(text: str) -> str:
    """As JMESPath wants it: a field's name that has a hyphen in quotes."""
    if _PLAIN_PATH.fullmatch(text) and "-" in text:
        return ".".join(f'"{step}"' for step in text.split("."))
    return text


def _projected(text: str) -> ParsedResult | None:
    """The list whose items an expression reads one by one, `hits[]` of `hits[].id`; None if it
    reads no list so, or filters it.
    """
    if not text or text.startswith(_REGEX):
        return None
    parsed = jmespath.compile(_written(text)).parsed
    if parsed["type"] == "or_expression":  # hits[].id || `[]`
        parsed = parsed["children"][0]
    return ParsedResult(text, parsed["children"][0]) if parsed["type"] == "projection" else None


def _compile_pattern(key: str, pattern: str) -> _Evaluate:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--map {key}=re:{pattern}: not a regular expression ({error})") from None
    if compiled.groups != 1:
        raise UsageError(
            f"--map {key}=re:{pattern} has {compiled.groups} groups; put exactly one pair of "
            "parentheses around what is to be read, and write (?:...) for others"
        )

    def evaluate(received: Received) -> list[str]:
        # Prose names a document more than once: a repeat is no second result. A string inside
        # JSON has its quotes escaped in the raw text, and is searched without that as well.
        for text in (received.text, "\n".join(strings_in(received.value))):
            if found := [match[1] for match in compiled.finditer(text) if match[1]]:
                return list(dict.fromkeys(found))
        return []

    return evaluate


def _shown(value: Any) -> str:
    return "no JSON" if value is _MISSING else shorten(value)


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    if value is None:
        return "null"
    return kinds.get(type(value), f"a number ({value})")


def _invalid(message: str) -> AgentFailure:
    return AgentFailure(FailureKind.INVALID_ANSWER, message)
