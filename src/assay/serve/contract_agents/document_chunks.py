"""Cutting a document into the chunks under which it is ingested."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.contract.chunk_ids import chunk_id
from assay.data.dataset import Document
from assay.search.embedding import Embedder
from assay.search.plain_text import plain

# What a model puts around a text.
_MARKS = 2
_SENTENCE_END = re.compile(r"[.!?。！？](?=\s)|\n")


def cut_document(
    doc_id: str,
    title: str,
    text: str,
    metadata: Mapping[str, Any],
    embedder: Embedder,
    *,
    size: int,
    overlap: int,
) -> list[Document]:
    """At most `size` characters each, and no more than the model reads: a chunk is never cut again
    by the index. Nothing where the text holds no words."""
    title = _short_title(plain(title).strip(), embedder)
    pieces = [piece for piece in _windows(plain(text).strip(), size, overlap) if piece]
    fitting = [part for piece in pieces for part in _fit(title, piece, embedder)]
    return [
        Document(chunk_id(doc_id, index), title, part, dict(metadata))
        for index, part in enumerate(fitting)
    ]


def _windows(text: str, size: int, overlap: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _good_end(text, start, start + size)
        yield text[start:end].strip()
        if end >= len(text):
            return
        start = max(start + 1, _word_start(text, end - overlap, end))


def _good_end(text: str, start: int, limit: int) -> int:
    """After a sentence in the second half of the window, else after a word, else at the limit."""
    if limit >= len(text):
        return len(text)
    middle = (start + limit) // 2
    ends = [match.end() for match in _SENTENCE_END.finditer(text, middle, limit)]
    if ends:
        return ends[-1]
    space = text.rfind(" ", middle, limit)
    return space + 1 if space > 0 else limit


def _word_start(text: str, earliest: int, end: int) -> int:
    if earliest >= end:
        return end
    space = text.find(" ", earliest, end)
    return space + 1 if space >= 0 else end


def _fit(title: str, piece: str, embedder: Embedder) -> Sequence[str]:
    (tokens,) = embedder.count_tokens([f"{title} {piece}".strip()])
    if tokens + _MARKS <= embedder.max_tokens or len(piece) < 2:
        return [piece]
    middle = len(piece) // 2
    space = piece.rfind(" ", 1, middle)
    cut = space if space > 0 else middle
    halves = (piece[:cut].strip(), piece[cut:].strip())
    return [part for half in halves if half for part in _fit(title, half, embedder)]


def _short_title(title: str, embedder: Embedder) -> str:
    """A title takes at most half of what the model reads."""
    while title and embedder.count_tokens([title])[0] > embedder.max_tokens // 2:
        title = title[: len(title) // 2].rstrip()
    return title
