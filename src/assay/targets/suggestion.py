"""Suggests a mapping: where ids of the data set are in an answer that was not understood.

In JSON, the path that leads to them; in text, a pattern made of what surrounds them. The text of
an answer and the passages that it was written from are found by their form: prose.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from assay.targets.detection import find_known, strings_in

_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|*=:/#?&]+")
_MAX_READ = 100_000
"""Characters of a text that are looked through."""
_MAX_IDS = 50

# How prose names documents, the most certain first: [id], "id: X", a file name, a list's items.
_PATTERNS = (
    r"\[([^\]]+)\]",
    r"(?i)\bid[:=]\s?([^\s,;)\]\"]+)",
    r"/([^/\s\"<>]+)\.\w{2,4}\b",
    r"(?m)^[\s\d.*|-]+\b([\w.-]+)",
)


def suggest_mapping(value: Any, text: str, known: Container[str]) -> str:
    """`ids=EXPR` for ids of the data set that are in an answer; empty if there are none.

    Parameters:
        value: the answer's JSON; anything else is not looked at.
        text: the answer's text.
        known: the ids of the data set.
    """
    path = find_known(value, known)
    if path is not None:
        outer, _, column = path.partition("[*]")
        path += "[]" if column and "[]" in outer else ""  # a table in a list: one list of its ids
        many = "[]" in path or column or path.endswith("keys(@)")
        return f"ids={path if many else f'[{path}]'}"
    # A string inside JSON has its quotes escaped in the raw text, which is searched first.
    pattern = suggest_pattern("\n".join(strings_in(value)), known)
    if not pattern or any(each not in known for each in re.findall(pattern, text[:_MAX_READ])):
        pattern = suggest_pattern(text, known)
    return f"ids=re:{pattern}" if pattern else ""


def suggest_pattern(text: str, known: Container[str]) -> str:
    """A regular expression with one group that finds the ids of the data set in a text.

    One of the usual forms if it finds the ids and little else, else the form of the ids themselves,
    such as `note-7`; empty if they have nothing in common.
    """
    text = text[:_MAX_READ]
    forms = (form for match in _TOKEN.finditer(text) for form in _forms(match[0]))
    ids = set(islice((form for form in forms if form in known), _MAX_IDS))
    if not ids:
        return ""
    shapes = {re.sub(r"\d+", r"\\d+", re.escape(each)).replace("'", ".") for each in ids}
    shape = shapes.pop()
    # Ids that differ in their numbers alone are found by their form.
    alike = not shapes and re.search("[A-Za-z]", shape[:-2])
    own: tuple[str, ...] = (rf"\b({shape})\b", rf"_({shape})\b") if alike else ()
    for pattern in (*_PATTERNS, *own):
        found = set(re.findall(pattern, text))
        if ids <= found and 2 * len(ids) >= len(found):
            return pattern
    return ""


def _forms(token: str) -> tuple[str, ...]:
    """`note-7.md` and `KB_note-7` name the document `note-7`."""
    plain = token.rstrip(".!")
    return plain, plain.rpartition(".")[0], plain.partition("_")[2]


_ANSWER_NAMES = re.compile(
    r"answer|output|response|reply|completion|generat|result|summary|content|text|message",
    re.I,
)
_NO_ANSWER_NAMES = re.compile(
    r"question|query|prompt|input|instruction|system|error|status|model|url|uri|link|title|(?:^|_)id$",
    re.I,
)
_ID_NAMES = ("chunk_id", "id", "_id", "doc_id", "document_id", "docid", "source", "name")
_DOCUMENT_NAMES = ("doc_id", "document_id", "docid")
_FEWEST_WORDS, _PASSAGE_WORDS = 2, 5
_DEEPEST, _MOST_STEPS = 6, 2000

_Leaf = tuple[str, str]
"""A path, and the text there."""


def suggest_answer(value: Any, question: str = "") -> dict[str, str]:
    """Expressions for `answer` and `contexts` of an answer in JSON, as far as they can be told.

    The answer is the prose under a name that answers have, else the longest prose that is in no
    list of passages. Contexts are a list of prose, or of objects that all have some.

    Parameters:
        value: the answer's JSON; anything else holds nothing.
        question: what was asked, which many applications send back.
    """
    found: dict[str, str] = {}
    passages = max(_passage_lists(value), key=lambda each: each[1], default=None)
    inside = passages[0].partition("[")[0] if passages else None
    said = [
        (path, text)
        for path, text in _leaves(value)
        if len(text.split()) >= _FEWEST_WORDS
        and text.strip() != question.strip()
        and not (
            inside is not None and (path == inside or path.startswith((f"{inside}[", f"{inside}.")))
        )
        and not _NO_ANSWER_NAMES.search(path.rpartition(".")[2])
    ]
    named = [leaf for leaf in said if _ANSWER_NAMES.search(leaf[0].rpartition(".")[2])]
    best = max(named or said, key=lambda leaf: len(leaf[1]), default=None)
    if best is not None:
        found["answer"] = best[0]
    if passages is not None:
        found["contexts"] = passages[0]
    return found


def _leaves(value: Any, path: str = "", depth: int = _DEEPEST) -> Iterator[_Leaf]:
    """The texts of a JSON value with their paths; of a list the first item, as in `choices[0]`."""
    if isinstance(value, str):
        if path:
            yield path, value
    elif depth and isinstance(value, dict):
        for key, each in list(value.items())[:_MOST_STEPS]:
            yield from _leaves(each, f"{path}.{_step(key)}".lstrip("."), depth - 1)
    elif depth and isinstance(value, list) and value:
        yield from _leaves(value[0], f"{path}[0]", depth - 1)


def _passage_lists(value: Any, path: str = "", depth: int = _DEEPEST) -> Iterator[tuple[str, int]]:
    """Expressions for lists of prose, with how many characters of it they have."""
    if isinstance(value, list) and value:
        if all(isinstance(each, str) for each in value):
            if all(len(each.split()) >= _PASSAGE_WORDS for each in value):
                yield path or "@", sum(map(len, value))
        elif all(isinstance(each, dict) for each in value):
            yield from _objects(value, path)
    elif depth and isinstance(value, dict):
        for key, each in list(value.items())[:_MOST_STEPS]:
            yield from _passage_lists(each, f"{path}.{_step(key)}".lstrip("."), depth - 1)


def _objects(items: Sequence[Mapping[str, Any]], path: str) -> Iterator[tuple[str, int]]:
    """Objects that have a text each: with the names that `contexts` has for their fields."""
    listed = [dict(_leaves(each, depth=3)) for each in items]
    shared = [name for name in listed[0] if all(name in each for each in listed)]
    prose = {
        name: sum(len(each[name]) for each in listed)
        for name in shared
        if sum(len(each[name].split()) for each in listed) >= _PASSAGE_WORDS * len(listed)
    }
    if not prose or any(
        each.endswith("role") for each in listed[0]
    ):  # messages of a conversation are no passages
        return
    text = max(prose, key=prose.__getitem__)
    fields = {"text": text}
    for key, names in (("id", _ID_NAMES), ("doc_id", _DOCUMENT_NAMES)):
        by_name = {name.rpartition(".")[2].strip('"').lower(): name for name in shared}
        if given := next((by_name[name] for name in names if name in by_name), None):
            fields.setdefault(key, given)
    chosen = ", ".join(f"{key}: {fields[key]}" for key in ("id", "doc_id", "text") if key in fields)
    yield f"{path}[].{{{chosen}}}", prose[text]


def _step(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_]\w*", key) else f'"{key}"'
