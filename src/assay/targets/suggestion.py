"""Suggests a mapping: where ids of the data set are in an answer that was not understood.

In JSON, the path that leads to them; in text, a pattern made of what surrounds them. The text of
an answer and the passages that it was written from are found by their form: prose.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from assay.targets.detection import find_known, strings_in

_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|*=]+")
_STEP = re.compile(r"[^/\\#?&.:]+")
_JOINT = re.compile(r"[_-]")
_TRAILING = ".:!?"
_READ = 100_000
"""Characters of a text that are looked through."""
_MOST_IDS = 50
_LONGEST_LABEL = 24
_MOST_GROUPS = 5
_LAST_SIGNS = re.compile(r"(?<![\[(*#\"-])[\[(*#\"-]++\s?$")
_LAST_WORD = re.compile(r"(?:(?<![^\w\s])[^\w\s]++|(?<!\S))\w++\W*+$")

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
        outer, _, column = path.partition("[*]")
        path += "[]" if column and "[]" in outer else ""  # a table in a list: one list of its ids
        many = "[]" in path or column or path.endswith("keys(@)")
        return f"ids={path if many else f'[{path}]'}"
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
        # A bracket ends an id and nothing else; a full stop ends the sentence before it, too.
        inside = rf"{closing}\s" if end in _TRAILING else closing
        return f"{escaped}([^{inside}]+){closing}"
    return f"{escaped}(\\S+)"


_ANSWER_NAMES = re.compile(
    r"answer|output|response|reply|completion|generat|result|summary|content|text|message|delta|token",
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
    if isinstance(value, list) and (streamed := _streamed(value)):
        return {"answer": f'join(`""`, [].{streamed})'}
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


def _streamed(events: Sequence[Any]) -> str:
    """The path of a text that comes in pieces, one an event; empty if there is none."""
    pieces: dict[str, list[str]] = {}
    for event in events[:_MOST_STEPS] if all(isinstance(each, dict) for each in events) else ():
        for path, text in _leaves(event):
            if _ANSWER_NAMES.search(path) and not _NO_ANSWER_NAMES.search(path):
                pieces.setdefault(path, []).append(text)
    # A word an event or less; passages have more, and the same text again is no piece.
    texts = {
        path: "".join(each)
        for path, each in pieces.items()
        if 2 * len(set(each)) > len(each) > 2 and len("".join(each).split()) <= 3 * len(each)
    }
    longest = max(texts, key=lambda path: len(texts[path]), default="")
    return longest if len(texts.get(longest, "").split()) >= _FEWEST_WORDS else ""


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
