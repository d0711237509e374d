"""Parses a model's reply: whether it answers, and whether its citations exist."""

import re
from collections.abc import Iterable, Sequence

from assay.answer.passages import Answer, not_found
from assay.answer.prompt import ABSTAIN

# [1], [1, 3], [1-3], [doc 1], 【1】, [1][3] and [1], [3]: models write all of them. Adjacent ones
# are one marker. Blanks are bounded, because a text may have a million of them.
_GAP = r"\s{0,3}"
_PLACE = (
    rf"(?:(?:doc(?:ument)?|source|passage)s?[.:]?{_GAP})?(?:\d{{1,3}}{_GAP}[-–]{_GAP})?\d{{1,9}}"
)
_INSIDE = rf"{_GAP}{_PLACE}(?:{_GAP}[,;]{_GAP}{_PLACE})*{_GAP}"
_ONE = rf"(?:\[{_INSIDE}\]|【{_INSIDE}(?:†[^】\[]{{0,40}})?】)"
_MARKER = re.compile(rf"(\s?)({_ONE}(?:{_GAP}[,;]?{_GAP}{_ONE})*)", re.IGNORECASE)
# [note-7] and [d1, d2], ids of documents: letters first and a digit somewhere. The text of a link,
# [Python3](https://...), is a part of the sentence.
_ID = r"(?=[\w.:/#-]{0,80}\d)[^\W\d_][\w.:/#-]{0,80}"
_ID_MARKER = re.compile(rf"\s?[\[【]{_ID}(?:{_GAP}[,;]{_GAP}{_ID})*[\]】](?!\()")
# After † comes a name that the model chose, digits included.
_NUMBERS = re.compile(r"†[^】]*|(\d+)(?:\s*[-–]\s*(\d+))?")
_WIDEST = 20
# Alone, with citations, or with a reason that cites nothing and does not continue with "but".
ABSTAINED = re.compile(
    rf"\W*{ABSTAIN}\b(?:\W*(?:{_ONE}\W*)*|\s*?(?:[^\w\s]|\n)(?:(?!\b(?:but|however)\b|[\[【]).)*)",
    re.IGNORECASE | re.DOTALL,
)

EMPTY_REPLY = "the model's reply was empty"
NO_CITATION = "the answer cites no source"


def read_generated(text: str, passages: int, *, model: str, stop_reason: str) -> Answer:
    """The answer in a model's reply.

    Citations of sources that do not exist are removed, with a warning.

    Args:
        text: the reply.
        passages: how many sources there are.
        model: the name of the model.
        stop_reason: why the reply ended.
    """
    if not any(map(str.isalnum, without_markers(text))):
        return not_found(model, EMPTY_REPLY)
    if ABSTAINED.fullmatch(text):
        return not_found(model)
    cited: list[int] = []
    invented: list[int] = []

    def keep(match: re.Match[str]) -> str:
        numbers = _numbers(match)
        real = [number for number in numbers if 1 <= number <= passages]
        cited.extend(real)
        invented.extend(set(numbers) - set(real))
        return match[1] + "".join(f"[{number}]" for number in real) if real else ""

    cleaned = _MARKER.sub(keep, text).strip()
    return Answer(
        text=cleaned,
        citations=tuple(dict.fromkeys(cited)),
        model=model,
        stop_reason=stop_reason,
        warnings=tuple(_warnings(cited, invented)),
    )


def cited_places(text: str) -> list[int]:
    """The numbers in the citation markers of a text, in their order, each once."""
    found = [number for marker in _MARKER.finditer(text) for number in _numbers(marker)]
    return list(dict.fromkeys(found))


def _numbers(marker: re.Match[str]) -> list[int]:
    return [number for each in _NUMBERS.finditer(marker[2]) for number in _named(each)]


def _named(numbers: re.Match[str]) -> Sequence[int]:
    """`3`, or all of `1-3`; for an invalid range, such as `3-1` or `1-900`, both ends."""
    ends = [int(number) for number in numbers.groups() if number]
    if len(ends) == 2 and 0 < ends[1] - ends[0] <= _WIDEST:
        return range(ends[0], ends[1] + 1)
    return ends


def without_markers(text: str) -> str:
    """The text without citation markers: places, as in `[2]`, and ids, as in `[note-7]`."""
    return _ID_MARKER.sub("", _MARKER.sub("", text))


def _warnings(cited: list[int], invented: list[int]) -> Iterable[str]:
    if invented:
        numbers = ", ".join(f"[{number}]" for number in sorted(set(invented)))
        yield f"citations of sources that do not exist were removed: {numbers}"
    if not cited:
        yield NO_CITATION
