"""Reads an agent's answer, whatever its protocol.

    reader = AnswerReader(parse_mapping(["ids=hits[].id"]), dataset.known_ids)
    reader.read(Received.from_text(body))            # by --map, or detected
    read_answer({"doc_ids": ["d1"], "answer": "…"})  # the plain form: Python functions and A2A

`--map KEY=EXPR` says where the ids, the scores and the answer are. `EXPR` is JMESPath over the
answer, or `re:PATTERN` with one group that is searched for in the answer's text. Without `ids`, the
field is detected (see `detection`). `contexts`, `steps` and `usage` have one form everywhere.
"""

import codecs
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

import jmespath
import orjson
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from assay.errors import AgentFailure, UsageError
from assay.llm.passages import ContextChunk
from assay.net.json import parse_json, shorten
from assay.steps import MAX_STEPS, AnswerUsage, SearchStep
from assay.targets.detection import (
    IdDetector,
    detect_answer,
    detect_citations,
    detect_list,
    strings_in,
    suggest_mapping,
)
from assay.targets.protocol import AgentAnswer, document_id, invalid_answer, is_unicode

EXPRESSIONS = ("ids", "scores", "titles", "texts", "answer", "citations", "contexts", "steps")
"""Keys whose value is an expression over the answer."""
ARGUMENTS = ("query", "top_k")
"""Keys that name arguments of an MCP tool."""
CONSTANT = "arg."
"""`arg.NAME=VALUE` sends an argument of an MCP tool with every call."""

MAX_CHUNKS = 100
MAX_CHUNK_LENGTH = 20_000
"""Characters that are kept of a chunk: no model reads more of one."""
MAX_STEP_IDS = 1_000
MAX_STEP_QUERY = 10_000
"""Characters that are kept of a step's query."""

DOCUMENT_KEYS = ("context", "source_documents", "documents", "docs")
ANSWER_KEYS = ("answer", "result", "output", "output_text")
"""Where chains of LangChain have their documents and their answer."""

_KEYS = (*EXPRESSIONS, *ARGUMENTS, "results", "doc_id")  # the last two are of the first version
_REGEX = "re:"
_MAX_LENGTH = 2000
_MAX_SUGGESTIONS = 20  # of one run: a suggestion looks through a whole answer
_CHUNK_IDS = ("id", "chunk_id", "_id")
_DOCUMENT_IDS = ("doc_id", "document_id", "docid", "source_id")
_TEXTS = ("text", "content", "page_content", "body", "chunk")
_READ_KEYS = frozenset(
    {field.name for field in fields(AgentAnswer)}
    | {"query", "question", "input", "metadata"}  # chains repeat their input
    | {*DOCUMENT_KEYS, *ANSWER_KEYS}
)

Texts = tuple[str, ...]
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
            raise invalid_answer(
                f"{self.problem}; received {shorten(self.text)}; to read ids from text, write "
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
        parts = text.split(",")
        if "=re:" in text or not all(map(_is_mapping, parts)):
            parts = [text]
        for part in parts:
            if not _is_mapping(part):
                keys = ", ".join(_KEYS)
                raise UsageError(
                    f"--map {part!r} is not KEY=EXPR; KEY is one of {keys}, or arg.NAME"
                )
            key, _, value = part.partition("=")
            mapping[key.strip()] = value.strip()
    for key, value in mapping.items():
        if key in EXPRESSIONS or key == "results":
            _compile(key, value)
    return mapping


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

    `mapping` is what `parse_mapping` returned, `known` the ids of the data set, by which ids are
    detected if no expression names them. `last` is what was read last, for `assay doctor`.
    """

    def __init__(self, mapping: Mapping[str, str], known: Container[str] = ()) -> None:
        self.mapping = mapping
        self.known = known
        self.last: Received | None = None
        self._expressions = {
            key: _compile(key, text)
            for key, text in mapping.items()
            if key in EXPRESSIONS or key == "results"
        }
        self._items = _projected(mapping.get("ids", ""))
        self._detector = IdDetector(known, mapping.get("doc_id"))
        self._suggestions = 0

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
        answer = detect_answer(value)
        if "answer" in self._expressions:
            found = self._expressions["answer"](received)
            if isinstance(found, list) and self.mapping["answer"].startswith(_REGEX):
                found = found[0] if found else None
            if not (found is None or (isinstance(found, str) and is_unicode(found))):
                raise self._mismatch("answer", f"{_kind(found)}, not a text", received)
            answer = found
        citations = self._texts("citations", received)
        steps = read_steps(self._list("steps", received)) if "steps" in self.mapping else None
        return AgentAnswer(
            doc_ids,
            answer,
            detect_citations(value, answer, doc_ids) if citations is None else citations,
            scores=self._scores(received, len(doc_ids)),
            contexts=self._contexts(received, doc_ids, answer),
            steps=find_steps(value) if steps is None else steps,
            usage=find_usage(value),
        )

    def _contexts(
        self, received: Received, doc_ids: Texts, answer: str | None
    ) -> tuple[ContextChunk, ...]:
        """The passages that an answer was written from; by default the documents' own texts."""
        if "contexts" in self.mapping:
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
            # JMESPath passes over results without an id, and all others would move up.
            items = None if self._items is None else self._items.search(received.value)
            if isinstance(items, list) and len(items) > len(mapped) and not received.messages:
                raise invalid_answer(
                    f"--map ids={self.mapping['ids']}: {len(items) - len(mapped)} of {len(items)} "
                    f"items have no id there; received {shorten(received.value)}; to leave them "
                    'out, write items[?id].id; to let them hold their places, items[].[id || `"-"`]'
                    "[]"
                )
            return tuple(map(document_id, mapped))
        items = None if received.value is _MISSING else detect_list(received.value)
        if "answer" in self.mapping and items is None and "results" not in self.mapping:
            return ()  # an application that only answers
        value = received.require_value()
        if "results" in self.mapping:
            items = self._expressions["results"](received)
        if not isinstance(items, list):
            raise invalid_answer(
                "the answer has no list of documents; received "
                f"{shorten(value)}; name the field: --map results=FIELD, or --map ids=EXPR"
            )
        return self._detector.detect(items)

    def _texts(self, key: str, received: Received) -> Texts | None:
        if key not in self.mapping:
            return None
        texts = []
        for place, item in enumerate(self._list(key, received), start=1):
            if isinstance(item, str) and is_unicode(item):
                texts.append(item)
                continue
            if isinstance(item, float) and item.is_integer() and abs(item) < 2**53:
                item = int(item)  # a data part of A2A turns every integer into a float
            if isinstance(item, bool) or not isinstance(item, int):
                what = f"{_kind(item)} as item {place}, not a text"
                raise self._mismatch(key, what, received)
            texts.append(str(item))
        return tuple(texts)

    def _list(self, key: str, received: Received) -> list[Any]:
        found = self._expressions[key](received)
        if isinstance(found, list):
            return found
        what = f"{_kind(found)}, not a list"
        if found is None:
            what = f"nothing; if that is an answer without documents, add: || `[]` (--map {key})"
        raise self._mismatch(key, what, received)

    def _mismatch(self, key: str, what: str, received: Received) -> AgentFailure:
        """An expression that does not fit the answer."""
        shown = "no JSON" if received.value is _MISSING else shorten(received.value)
        return invalid_answer(f"--map {key}={self.mapping[key]} yields {what}; received {shown}")

    def _scores(self, received: Received, count: int) -> tuple[float, ...]:
        if "scores" not in self.mapping:
            return ()
        found = self._expressions["scores"](received)
        numbers = [_number(each) for each in found] if isinstance(found, list) else []
        if None in numbers or len(numbers) != count or not isinstance(found, list):
            what = f"{shorten(found)}, not one number for each of {count} ids"
            raise self._mismatch("scores", what, received)
        return tuple(map(float, found))


def _compile(key: str, text: str) -> Callable[[Received], Any]:
    """What finds the value of `--map KEY=EXPR` in an answer. Raises `UsageError`."""
    if len(text) > _MAX_LENGTH:
        raise UsageError(f"--map {key}=... has {len(text)} characters; at most {_MAX_LENGTH}")
    if text.startswith(_REGEX):
        return _compile_pattern(key, text.removeprefix(_REGEX))
    try:
        expression = jmespath.compile(text)
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
            what = f"--map {key}={text}: {reason}; received {shorten(value)}"
            raise invalid_answer(what) from None

    return evaluate


def _projected(text: str) -> ParsedResult | None:
    """The list whose items an expression reads one by one, `hits[]` of `hits[].id`; None if it
    reads no list so, or filters it.
    """
    if not text or text.startswith(_REGEX):
        return None
    parsed = jmespath.compile(text).parsed
    if parsed["type"] == "or_expression":  # hits[].id || `[]`
        parsed = parsed["children"][0]
    return ParsedResult(text, parsed["children"][0]) if parsed["type"] == "projection" else None


def _compile_pattern(key: str, pattern: str) -> Callable[[Received], list[str]]:
    try:
        compiled = re.compile(pattern)
        problem = "" if compiled.groups == 1 else f"it has {compiled.groups} groups"
    except re.error as error:
        problem = str(error)
    if problem:
        raise UsageError(
            f"--map {key}=re:{pattern} must be a regular expression with one group around what is "
            f"to be read, and (?:...) for others: {problem}"
        )

    def evaluate(received: Received) -> list[str]:
        # Prose names a document more than once: a repeat is not a second result. A string inside
        # JSON has its quotes escaped in the raw text, and is searched without that as well.
        for text in (received.text, "\n".join(strings_in(received.value))):
            if found := [match[1] for match in compiled.finditer(text) if match[1]]:
                return list(dict.fromkeys(found))
        return []

    return evaluate


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    if value is None:
        return "null"
    return kinds.get(type(value), f"a number ({value})")


def read_answer(value: object) -> AgentAnswer:
    """A list of ids, or a mapping with `doc_ids` or `contexts`. Raises `AgentFailure`."""
    if not isinstance(value, Mapping):
        return AgentAnswer(doc_ids=_ids(value, "the answer"))
    answer = value.get("answer")
    if answer is not None and not (isinstance(answer, str) and is_unicode(answer)):
        kind = "not valid Unicode" if isinstance(answer, str) else f"a {type(answer).__name__}"
        raise invalid_answer(f"'answer' is {kind}, not a string")
    if "doc_ids" not in value and "contexts" not in value:
        raise invalid_answer(
            "the answer is a dictionary without 'doc_ids'; return a list of document ids, best "
            'first, or {"doc_ids": [...], "answer": "..."}'
        )
    return AgentAnswer(
        doc_ids=_ids(value.get("doc_ids", ()), "'doc_ids'"),
        answer=answer,
        citations=_ids(value.get("citations") or (), "'citations'"),
        contexts=read_contexts(value.get("contexts") or ()),
        steps=find_steps(value),
        usage=find_usage(value),
        unknown_keys=tuple(str(key)[:100] for key in value if key not in _READ_KEYS)[:20],
    )


def _ids(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        remedy = "; return [] if nothing is found" if value is None else ""
        kind = type(value).__name__
        raise invalid_answer(f"{what} is a {kind}, not a list of document ids, best first{remedy}")
    ids = []
    for position, item in enumerate(value):
        try:
            ids.append(document_id(item))
        except AgentFailure as failure:
            remedy = "; pairs are (id, score)" if isinstance(item, list | tuple) else ""
            raise invalid_answer(f"{what}, position {position}: {failure}{remedy}") from None
    return tuple(ids)


def find_steps(value: object) -> tuple[SearchStep, ...]:
    """The searches in `steps` of an object; none if it has another meaning there."""
    listed = value.get("steps") if isinstance(value, Mapping) else None
    # Agents of other makes list their stages or messages under this name.
    if not isinstance(listed, list | tuple) or not all(map(_is_step, listed)):
        return ()
    return read_steps(listed)


def read_steps(value: Sequence[Any]) -> tuple[SearchStep, ...]:
    """`[{"tool", "query", "doc_ids", "scores", "ms"}]`, at most MAX_STEPS of them.

    Raises `AgentFailure` for anything else.
    """
    steps = []
    for place, item in enumerate(value[:MAX_STEPS]):
        if not _is_step(item):
            raise invalid_answer(f"'steps', position {place}: has no list 'doc_ids'")
        scores = item.get("scores")
        numbers = list(map(_number, scores)) if isinstance(scores, list | tuple) else []
        if None in numbers or len(numbers) != len(item["doc_ids"]):
            numbers = []
        found = SearchStep(
            tool=_line(item.get("tool"), 200) or "search",
            query=_line(item.get("query"), MAX_STEP_QUERY),
            doc_ids=_ids(item["doc_ids"][:MAX_STEP_IDS], f"'steps', position {place}: 'doc_ids'"),
            scores=tuple(number for number in numbers[:MAX_STEP_IDS] if number is not None),
            ms=_number(item.get("ms")),
        )
        steps.append(found)
    return tuple(steps)


def _is_step(item: object) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("doc_ids"), list | tuple)


def _line(value: object, length: int) -> str:
    text = value[:length] if isinstance(value, str) else ""
    return text if is_unicode(text) else text.encode("utf-8", "replace").decode()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def find_usage(*holders: object) -> AnswerUsage | None:
    """What the first `usage` among these objects says of tokens and cost; None if none says it.

    Chat completions call them `prompt_tokens` and `completion_tokens`.
    """
    for holder in holders:
        usage = holder.get("usage") if isinstance(holder, Mapping) else None
        if isinstance(usage, Mapping):
            read = _count(usage, "input_tokens", "prompt_tokens")
            written = _count(usage, "output_tokens", "completion_tokens")
            found = AnswerUsage(
                # A data part of A2A turns every integer into a float.
                input_tokens=None if read is None else int(read),
                output_tokens=None if written is None else int(written),
                cost_usd=_count(usage, "cost_usd"),
            )
            if found != AnswerUsage():
                return found
    return None


def _count(usage: Mapping[Any, Any], *names: str) -> float | None:
    numbers = (_number(usage.get(name)) for name in names)
    return next((number for number in numbers if number is not None and number >= 0), None)


def read_contexts(value: object) -> tuple[ContextChunk, ...]:
    """The chunks in `contexts`: texts, or `{"id", "doc_id", "text"}`. Raises `AgentFailure`."""
    if not isinstance(value, list | tuple):
        kind = type(value).__name__
        raise invalid_answer(f"'contexts' is a {kind}, not a list of texts or chunks")
    return tuple(_chunk(item, place) for place, item in enumerate(value[:MAX_CHUNKS]))


def _chunk(item: object, place: int) -> ContextChunk:
    holder = item if isinstance(item, Mapping) else {"text": item}
    text = _first(holder, _TEXTS)
    if not isinstance(text, str) or not is_unicode(text):
        keys = ", ".join(map(repr, list(holder)[:8]))
        raise invalid_answer(
            f"'contexts', position {place}: not a text, nor an object with 'text'; its keys: {keys}"
        )
    found, document = _first(holder, _CHUNK_IDS), _first(holder, _DOCUMENT_IDS)
    return ContextChunk(
        text[:MAX_CHUNK_LENGTH],
        "" if found is None else document_id(found),
        "" if document is None else document_id(document),
    )


def _first(item: Mapping[Any, Any], keys: Sequence[str]) -> Any:
    return next((item[key] for key in keys if item.get(key) is not None), None)
