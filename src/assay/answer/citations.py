"""Reads what a model wrote: did it answer, and does what it cites exist?"""

import re
from collections.abc import Iterable

from assay.answer.passages import Answer, not_found
from assay.answer.prompt import ABSTAIN

# [1], [1, 3], [1][3] and [1], [3]: models write all of them. What stands together is one marker.
# Blanks are counted, since a text may hold a million of them.
_GAP = r"\s{0,3}"
_ONE = rf"\[{_GAP}\d{{1,9}}(?:{_GAP}[,;]{_GAP}\d{{1,9}})*{_GAP}\]"
_MARKER = re.compile(rf"(\s?)({_ONE}(?:{_GAP}[,;]?{_GAP}{_ONE})*)")
_NUMBER = re.compile(r"\d+")
ABSTAINED = re.compile(rf"\W*{ABSTAIN}\W*", re.IGNORECASE)

EMPTY_REPLY = "the model replied with nothing"
NO_CITATION = "the answer cites no source"


def read_generated(text: str, passages: int, *, model: str, stop_reason: str) -> Answer:
    """Citations of sources that do not exist are taken out of the text, and said to have been."""
    if not text.strip():
        return not_found(model, EMPTY_REPLY)
    if ABSTAINED.fullmatch(text):
        return not_found(model)
    cited: list[int] = []
    invented: list[int] = []

    def keep(match: re.Match[str]) -> str:
        numbers = [int(number) for number in _NUMBER.findall(match[2])]
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


def without_markers(text: str) -> str:
    """For text that is quoted: a document's own `[1]` is not a citation of ours."""
    return _MARKER.sub("", text)


def _warnings(cited: list[int], invented: list[int]) -> Iterable[str]:
    if invented:
        numbers = ", ".join(f"[{number}]" for number in sorted(set(invented)))
        yield f"citations of sources that do not exist were removed: {numbers}"
    if not cited:
        yield NO_CITATION
