"""An answer's text with its citations found: `[2]` and `[note-7]` become places to link to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Whatever stands between brackets on one line; markdown and code have many that cite nothing.
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]")
_SEPARATOR = re.compile(r"(\s?[,;]\s?)")


@dataclass(frozen=True, slots=True)
class Piece:
    """`doc_id` is the document that this part of the text cites; empty for words."""

    words: str
    doc_id: str = ""


def cited_pieces(
    answer: str, citations: Sequence[str], retrieved: Sequence[str]
) -> tuple[Piece, ...]:
    """The whole text in order. A mark that names no document known here stays plain words."""
    known = _known(answer, citations, retrieved)
    pieces: list[Piece] = []
    end = 0
    for found in _BRACKETS.finditer(answer):
        parts = _SEPARATOR.split(found[1])
        if not all(part.strip() in known for part in parts[::2]):
            continue
        pieces.append(Piece(answer[end : found.start()] + "["))
        pieces += [Piece(part, known.get(part.strip(), "")) for part in parts]
        pieces.append(Piece("]"))
        end = found.end()
    return tuple(piece for piece in (*pieces, Piece(answer[end:])) if piece.words)


def _known(answer: str, citations: Sequence[str], retrieved: Sequence[str]) -> Mapping[str, str]:
    """What a mark can be, and the document that it stands for."""
    ids = {doc_id: doc_id for doc_id in (*retrieved, *citations)}
    return {**_numbers(answer, citations, retrieved), **ids}


def _numbers(answer: str, citations: Sequence[str], retrieved: Sequence[str]) -> Mapping[str, str]:
    """Agents count either what they retrieved or what they cite. The first is believed only where
    every number then stands for a document that is cited.
    """
    used = {
        int(part)
        for found in _BRACKETS.finditer(answer)
        for part in map(str.strip, _SEPARATOR.split(found[1])[::2])
        if part.isdecimal()
    }
    for documents, wanted in ((retrieved, set(citations)), (citations, set(citations))):
        places = dict(enumerate(documents, start=1))
        if all(places.get(number) in wanted for number in used):
            return {str(number): places[number] for number in used}
    return {}
