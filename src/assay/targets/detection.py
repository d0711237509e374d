"""Finds document ids and citations in what no mapping describes, and suggests the mapping.

The list of results is found by its name, or as the only list there is; the field with the id by its
name, and because its values are documents of the data set. Anything else is an error that suggests
the mapping: a wrong guess would be a wrong figure.
"""

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import orjson

from assay.net.json import is_deep, parse_json
from assay.targets.protocol import document_id, invalid_answer

# Prose may be full of braces: so many are tried as the start of an object.
_MAX_STARTS = 64
_MAX_DEPTH = 3
_PROSE_WORDS = 4
# A pattern may take time that grows with the square of a text that an agent chose.
_MAX_READ = 5_000


def word_list(text: str) -> tuple[str, ...]:
    """`word_list("id doc_id")`: many names, the best known first."""
    return tuple(text.split())


_LISTS = word_list(
    "results documents docs hits items matches sources entities notes records chunks passages "
    "doc_ids ids data result output response"
)
_IDS = word_list(
    "doc_id document_id docid documentid id _id note_id uri url source path file filename "
    "name key title"
)
_INNER = ("document", "metadata", "payload", "_source", "entity", "node")
_ID_LISTS = ("doc_ids", "document_ids", "ids")
_ANSWERS = ("generated_answer", "answer")

# [1], [1, 3], [Document 2], [Source 4]; a year or a footnote of a document is beyond the sources.
_NUMBER_MARK = re.compile(
    r"\[\s{0,3}(?:(?:document|doc|source|note|citation)s?\s{0,3}#?)?"
    r"(\d{1,3}(?:\s{0,3}[,;]\s{0,3}\d{1,3})*)\s{0,3}\]",
    re.IGNORECASE,
)
_MARK = re.compile(r"\[([^\[\]\n]{1,200})\](?:\(([^()\s]{1,500})\))?")
# How prose names documents, the most certain first: [id], "id": "X", id: X, files, items of lists.
_PATTERNS = (
    r"\[([^\]]+)\]",
    r"\"\w*(?:id|ref)\": ?\"([^\"]+)\"",
    r"(?i)\bid[:=]\s?([^\s,;)\]\"]+)",
    r"/([^/\s\"<>]+)\.\w{2,4}\b",
    r"(?m)^[ \t\d.*|-]{0,20}\b([\w.-]+)",
)


def json_values(text: str) -> Iterator[object]:
    """Every JSON value in a text: the text itself, or the objects in the middle of prose."""
    try:
        yield parse_json(text)
        return
    except orjson.JSONDecodeError:
        start, decoder = 0, json.JSONDecoder()
    for _ in range(_MAX_STARTS):
        start = text.find("{", start)
        if start < 0:
            return
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
        else:
            if not is_deep(value):
                yield value


def _in_brackets(value: str) -> str:
    """`[MED-10] Statin use ...`, the way documents are named when they become notes."""
    start, bracket, _ = value.lstrip().partition("]")
    return start[1:] if bracket and start.startswith("[") else ""


def _file_name(value: str) -> str:
    """`note 7.html` of `https://host/kb/note%207.html?from=search#top`."""
    path = value.partition("#")[0].partition("?")[0].replace("\\", "/").rstrip("/")
    return unquote(path.rpartition("/")[2])


def _page_name(value: str) -> str:
    name, _, suffix = _file_name(value).rpartition(".")
    return name if name and suffix.isalnum() and len(suffix) <= 5 else _file_name(value)


_FORMS: tuple[Callable[[str], str], ...] = (str, _in_brackets, _page_name, _file_name)


def known_form(text: str, known: Container[str]) -> str | None:
    """The id of the data set that a name, URL or path stands for; None if it is not one."""
    return next((form(text) for form in _FORMS if form(text) in known), None)


class IdDetector:
    """Detects which field of the results holds the ids; once it is certain, it stays with it.

    `known` are the ids of the data set, `field` is the field that holds the id, if the user has
    named it.
    """

    def __init__(self, known: Container[str], field: str | None = None) -> None:
        self._known = known
        self._field = field
        self._settled: tuple[str, Callable[[str], str]] | None = None

    def detect(self, items: Sequence[Any]) -> tuple[str, ...]:
        """The id of each result. Raises `AgentFailure` if one has none."""
        rows = [_fields(item) for item in items]
        if not rows:
            return ()
        name, form = self._settled or self._settle(rows)
        prose = (isinstance(x, str) and len(x[:1000].split()) >= _PROSE_WORDS for x in items)
        if self._settled is None and any(prose):
            raise invalid_answer(
                "the results are texts, not ids; to read ids from text, --map 'ids=re:PATTERN'"
            )
        ids = []
        for place, row in enumerate(rows, start=1):
            if (value := row.get(name)) is None:
                what = f"result {place} has no id in {name!r}" if place > 1 else "no ids were found"
                raise invalid_answer(what)
            ids.append(document_id(form(value)))
        return tuple(ids)

    def _settle(self, rows: Sequence[Mapping[str, str | None]]) -> tuple[str, Callable[[str], str]]:
        names = [self._field] if self._field else [name for name in _IDS if name in rows[0]]
        for name in names:
            texts = [row.get(name) or "" for row in rows]
            hits = [sum(form(text) in self._known for text in texts) for form in _FORMS]
            # If ids are numbers, a place in the list looks like one.
            first = int(texts[0] != "0")
            places = list(map(str, range(first, first + len(texts))))
            if any(hits) and (texts != places or self._field):
                self._settled = name, _FORMS[hits.index(max(hits))]
                return self._settled
        return next(iter(names), "doc_id"), str  # not certain: wait for the next answer


def _fields(item: Any) -> dict[str, str | None]:
    """Strings and integers of a result, its own before those of a nested document."""
    if isinstance(item, str):
        return {"doc_id": item}
    fields: dict[str, str | None] = {}
    for name, value in item.items() if isinstance(item, dict) else ():
        if isinstance(value, str):
            fields[name] = value
        elif isinstance(value, int) and not isinstance(value, bool):
            fields[name] = str(value)
        elif name in _INNER and isinstance(value, dict):
            fields = _fields(value) | fields
        elif name in _IDS:
            fields.setdefault(name, None)  # or the next name, a title, would be taken for the id
    return fields


def detect_list(value: Any, depth: int = _MAX_DEPTH) -> list[Any] | None:
    """The list that holds the results: by its name, else the only one there is.

    A list in a list, as servers answer that take several queries at once, is the inner one.
    """
    if isinstance(value, list):
        return value[0] if len(value) == 1 and isinstance(value[0], list) else value
    if not isinstance(value, dict) or not depth:
        return None
    for name in _ID_LISTS:  # before "documents", whose items may be the texts
        found = detect_list(value[name]) if isinstance(value.get(name), list) else None
        if found and all(type(each) in (str, int) for each in found):
            return list(map(str, found))
    for name in _LISTS:
        if name in value and (found := detect_list(value[name], depth - 1)) is not None:
            return found
    lists = [each for each in value.values() if isinstance(each, list)]
    return lists[0] if len(lists) == 1 else None


def detect_answer(value: Any) -> str | None:
    """The text of an answer, by the usual names."""
    texts = [value.get(name) for name in _ANSWERS] if isinstance(value, dict) else []
    return next((text for text in texts if isinstance(text, str)), None)


def detect_citations(value: Any, answer: str | None, sources: Sequence[str]) -> tuple[str, ...]:
    """Ids in a list `citations`; else, for servers that number them, `[2]` in the answer is the
    second source.
    """
    cited = value.get("citations") if isinstance(value, dict) else None
    ids = [each for each in cited if isinstance(each, str)] if isinstance(cited, list) else []
    return tuple(ids) or marked_sources(answer, sources)


def marked_sources(answer: str | None, sources: Sequence[str]) -> tuple[str, ...]:
    """The sources whose numbers are in brackets: `[2]` is the second."""
    marks = (match[1] for match in _NUMBER_MARK.finditer(answer or ""))
    numbers = [int(each) for mark in marks for each in mark.replace(";", ",").split(",")]
    marked = [sources[number - 1] for number in numbers if 1 <= number <= len(sources)]
    return tuple(dict.fromkeys(marked))


def marked_ids(text: str | None, known: Container[str]) -> tuple[str, ...]:
    """Ids of the data set in brackets, each once: `[doc-1]`, `[doc-1, doc-2]`; and what a Markdown
    link leads to, `[Tea](https://host/doc-1.html)`.
    """
    found: dict[str, None] = {}
    for mark in _MARK.finditer(text or ""):
        names = (name.strip() for name in (mark[1], *mark[1].replace(";", ",").split(",")))
        found |= dict.fromkeys(name for name in names if name in known)
        if mark[2] and (linked := known_form(mark[2], known)):
            found[linked] = None
    return tuple(found)


def find_known(value: Any, known: Container[str], depth: int = 8) -> str | None:
    """The JMESPath expression that leads to ids of the data set in `value`; None if none does."""
    if isinstance(value, str | int) and not isinstance(value, bool):
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


def strings_in(value: Any, depth: int = 8) -> Iterator[str]:
    """Every string in a JSON value, in its order, without the escapes that JSON puts into it."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_in(each, depth - 1)


def suggest_mapping(value: Any, text: str, known: Container[str]) -> str:
    """`ids=EXPR` for ids of the data set in an answer that was not understood; empty for none.

    In JSON, the path that leads to them; in text, a usual pattern that finds them and little else.
    """
    path = find_known(value, known)
    if path is not None:
        return f"ids={path}" if "[]" in path else f"ids=[{path}]"
    # A string inside JSON has its quotes escaped in the raw text.
    for searched in ("\n".join(strings_in(value)), text):
        for pattern in _PATTERNS:
            found = set(re.findall(pattern, searched[:_MAX_READ]))
            hits = [each for each in found if each in known]
            if hits and 2 * len(hits) >= len(found):
                return f"ids=re:{pattern}"
    return ""
