"""Suggests a mapping: where ids of the data set are in an answer that was not understood.

In JSON, the path that leads to them; in text, a pattern made of what surrounds them.
"""

import re
from collections.abc import Container
from typing import Any

from assay.agents.detection import find_known, strings_in

_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|*=]+")
_STEP = re.compile(r"[^/\\#?&.:]+")
_JOINT = re.compile(r"[_-]")
_TRAILING = ".:!?"
_READ = 100_000
"""Characters of a text that are looked through."""
_MOST_IDS = 50
_LONGEST_LABEL = 24
_MOST_GROUPS = 5
_LAST_SIGNS = re.compile(r"[\[(*#\"-]+\s?$")
_LAST_WORD = re.compile(r"[^\w\s]*\w+\W*$")

_Place = tuple[int, int]


def suggest_mapping(value: Any, text: str, known: Container[str]) -> str:
    """`ids=EXPR` for ids of the data set that are in an answer; empty if there are none.

    Parameters:
        value: the answer's JSON; anything else is not looked at.
        text: the answer's text.
        known: the ids of the data set.
    """
    path = find_known(value, known)
    if path is not None:
        return f"ids={path if '[]' in path or path.endswith('keys(@)') else f'[{path}]'}"
    # A string inside JSON has its quotes escaped in the raw text, which is searched first.
    pattern = suggest_pattern("\n".join(strings_in(value)), known)
    if not pattern or any(each not in known for each in re.findall(pattern, text[:_READ])):
        pattern = suggest_pattern(text, known)
    return f"ids=re:{pattern}" if pattern else ""


def suggest_pattern(text: str, known: Container[str]) -> str:
    """A regular expression with one group that finds the ids of the data set in a text.

    It is made of what all of them have before and after them, if that finds more ids than other
    texts, else of the form of the ids; empty if they have nothing in common.
    """
    places = _places(text[:_READ], known)
    if not places:
        return ""
    ids = {text[start:end] for start, end in places}
    best = ""
    for group in _groups(text, places):
        for pattern in _patterns(text, group):
            found = re.findall(pattern, text[:_READ])
            hits = ids.intersection(found)
            precise = sum(each in ids for each in found) / len(found) if found else 0.0
            if precise == 1.0 and len(hits) == len(ids):
                return pattern
            enough = len(hits) > 1 or len(ids) == 1
            if not best and enough and precise >= 0.5 and 2 * len(hits) >= len(ids):
                best = pattern
    return best or _shape(ids)


def _shape(ids: set[str]) -> str:
    """A pattern for ids that differ in their numbers only, such as `note-7`; empty for others."""
    shapes = {re.sub(r"\d+", r"\\d+", re.escape(each)) for each in ids}
    shape = next(iter(shapes)).replace("'", ".")
    return rf"\b({shape})\b" if len(shapes) == 1 and re.search("[A-Za-z]", shape[:-2]) else ""


def _groups(text: str, places: list[_Place]) -> list[list[_Place]]:
    """All places, then those that have the same word before them, the largest group first."""
    groups: dict[str, list[_Place]] = {}
    for place in places:
        label = _LAST_WORD.search(text[max(0, place[0] - _LONGEST_LABEL) : place[0]])
        groups.setdefault(label[0] if label else "", []).append(place)
    largest = sorted(groups.values(), key=len, reverse=True)
    return [places, *largest[:_MOST_GROUPS]]


def _patterns(text: str, places: list[_Place]) -> list[str]:
    """What all of these places have before and after them, as patterns, the shortest first."""
    before = _common_suffix([text[max(0, start - _LONGEST_LABEL) : start] for start, _ in places])
    label = before.rpartition("\n")[2]
    begins_line = all(
        start == len(label) or text[start - len(label) - 1] == "\n" for start, _ in places
    )
    after = {text[end : end + 1] for _, end in places}
    patterns = [_pattern(each, after) for each in _label_ends(label)]
    if begins_line:
        patterns.append("(?m)^" + (_pattern(label, after) or r"(\S+)"))
    return [pattern for pattern in patterns if pattern]


def _places(text: str, known: Container[str]) -> list[_Place]:
    """Where the ids of the data set are: start and end of each, the first ones."""
    places: list[_Place] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        tail = token.rpartition(":")[2]  # of "id:note-7"
        steps = _STEP.findall(token)[::-1]  # of "https://host/docs/note-7.html"
        tails = [token[end.end() :] for end in _JOINT.finditer(token)]  # of "KB_note-7"
        tails = [each for each in tails if not each.isdigit()]
        for each in (token, token.rstrip(_TRAILING), tail, tail.rstrip(_TRAILING), *steps, *tails):
            if each in known:
                start = match.start() + token.rindex(each)
                places.append((start, start + len(each)))
                break
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
    ends = [pattern.search(label) for pattern in (_LAST_SIGNS, _LAST_WORD)]
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
