"""An index that several machines make together: `assay index --shard I/N`, `--engine ray`.

The vectors of all parts come into the cache, from where the index is built as if one machine had
embedded everything: scores are the same to the last digit.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from pydantic import TypeAdapter

from assay.data.dataset import Dataset, Document
from assay.errors import AssayError, SearchError
from assay.files import atomic_write, make_private_folder, read_file
from assay.progress import Progress, silent
from assay.ray_cluster import RayCluster
from assay.search.bm25 import Bm25Settings
from assay.search.chunks import split_documents
from assay.search.embedding import (
    Embedder,
    EmbedderSettings,
    VectorCache,
    Vectors,
    batches,
    open_embedder,
)
from assay.search.index import IndexReport, build_index
from assay.search.store import Store

PART_FILE = "part.json"
VECTORS_FILE = "vectors.sqlite3"
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
    folder: Path,
    dataset: Dataset,
    name: str,
    shard: tuple[int, int],
    settings: EmbedderSettings,
    bm25: Bm25Settings,
    progress: Progress = silent,
) -> IndexPart:
    """Embed every `count`-th document into `folder`; what is embedded there is not done again.
    `name`: how to load the data set. `shard`: the index of the part, from 0, and their count.
    """
    (index, count), embedder = shard, open_embedder(settings)
    total, done = len(range(index, len(dataset.documents), count)), 0
    corpus = dataset.corpus_fingerprint
    part = IndexPart(index, count, name, corpus, embedder.name, settings, bm25, total)
    try:
        make_private_folder(folder)
        vectors = VectorCache(folder / VECTORS_FILE)
        mine = islice(dataset.documents.values(), index, None, count)
        for some in batches(mine, max(_DOCUMENTS_IN_A_PART, embedder.texts_at_once)):
            vectors.embed(_texts(some, embedder), embedder)
            done += len(some)
            progress("embedding documents", done, total)
        atomic_write(folder / PART_FILE, json.dumps(asdict(part), indent=1).encode())
    except OSError as error:
        raise SearchError(f"cannot write the part {folder}: {error.strerror or error}") from error
    return part


def _texts(documents: Sequence[Document], embedder: Embedder) -> list[str]:
    """What is embedded of these documents, chunk by chunk."""
    return [chunk.embedded for one in split_documents(documents, embedder) for chunk in one]


def read_parts(folders: Sequence[Path]) -> IndexPart:
    """The first of the parts of one index. Raises `SearchError` unless each is there once."""
    found: dict[int, tuple[Path, IndexPart]] = {}
    for folder in folders:
        try:
            part = TypeAdapter(IndexPart).validate_json(read_file(folder / PART_FILE))
            if part.documents and not (folder / VECTORS_FILE).is_file():
                raise SearchError(f"{VECTORS_FILE} is missing")
        except (OSError, ValueError, AssayError) as error:
            raise SearchError(
                f"{folder} is not a complete part of an index ({error}); make it again with: "
                "assay index --shard"
            ) from None
        other, first = next(iter(found.values()), (folder, part))
        wrong = [name for name in _SAME if getattr(part, name) != getattr(first, name)]
        if wrong:
            what = "documents" if wrong[0] == "corpus" else wrong[0]
            raise SearchError(f"{folder} and {other} are not parts of one index: {what} differ")
        if part.index in found:
            raise SearchError(
                f"{folder} and {found[part.index][0]} are both part {part.index + 1} of "
                f"{part.count}; pass one of them"
            )
        found[part.index] = folder, part
    missing = [str(index + 1) for index in range(first.count) if index not in found]
    if missing:
        raise SearchError(
            f"missing parts of {first.count}: {', '.join(missing)}; make each with: "
            f"assay index --shard {missing[0]}/{first.count}"
        )
    return found[0][1]


def build_on_cluster(
    dataset: Dataset,
    settings: EmbedderSettings,
    store: Store,
    engine: str,
    progress: Progress = silent,
    *,
    bm25: Bm25Settings | None = None,
) -> IndexReport:
    """As `build_index`, embedded by a Ray cluster. Vectors come into the cache of this machine, so
    that what is finished is not computed again after an interruption.
    """
    embedder, vectors = open_embedder(settings), VectorCache()

    def parts() -> Iterator[tuple[object, ...]]:
        for some in batches(dataset.documents.values(), _DOCUMENTS_IN_A_PART):
            if missing := vectors.missing(_texts(some, embedder), embedder):
                yield missing, settings, embedder.name

    with RayCluster(engine, {"ASSAY_THREADS": "1"}) as cluster:
        gpus = cluster.count("GPU")
        progress(f"using {cluster.count('CPU')} CPUs and {gpus} GPUs of Ray", 0, None)
        on_gpu = settings.embedder.startswith("st:") and gpus > 0
        done = 0
        for _, found in cluster.map(_embed_texts, parts(), gpus=int(on_gpu)):
            if isinstance(found, AssayError):
                raise found
            vectors.add(found, embedder)
            done += len(found)
            progress("embedding texts", done, None)
    return build_index(dataset, embedder, store, progress, bm25=bm25, cache=vectors)


def _embed_texts(texts: Sequence[str], settings: EmbedderSettings, name: str) -> dict[str, Vectors]:
    """On a worker: the vector of each text, by the model that the caller has."""
    embedder = _worker_embedder(settings)
    if embedder.name != name:
        raise SearchError(
            f"a node of the cluster embeds with {embedder.name!r}, not with {name!r}; install the "
            "same version of Assay and of the model on all nodes"
        )
    return dict(zip(texts, embedder.embed(list(texts)), strict=True))


_worker_embedder = cache(open_embedder)  # a worker computes many parts
