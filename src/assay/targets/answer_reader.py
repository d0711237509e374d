"""Reads an agent's answer, whatever its protocol.

    reader = AnswerReader(parse_mapping(["ids=hits[].id"]), dataset.known_ids)
    reader.read(Received.from_text(body))            # by --map, or by the usual names
    read_answer({"doc_ids": ["d1"], "answer": "…"})  # the plain form: Python functions and A2A

`--map KEY=EXPR` says where the ids, the scores and the answer are. `EXPR` is JMESPath over the
answer, or `re:PATTERN` with one group that is searched for in the answer's text. Without `ids`, the
list of results is found by its name, the field with the ids by its name and because its values are
documents of the data set. Anything else is an error that suggests the mapping: a wrong guess would
be a wrong figure.
"""

import codecs
import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, TypeAlias
from urllib.parse import unquote

import jmespath
import orjson
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from assay.errors import AgentFailure, UsageError
from assay.llm.passages import ContextChunk
from assay.net.json import parse_json, shorten
from assay.steps import MAX_STEPS, AnswerUsage, SearchStep
from assay.targets.protocol import AgentAnswer, document_id, invalid_answer, is_unicode

EXPRESSIONS = ("ids", "scores", "titles", "texts", "answer", "citations", "contexts")
# `query` and `top_k` name arguments of an MCP tool, `arg.NAME=VALUE` sends one with every call.
ARGUMENTS = ("query", "top_k")
CONSTANT = "arg."
PLAIN_TEXT_HINT = "for an agent that takes a question in plain text, use a2a:URL#text"
# Of the first version, and shorter than `ids`: the list of results, and the field with the id.
EARLIER = ("results", "doc_id")

MAX_CHUNKS = 100
MAX_CHUNK_LENGTH = 20_000  # no model reads more characters of one
MAX_STEP_IDS = 1_000
MAX_STEP_QUERY = 10_000

_REGEX = "re:"
_MAX_SUGGESTIONS = 20  # in a run: a suggestion looks through a whole answer
_MAX_DEPTH = 8
# A pattern may take time that grows with the square of a text that an agent chose.
_MAX_READ = 5_000

# In the order of preference. "documents" comes after the ids, since its items may be texts.
_LISTS = (
    *("doc_ids", "document_ids", "ids", "results", "documents", "docs", "hits", "items"),
    *("matches", "sources", "articles", "entities", "notes", "records", "chunks", "passages"),
    *("data", "result", "output", "response"),
)
_IDS = (
    *("doc_id", "document_id", "docid", "id", "_id", "note_id"),
    *("uri", "url", "source", "path", "file", "filename", "name", "title"),
)
_INNER = ("document", "metadata", "payload", "_source", "entity", "node")
_ANSWERS = ("generated_answer", "answer")
_CHUNK_IDS = ("id", "chunk_id")
_DOCUMENT_IDS = ("doc_id", "document_id")
_TEXTS = ("text", "content", "page_content")
_READ_KEYS = frozenset(
    {field.name for field in fields(AgentAnswer)} | {"query", "question", "metadata"}
)

# [doc-1], [doc-1, doc-2], [2], [Document 2], and [Tea](https://host/doc-1.html).
_MARK = re.compile(r"\[([^\[\]\n]{1,200})\](?:\(([^()\s]{1,500})\))?")
_NUMBER = re.compile(r"(?:(?:document|doc|source) ?)?#?(\d{1,3})", re.IGNORECASE)

Expression: TypeAlias = ParsedResult | re.Pattern[str]
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Received:
    """What an agent sent: its text and, if it is JSON, its value.

    `problem` says why there is no value. `messages` is whether the value is a list of messages,
    such as events of a stream, which are not all results.
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
            problem = "is not JSON" if text.strip() else "is empty"
            return cls(text, problem=f"the answer {problem}")

    @property
    def shown(self) -> str:
        """A short form, as a failure quotes it; empty in private mode."""
        return shorten(self.text if self.value is _MISSING else self.value)

    def require_value(self) -> Any:
        """The value. Raises `AgentFailure` if the answer is not JSON."""
        if self.value is _MISSING:
            remedy = "to read ids from text, write --map 'ids=re:PATTERN' with one group"
            raise invalid_answer(self.problem, remedy if self.text.strip() else "", self.shown)
        return self.value


def parse_mapping(texts: Sequence[str]) -> dict[str, str]:
    """`parse_mapping(["ids=hits[].id", "answer=text"])`. Of a repeated key, the last counts.

    Raises `UsageError` for an unknown key, and for an expression that cannot be compiled.
    """
    mapping: dict[str, str] = {}
    for text in texts:
        key, _, value = (part.strip() for part in text.partition("="))
        known = key in (*EXPRESSIONS, *ARGUMENTS, *EARLIER)
        if not value or not (known or (key.startswith(CONSTANT) and key != CONSTANT)):
            keys = ", ".join((*EXPRESSIONS, *ARGUMENTS))
            raise UsageError(f"--map {text!r} is not KEY=EXPR; KEY is one of {keys}, or arg.NAME")
        mapping[key] = value
    _compile_all(mapping)
    return mapping


def validate_keys(mapping: Mapping[str, str], kind: str) -> None:
    """Raise `UsageError` for keys that only MCP tools have, in the mapping of another target."""
    for key in mapping:
        if key in ARGUMENTS or key.startswith(CONSTANT):
            raise UsageError(
                f"--map {key}=... names an argument of an MCP tool, which {kind}: targets do not "
                "have; leave it out"
            )


def _compile_all(mapping: Mapping[str, str]) -> dict[str, Expression]:
    keys = [key for key in mapping if key in EXPRESSIONS or key == "results"]
    return {key: _compile(key, mapping[key]) for key in keys}


def _compile(key: str, text: str) -> Expression:
    try:
        if not text.startswith(_REGEX):
            return jmespath.compile(text)
        pattern = re.compile(text.removeprefix(_REGEX))
        if pattern.groups == 1:
            return pattern
        problem = f"it has {pattern.groups} groups, and needs one around what is to be read"
    except (JMESPathError, re.error, RecursionError) as error:
        problem = " ".join(str(error).split("\n")[0].split())[:160]
    raise UsageError(
        f"--map {key}={text[:200]} is not an expression ({problem}); write JMESPath, such as "
        f"'{key}=results[].id', or '{key}=re:PATTERN'"
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
        self._expressions = _compile_all(mapping)
        self._items: ParsedResult | None = None
        if isinstance(by := self._expressions.get("ids"), ParsedResult):
            parsed = by.parsed
            if parsed["type"] == "or_expression":  # hits[].id || `[]`
                parsed = parsed["children"][0]
            if parsed["type"] == "projection":  # the items of `hits[]`, which it reads one by one
                self._items = ParsedResult("", parsed["children"][0])
        self._suggestions = 0

    def read(self, received: Received) -> AgentAnswer:
        """The answer. Raises `AgentFailure` if what was received cannot be one."""
        self.last = received
        try:
            return self._read(received)
        except AgentFailure as failure:
            raise self.with_suggestion(failure, received) from None

    def with_suggestion(self, failure: AgentFailure, received: Received) -> AgentFailure:
        """The failure with what was received, and the mapping that finds ids in it."""
        self.last = received
        failure.said = failure.said or received.shown
        self._suggestions += 1
        suggestion = self.suggest(received) if self._suggestions <= _MAX_SUGGESTIONS else ""
        if not suggestion:
            return failure
        remedy = f"try: --map '{suggestion}'"
        return AgentFailure(failure.kind, failure.message, remedy=remedy, said=failure.said)

    def suggest(self, received: Received) -> str:
        """`ids=EXPR` for the path in JSON that leads to ids of the data set; empty for none, and
        if it is given.
        """
        path = find_known(received.value, self.known)
        if path is None:
            return ""
        # A path without a list leads to one id, and `ids` has to be a list.
        found = path if "[]" in path else f"[{path}]"
        return "" if found == self.mapping.get("ids") else f"ids={found}"

    def _read(self, received: Received) -> AgentAnswer:
        doc_ids = self.ids(received)
        value = None if received.value is _MISSING else received.value
        holder = value if isinstance(value, dict) else {}
        if "answer" in self.mapping:
            answer = self._find("answer", received)
            if isinstance(answer, list) and self.mapping["answer"].startswith(_REGEX):
                answer = answer[0] if answer else None
            if answer is not None and not (isinstance(answer, str) and is_unicode(answer)):
                raise self._mismatch("answer", f"{_kind(answer)}, not a text")
        else:
            texts = map(holder.get, _ANSWERS)
            answer = next((text for text in texts if isinstance(text, str)), None)
        citations = self._texts("citations", received)
        if citations is None:
            listed = holder.get("citations")
            cited = [x for x in listed if isinstance(x, str)] if isinstance(listed, list) else []
            citations = tuple(cited) or cited_in(answer, doc_ids, self.known)
        return AgentAnswer(
            doc_ids,
            answer,
            citations,
            scores=self._scores(received, len(doc_ids)),
            contexts=self._contexts(received, doc_ids, answer),
            steps=find_steps(value),
            usage=find_usage(value),
        )

    def _contexts(
        self, received: Received, doc_ids: Sequence[str], answer: str | None
    ) -> tuple[ContextChunk, ...]:
        """The passages that an answer was written from; by default the documents' own texts."""
        if "contexts" in self.mapping:
            return read_contexts(self._list("contexts", received))
        texts = self._texts("texts", received)
        if texts is None or answer is None:
            return ()
        titles = self._texts("titles", received)
        if not len(texts) == len(titles or texts) == len(doc_ids):
            raise self._mismatch("texts", f"{len(texts)} texts for {len(doc_ids)} ids")
        if titles:
            texts = tuple(map("\n".join, zip(titles, texts, strict=True)))
        chunks = zip(doc_ids, texts, strict=True)
        return read_contexts([{"id": doc_id, "text": text} for doc_id, text in chunks])

    def ids(self, received: Received) -> tuple[str, ...]:
        """The document ids alone."""
        mapped = self._texts("ids", received)
        if mapped is not None:
            # JMESPath passes over results without an id, and all others would move up.
            items = None if self._items is None else self._items.search(received.value)
            if isinstance(items, list) and len(items) > len(mapped) and not received.messages:
                raise invalid_answer(
                    f"--map ids={self.mapping['ids']}: {len(items) - len(mapped)} of {len(items)} "
                    "items have no id there",
                    "to leave them out, write items[?id].id",
                )
            return tuple(map(document_id, mapped))
        if "results" in self.mapping:
            items = self._find("results", received)
        else:
            items = None if received.value is _MISSING else detect_list(received.value)
            if items is None and "answer" in self.mapping:
                return ()  # an application that only answers
            received.require_value()
        if not isinstance(items, list):
            remedy = "name the field: --map results=FIELD, or --map ids=EXPR"
            raise invalid_answer("the answer has no list of documents", remedy)
        return detect_ids(items, self.known, self.mapping.get("doc_id"))

    def _find(self, key: str, received: Received) -> Any:
        """What the expression of a key finds."""
        expression = self._expressions[key]
        if isinstance(expression, re.Pattern):
            # Prose names a document more than once: a repeat is not a second result. A string
            # inside JSON has its quotes escaped in the raw text, and is searched without that too.
            for text in (received.text, "\n".join(strings_in(received.value))):
                if found := [match[1] for match in expression.finditer(text) if match[1]]:
                    return list(dict.fromkeys(found))
            return []
        value = received.require_value()
        try:
            return expression.search(value)
        except (JMESPathError, TypeError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())[:160]
            raise self._mismatch(key, f"nothing ({reason})") from None

    def _list(self, key: str, received: Received) -> list[Any]:
        found = self._find(key, received)
        if not isinstance(found, list):
            hint = "; if that is an answer without documents, add: || `[]`"
            raise self._mismatch(key, f"{_kind(found)}, not a list{hint * (found is None)}")
        return found

    def _texts(self, key: str, received: Received) -> tuple[str, ...] | None:
        if key not in self.mapping:
            return None
        texts = []
        for place, item in enumerate(self._list(key, received), start=1):
            if isinstance(item, float) and item.is_integer() and abs(item) < 2**53:
                item = int(item)  # a data part of A2A turns every integer into a float
            if type(item) is not int and not (isinstance(item, str) and is_unicode(item)):
                raise self._mismatch(key, f"{_kind(item)} as item {place}, not a text")
            texts.append(str(item))
        return tuple(texts)

    def _scores(self, received: Received, count: int) -> tuple[float, ...]:
        if "scores" not in self.mapping:
            return ()
        found = self._list("scores", received)
        scores = _numbers(found)
        if not len(scores) == len(found) == count:
            raise self._mismatch("scores", f"{len(scores)} numbers for {count} ids")
        return scores

    def _mismatch(self, key: str, what: str) -> AgentFailure:
        return invalid_answer(f"--map {key}={self.mapping[key]} yields {what}")


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), f"a number ({value})")


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


def find_steps(holder: object) -> tuple[SearchStep, ...]:
    """The searches in `steps` of an object: `[{"tool", "query", "doc_ids", "scores", "ms"}]`.

    None if it has another meaning there. Raises `AgentFailure` for ids that are none.
    """
    listed = holder.get("steps") if isinstance(holder, Mapping) else None
    items = listed[:MAX_STEPS] if isinstance(listed, list | tuple) else ()
    steps = []
    for place, item in enumerate(items):
        found = item.get("doc_ids") if isinstance(item, Mapping) else None
        if not isinstance(found, list | tuple):
            return ()  # other agents list their stages or messages under this name
        scores = _numbers(item.get("scores"))
        step = SearchStep(
            tool=_text(item.get("tool"), 200) or "search",
            query=_text(item.get("query"), MAX_STEP_QUERY),
            doc_ids=_ids(found[:MAX_STEP_IDS], f"'steps', position {place}: 'doc_ids'"),
            scores=scores[:MAX_STEP_IDS] if len(scores) == len(found) else (),
            ms=_number(item.get("ms")),
        )
        steps.append(step)
    return tuple(steps)


def _text(value: object, length: int) -> str:
    text = value[:length] if isinstance(value, str) else ""
    return text if is_unicode(text) else text.encode("utf-8", "replace").decode()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def _numbers(value: object) -> tuple[float, ...]:
    """The numbers in a list; none if anything else is among them."""
    numbers = list(map(_number, value)) if isinstance(value, list | tuple) else []
    found = tuple(number for number in numbers if number is not None)
    return found if len(found) == len(numbers) else ()


def find_usage(holder: object) -> AnswerUsage | None:
    """What `usage` of an object says of tokens and cost; None if it says nothing.

    Chat completions call them `prompt_tokens` and `completion_tokens`.
    """
    usage = holder.get("usage") if isinstance(holder, Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    found = {name: _number(each) for name, each in usage.items()}
    numbers = {name: each for name, each in found.items() if each is not None and each >= 0}
    read = numbers.get("input_tokens", numbers.get("prompt_tokens"))
    written = numbers.get("output_tokens", numbers.get("completion_tokens"))
    counts = AnswerUsage(
        # A data part of A2A turns every integer into a float.
        input_tokens=None if read is None else int(read),
        output_tokens=None if written is None else int(written),
        cost_usd=numbers.get("cost_usd"),
    )
    return None if counts == AnswerUsage() else counts


def read_contexts(value: object) -> tuple[ContextChunk, ...]:
    """The chunks in `contexts`: texts, or `{"id", "doc_id", "text"}`. Raises `AgentFailure`."""
    if not isinstance(value, list | tuple):
        kind = type(value).__name__
        raise invalid_answer(f"'contexts' is a {kind}, not a list of texts or chunks")
    chunks = []
    for place, item in enumerate(value[:MAX_CHUNKS]):
        holder = item if isinstance(item, Mapping) else {"text": item}
        text, found, document = (
            next((holder[key] for key in keys if holder.get(key) is not None), None)
            for keys in (_TEXTS, _CHUNK_IDS, _DOCUMENT_IDS)
        )
        if not isinstance(text, str) or not is_unicode(text):
            keys = ", ".join(map(repr, list(holder)[:8]))
            raise invalid_answer(
                f"'contexts', position {place}: not a text, nor an object with 'text'; its keys: "
                f"{keys}"
            )
        chunk_id = "" if found is None else document_id(found)
        doc_id = "" if document is None else document_id(document)
        chunks.append(ContextChunk(text[:MAX_CHUNK_LENGTH], chunk_id, doc_id))
    return tuple(chunks)


def known_form(text: str, known: Container[str]) -> str | None:
    """The id of the data set that a name stands for: itself, or the file name of a URL or path,
    with or without its suffix. None if it is not one.
    """
    if text in known:
        return text
    path = text.partition("#")[0].partition("?")[0].replace("\\", "/").rstrip("/")
    file = unquote(path.rpartition("/")[2])
    stem, _, suffix = file.rpartition(".")
    forms = (stem, file) if suffix.isalnum() and len(suffix) <= 5 else (file,)
    return next((form for form in forms if form in known), None)


def detect_ids(
    items: Sequence[Any], known: Container[str], field: str | None = None
) -> tuple[str, ...]:
    """The id of each result, in `field` or in the usual field with the most ids of the data set.

    Raises `AgentFailure` if a result has none.
    """
    rows = [_fields(item) for item in items]
    if not rows:
        return ()
    names = [field] if field else [name for name in _IDS if name in rows[0]] or ["doc_id"]

    def hits(name: str) -> int:
        texts = [row.get(name) or "" for row in rows]
        # If ids are numbers, a place in the list looks like one.
        first = int(texts[0] != "0")
        is_place = not field and texts == list(map(str, range(first, first + len(texts))))
        return 0 if is_place else sum(known_form(text, known) is not None for text in texts)

    chosen = max(names, key=hits)  # the first of several with as many
    values = [row.get(chosen) for row in rows]
    if None in values:
        place = values.index(None) + 1
        what = f"result {place} has no id in {chosen!r}" if place > 1 else "no ids were found"
        raise invalid_answer(what)
    return tuple(document_id(known_form(x, known) or x) for x in values if x is not None)


def _fields(item: Any) -> dict[str, str | None]:
    """Strings and integers of a result, its own before those of a nested document."""
    if isinstance(item, str) or type(item) is int:
        return {"doc_id": str(item)}
    fields: dict[str, str | None] = {}
    for name, value in item.items() if isinstance(item, dict) else ():
        if isinstance(value, str) or type(value) is int:
            fields[name] = str(value)
        elif name in _INNER and isinstance(value, dict):
            fields = _fields(value) | fields
        elif name in _IDS:
            fields.setdefault(name, None)  # or the next name, a title, would be taken for the id
    return fields


def detect_list(value: Any, depth: int = 3) -> list[Any] | None:
    """The list that holds the results, by its name; None if there is none.

    A list in a list, as servers answer that take several queries at once, is the inner one.
    """
    if isinstance(value, list):
        return value[0] if len(value) == 1 and isinstance(value[0], list) else value
    if isinstance(value, dict) and depth:
        for name in _LISTS:
            if name in value and (found := detect_list(value[name], depth - 1)) is not None:
                return found
    return None


def cited_in(
    text: str | None, sources: Sequence[str], known: Container[str] = ()
) -> tuple[str, ...]:
    """The documents that a text cites in brackets, each once: `[2]` is the second of `sources`,
    `[doc-1, doc-3]` are ids among `known`, and `[Tea](https://host/doc-1.html)` leads to one.
    """
    found: dict[str, None] = {}
    for mark in _MARK.finditer(text or ""):
        for name in map(str.strip, (mark[1], *mark[1].replace(";", ",").split(","))):
            number = _NUMBER.fullmatch(name)
            if number and 1 <= int(number[1]) <= len(sources):
                found[sources[int(number[1]) - 1]] = None
            elif name in known:
                found[name] = None
        if mark[2] and (linked := known_form(mark[2], known)):
            found[linked] = None
    return tuple(found)


def find_known(value: Any, known: Container[str], depth: int = _MAX_DEPTH) -> str | None:
    """The JMESPath expression that leads to ids of the data set in `value`; None if none does."""
    if isinstance(value, str) or type(value) is int:
        return "" if str(value) in known else None
    if not depth:
        return None
    if isinstance(value, list):
        found = (find_known(each, known, depth - 1) for each in value[:20])
        inner = next((each for each in found if each is not None), None)
        return None if inner is None else f"[].{inner}".replace("].[", "][").rstrip(".")
    for key, each in value.items() if isinstance(value, dict) else ():
        inner = find_known(each, known, depth - 1)
        if inner is not None:
            step = key if key.isascii() and key.isidentifier() else json.dumps(key)
            return f"{step}.{inner}".replace(".[", "[").rstrip(".")
    return None


def strings_in(value: Any, depth: int = _MAX_DEPTH) -> Iterator[str]:
    """Every string in a JSON value, in its order, without the escapes that JSON puts into it."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_in(each, depth - 1)
