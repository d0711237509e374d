"""Reads what a model wrote: did it answer, and does what it cites exist?"""

import re
from collections.abc import Iterable, Sequence

from assay.answer.passages import Answer, not_found
from assay.answer.prompt import ABSTAIN

# [1], [1, 3], [1-3], [doc 1], 【1】, [1][3] and [1], [3]: models write all of them. What stands
# together is one marker. Blanks are counted, since a text may hold a million of them.
_GAP = r"\s{0,3}"
_PLACE = (
    rf"(?:(?:doc(?:ument)?|source|passage)s?[.:]?{_GAP})?(?:\d{{1,3}}{_GAP}[-–]{_GAP})?\d{{1,9}}"
)
_INSIDE = rf"{_GAP}{_PLACE}(?:{_GAP}[,;]{_GAP}{_PLACE})*{_GAP}"
_ONE = rf"(?:\[{_INSIDE}\]|【{_INSIDE}(?:†[^】\[]{{0,40}})?】)"
_MARKER = re.compile(rf"(\s?)({_ONE}(?:{_GAP}[,;]?{_GAP}{_ONE})*)", re.IGNORECASE)
# What follows on † is a name that the model gave, digits and all.
_NUMBERS = re.compile(r"†[^】]*|(\d+)(?:\s*[-–]\s*(\d+))?")
_WIDEST = 20
# Alone, with citations, or with a reason behind it that cites nothing and takes nothing back.
ABSTAINED = re.compile(
    rf"\W*{ABSTAIN}\b(?:\W*(?:{_ONE}\W*)*|\s*?(?:[^\w\s]|\n)(?:(?!\b(?:but|however)\b|[\[【]).)*)",
    re.IGNORECASE | re.DOTALL,
)

EMPTY_REPLY = "the model replied with nothing"
NO_CITATION = "the answer cites no source"


def read_generated(text: str, passages: int, *, model: str, stop_reason: str) -> Answer:
    """Citations of sources that do not exist are taken out of the text, and said to have been."""
    if not any(map(str.isalnum, without_markers(text))):
        return not_found(model, EMPTY_REPLY)
    if ABSTAINED.fullmatch(text):
        return not_found(model)
    cited: list[int] = []
    invented: list[int] = []

    def keep(match: re.Match[str]) -> str:
        numbers = [number for each in _NUMBERS.finditer(match[2]) for number in _named(each)]
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


def _named(numbers: re.Match[str]) -> Sequence[int]:
    """`3`, or all of `1-3`; of what is no range, as `3-1` or `1-900`, the two ends."""
    ends = [int(number) for number in numbers.groups() if number]
    if len(ends) == 2 and 0 < ends[1] - ends[0] <= _WIDEST:
        return range(ends[0], ends[1] + 1)
    return ends


def without_markers(text: str) -> str:
    """For text that is quoted: a document's own `[1]` is not a citation of ours."""
    return _MARKER.sub("", text)


def _warnings(cited: list[int], invented: list[int]) -> Iterable[str]:
    if invented:
        numbers = ", ".join(f"[{number}]" for number in sorted(set(invented)))
        yield f"citations of sources that do not exist were removed: {numbers}"
    if not cited:
        yield NO_CITATION
