"""Suggests a mapping: where ids of the data set are in an answer that was not understood.

In JSON, the path that leads to them; in text, a pattern made of what surrounds them. The text of
an answer is found by its form: prose.
"""

import re
from collections.abc import Container, Iterator
from itertools import islice
from typing import Any

from assay.targets.detection import find_known, path_step, strings_in

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
_OTHER_NAMES = re.compile(
    r"question|query|prompt|input|instruction|system|error|status|model|url|uri|link|title|(?:^|_)id$",
    re.I,
)
_MIN_WORDS, _MAX_DEPTH, _MAX_KEYS = 2, 6, 2000


def suggest_answer(value: Any, question: str = "") -> str:
    """The expression for the text of an answer in JSON; empty if there is none.

    It is the longest prose under a name that answers have, else any, first outside of lists: in
    these are the passages. `question` is what was asked, which many applications send back.
    """
    said = [
        (path, text)
        for path, text in _leaves(value)
        if len(text.split()) >= _MIN_WORDS
        and text.strip() != question.strip()
        and not _OTHER_NAMES.search(path.rpartition(".")[2])
    ]

    def rank(leaf: tuple[str, str]) -> tuple[bool, bool, int]:
        path, text = leaf
        return "[0]" not in path, bool(_ANSWER_NAMES.search(path.rpartition(".")[2])), len(text)

    return max(said, key=rank, default=("", ""))[0]


def _leaves(value: Any, path: str = "", depth: int = _MAX_DEPTH) -> Iterator[tuple[str, str]]:
    """The texts of a JSON value with their paths; of a list the first item, as in `choices[0]`."""
    if isinstance(value, str):
        if path:
            yield path, value
    elif depth and isinstance(value, dict):
        for key, each in islice(value.items(), _MAX_KEYS):
            yield from _leaves(each, f"{path}.{path_step(key)}".lstrip("."), depth - 1)
    elif depth and isinstance(value, list) and value:
        yield from _leaves(value[0], f"{path}[0]", depth - 1)
