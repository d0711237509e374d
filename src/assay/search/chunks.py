"""Long documents are split where sentences end, so that text beyond the model's limit is not lost.

The sentence that crosses the limit ends one chunk and begins the next, as each is shown; what the
model has read of it is not embedded again.
"""

# Chosen on NFCorpus dev, where four documents of five are longer than 256 tokens: dense nDCG@10
# 0.309, against 0.304 for the first chunk alone; without the title before each chunk, 0.276.

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assay.data.dataset import Document
from assay.progress import Progress, silent
from assay.search.embedding import Embedder, TextLimits, VectorCache, Vectors
from assay.text import strip_controls

POLICY = "sentences, title first, v2"

# [CLS] and [SEP], or what another model puts around a text.
_MARKS = 2
_WORD = re.compile(r"\S+")
_BOUNDARY = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n\s*\n")

Span = tuple[int, int]
# Where a piece of a text is, and how many tokens it has
_Piece = tuple[Span, int]


class Chunk(NamedTuple):
    """`embedded` is what the vector is made of. `span`: where it is in the document's text; below
    zero, counted from -1 down, in title and text, if the title is too long to stand before each.
    """

    embedded: str
    span: Span


def shown_text(document: Document, span: Span, chunks: int) -> str:
    """What a search shows of a chunk of a document that has so many."""
    text, (start, stop) = strip_controls(document.text), span
    if chunks == 1:
        return text
    if start < 0:  # split together with its long title
        text = f"{strip_controls(document.title)} {text}".strip()
        start, stop = -start - 1, -stop - 1
    return text[start:stop].strip()


def split_documents(
    documents: Sequence[Document], limits: TextLimits | Embedder
) -> list[list[Chunk]]:
    """At least one chunk for each document, in the order of its text."""
    titles = [strip_controls(document.title) for document in documents]
    texts = [strip_controls(document.text) for document in documents]
    # All texts in one call: counting is what takes the time.
    prompt_size, *sizes = limits.count_tokens([limits.prompts.document, *titles])
    room = limits.max_tokens - _MARKS - prompt_size
    found = []
    for title, size, text, sentences in zip(
        titles, sizes, texts, _sentences(texts, limits), strict=True
    ):
        if sum(count for _, count in sentences) <= room - size:
            chunks = [Chunk(f"{title} {text}".strip(), (0, len(text)))]
        elif size <= limits.max_tokens // 2:
            chunks = _split(title, text, sentences, room - size, limits)
        else:
            whole = f"{title} {text}".strip()
            (sentences,) = _sentences([whole], limits)
            chunks = [
                Chunk(embedded, (-start - 1, -stop - 1))
                for embedded, (start, stop) in _split("", whole, sentences, room, limits)
            ]
        found.append(chunks)
    if prompt := limits.prompts.document:
        return [[Chunk(prompt + text, span) for text, span in chunks] for chunks in found]
    return found


def document_vectors(
    documents: Sequence[Document],
    embedder: Embedder,
    progress: Progress = silent,
    *,
    cache: VectorCache | None = None,
) -> Vectors:
    """One vector for each document, of its first chunk: those of an index come from the cache."""
    first = [chunks[0].embedded for chunks in split_documents(documents, embedder)]
    return (cache or VectorCache()).embed(first, embedder, progress)


def _sentences(texts: Sequence[str], limits: TextLimits | Embedder) -> list[list[_Piece]]:
    """The sentences of all texts, counted in one call."""
    spans = [list(_spans(text)) for text in texts]
    sentences = [text[a:b] for text, one in zip(texts, spans, strict=True) for a, b in one]
    sizes = iter(limits.count_tokens(sentences))
    return [[(span, next(sizes)) for span in one] for one in spans]


def _spans(text: str) -> Iterator[Span]:
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        if boundary.start() > start:
            yield start, boundary.start()
        start = boundary.end()
    if start < len(text):
        yield start, len(text)


def _split(
    title: str,
    text: str,
    sentences: Sequence[_Piece],
    room: int,
    limits: TextLimits | Embedder,
) -> list[Chunk]:
    """Runs of sentences that fill the room. One that exceeds it also begins the next run, where
    only what the model has not read of it is embedded.
    """
    pieces = [piece for one in sentences for piece in _halved(text, one, room // 2, limits)]
    runs: list[tuple[int, int, int]] = []
    first, unread, filled = 0, pieces[0][0][0], 0
    for at, ((start, end), size) in enumerate(pieces):
        if filled + size > room and at > first:
            runs.append((pieces[first][0][0], unread, end))
            unread, filled = _unread(text, (start, end), room - filled, limits)
            first = at
        else:
            filled += size
    runs.append((pieces[first][0][0], unread, pieces[-1][0][1]))
    return [
        Chunk(f"{title} {text[unread:end]}".strip(), (start, end)) for start, unread, end in runs
    ]


def _halved(text: str, piece: _Piece, most: int, limits: TextLimits | Embedder) -> Iterator[_Piece]:
    """Halved until its parts have at most `most` tokens: some sentences never end."""
    (start, end), size = piece
    if size <= most or end - start < 2:
        yield piece
        return
    middle = (start + end) // 2
    space = text.rfind(" ", start + 1, middle)
    cut = space + 1 if space > start else middle
    halves = (start, cut), (cut, end)
    counts = limits.count_tokens([text[a:b] for a, b in halves])
    for half in zip(halves, counts, strict=True):
        yield from _halved(text, half, most, limits)


def _unread(text: str, span: Span, room: int, limits: TextLimits | Embedder) -> tuple[int, int]:
    """Where a sentence goes on after `room` tokens, between two words, and how many then follow."""
    words = list(_WORD.finditer(text, *span))
    sizes = limits.count_tokens([word.group() for word in words])
    for at, size in enumerate(sizes):
        if size > room:
            return words[at].start(), sum(sizes[at:])
        room -= size
    return span[0], sum(sizes)  # counted together they were more: better twice than never
