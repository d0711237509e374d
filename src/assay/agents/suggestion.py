"""Suggests a mapping: where ids of the data set are in an answer that was not understood.

In JSON, the path that leads to them; in text, a pattern made of what surrounds them.
"""

import re
from collections.abc import Container
from typing import Any

from assay.agents.detection import find_known

_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|*]+")
_TRAILING = ".:!?"
_READ = 100_000
"""Characters of a text that are looked through."""
_MOST_IDS = 50
_LONGEST_LABEL = 24


def suggest_mapping(value: Any, text: str, known: Container[str]) -> str:
    """`ids=EXPR` for ids of the data set that are in an answer; empty if there are none.

    Parameters:
        value: the answer's JSON; anything else is not looked at.
        text: the answer's text.
        known: the ids of the data set.
    """
    path = find_known(value, known)
    if path is not None:
        return f"ids={path if '[]' in path else f'[{path}]'}"
    pattern = suggest_pattern(text, known)
    return f"ids=re:{pattern}" if pattern else ""


def suggest_pattern(text: str, known: Container[str]) -> str:
    """A regular expression with one group that finds the ids of the data set in a text.

    It is made of what all of them have before and after them; empty if they have nothing in common,
    or where it would find more other texts than ids.
    """
    places = _places(text[:_READ], known)
    if not places:
        return ""
    before = _common_suffix([text[max(0, start - _LONGEST_LABEL) : start] for start, _ in places])
    label = before.rpartition("\n")[2]
    begins_line = all(
        start == len(label) or text[start - len(label) - 1] == "\n" for start, _ in places
    )
    after = {text[end : end + 1] for _, end in places}
    patterns = [_pattern(each, after) for each in _label_ends(label)]
    if begins_line:
        patterns.append("(?m)^" + (_pattern(label, after) or r"(\S+)"))
    rated = [(_precision(pattern, text, known), pattern) for pattern in patterns if pattern]
    for enough in (1.0, 0.5):
        if found := next((pattern for share, pattern in rated if share >= enough), ""):
            return found
    return ""


def _places(text: str, known: Container[str]) -> list[tuple[int, int]]:
    """Where the ids of the data set are: start and end of each, the first ones."""
    places: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        found = next((each for each in (token, token.rstrip(_TRAILING)) if each in known), None)
        if found:
            places.append((match.start(), match.start() + len(found)))
            if len(places) == _MOST_IDS:
                break
    return places


def _common_suffix(texts: list[str]) -> str:
    length = 0
    while length < min(map(len, texts)) and len({text[-1 - length] for text in texts}) == 1:
        length += 1
    return texts[0][len(texts[0]) - length :]


def _label_ends(label: str) -> list[str]:
    """Ends of a label, the shortest first: brackets or bullets, its last word, all of it."""
    ends = [re.search(pattern, label) for pattern in (r"[\[(*#-]+\s?$", r"[^\w\s]*\w+\W*$")]
    return list(dict.fromkeys([end[0] for end in ends if end] + [label]))


def _pattern(label: str, after: set[str]) -> str:
    if not label:
        return ""
    end = next(iter(after)) if len(after) == 1 else ""
    escaped = re.escape(label).replace("\\ ", " ").replace("'", ".")  # for a shell's quotes
    if end and not end.isspace():
        closing = "." if end == "'" else re.escape(end)
        return f"{escaped}([^{closing}]+){closing}"
    return f"{escaped}(\\S+)"


def _precision(pattern: str, text: str, known: Container[str]) -> float:
    """The share of what a pattern finds that are ids of the data set."""
    found = re.findall(pattern, text[:_READ])
    return sum(each in known for each in found) / len(found) if found else 0.0
