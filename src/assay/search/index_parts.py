"""An index made in parts, on several machines: `assay index --shard I/N`.

The part of one machine is a folder with the vectors of its documents and a description;
`assay merge` puts the vectors of all parts into the cache, from where the index is built as if one
machine had embedded everything: points and scores are the same to the last digit.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from assay.data.dataset import Corpus, Document
from assay.errors import AssayError, SearchError
from assay.files import atomic_write, make_private_folder, read_file
from assay.net.json import parse_object
from assay.progress import Progress, silent
from assay.search.bm25 import Bm25Settings
from assay.search.chunks import split_documents
from assay.search.embedding import Embedder, EmbedderSettings, VectorCache
from assay.search.index_changes import batches, corpus_digest

PART_FILE = "part.json"
_VECTORS = "vectors.sqlite3"
_DOCUMENTS_IN_A_PART = 256
_SAME = ("count", "corpus", "embedder", "bm25")


@dataclass(frozen=True, slots=True)
class IndexPart:
    """What a part was made of: all parts of one index agree in `_SAME`, wherever they were made."""

    index: int
    count: int
    dataset: str
    corpus: str
    embedder: str
    settings: EmbedderSettings
    bm25: Bm25Settings
    documents: int


def write_part(
    documents: Corpus,
    part: IndexPart,
    embedder: Embedder,
    folder: Path,
    progress: Progress = silent,
) -> IndexPart:
    """Embed every `count`-th document into `folder`; what is embedded there is not done again.

    Returns the part with what was found out about the documents.
    """
    whole = replace(part, corpus=corpus_digest(documents), embedder=embedder.name)
    whole = replace(whole, documents=len(range(part.index, len(documents), part.count)))
    try:
        make_private_folder(folder)
        cache = VectorCache(folder / _VECTORS)
        mine = islice(documents, part.index, None, part.count)
        _embed(mine, whole.documents, embedder, cache, progress)
        atomic_write(folder / PART_FILE, json.dumps(asdict(whole), indent=1).encode())
    except OSError as error:
        raise SearchError(f"cannot write the part {folder}: {error.strerror or error}") from error
    return whole


def _embed(
    documents: Iterable[Document],
    total: int,
    embedder: Embedder,
    cache: VectorCache,
    progress: Progress,
) -> None:
    done = 0
    for some in batches(documents, max(_DOCUMENTS_IN_A_PART, embedder.texts_at_once)):
        texts = [chunk.embedded for one in split_documents(some, embedder) for chunk in one]
        cache.embed(texts, embedder)
        done += len(some)
        progress("embedding documents", done, total)


def read_parts(folders: Sequence[Path]) -> list[IndexPart]:
    """The parts of one index, in order. Raises `SearchError` unless each is there exactly once."""
    found: dict[int, Path] = {}
    parts: list[IndexPart] = []
    for folder in folders:
        part = _read_part(folder)
        if part.index in found:
            raise SearchError(
                f"{folder} and {found[part.index]} are both part {part.index + 1} of {part.count}; "
                "pass one of them"
            )
        found[part.index] = folder
        parts.append(part)
    first = parts[0]
    for part in parts[1:]:
        for name in _SAME:
            if getattr(part, name) != getattr(first, name):
                values = f"{name} differs ({getattr(part, name)!r}, {getattr(first, name)!r})"
                raise SearchError(
                    f"{found[part.index]} and {found[first.index]} are not parts of one index: "
                    f"their {'documents differ' if name == 'corpus' else values}"
                )
    missing = [str(index + 1) for index in range(first.count) if index not in found]
    if missing:
        raise SearchError(
            f"missing parts of {first.count}: {', '.join(missing)}; make each with: "
            f"assay index --shard {missing[0]}/{first.count}"
        )
    return sorted(parts, key=lambda part: part.index)


def _read_part(folder: Path) -> IndexPart:
    try:
        value = parse_object(read_file(folder / PART_FILE)) or {}
        value["settings"] = EmbedderSettings(**value["settings"])
        value["bm25"] = Bm25Settings(**value["bm25"])
        part = IndexPart(**value)
        if part.documents and not (folder / _VECTORS).is_file():
            raise SearchError(f"{_VECTORS} is missing")
        return part
    except (OSError, ValueError, KeyError, TypeError, AssayError) as error:
        raise SearchError(
            f"{folder} is not a complete part of an index ({error}); make it again with: "
            "assay index --shard"
        ) from None


def take_vectors(folders: Iterable[Path], cache: VectorCache) -> int:
    """Copy the vectors of parts into the cache, except damaged ones; how many were new."""
    return sum(cache.take_from(VectorCache(folder / _VECTORS)) for folder in folders)
