"""An index that several machines make together: `assay index --shard I/N`, `--engine ray`.

The vectors of all parts come into the cache, from where the index is built as if one machine had
embedded everything: scores are the same to the last digit.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from assay.data.dataset import Dataset
from assay.errors import AssayError, SearchError
from assay.files import atomic_write, make_private_folder, read_file
from assay.progress import Progress, silent
from assay.ray_cluster import RayCluster
from assay.search.bm25 import Bm25Settings
from assay.search.chunks import split_documents
from assay.search.embedding import EmbedderSettings, VectorCache, Vectors, batches, open_embedder
from assay.search.index import IndexReport, build_index
from assay.search.store import Store

PART_FILE = "part.json"
VECTORS_FILE = "vectors.sqlite3"
_DOCUMENTS_IN_A_PART = 256
# Of a cluster: a call is worth its way, and no CPU waits long for the last ones.
_TEXTS_IN_A_CALL, _CALLS_AT_ONCE = 256, 16
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
            chunks = chain.from_iterable(split_documents(some, embedder))
            vectors.embed([chunk.embedded for chunk in chunks], embedder)
            done += len(some)
            progress("embedding documents", done, total)
        atomic_write(folder / PART_FILE, json.dumps(asdict(part), indent=1).encode())
    except OSError as error:
        raise SearchError(f"cannot write the part {folder}: {error.strerror or error}") from error
    return part


def read_parts(folders: Sequence[Path]) -> IndexPart:
    """The first of the parts of one index. Raises `SearchError` unless each is there once."""
    found: dict[int, tuple[Path, IndexPart]] = {}
    for folder in folders:
        try:
            part = TypeAdapter(IndexPart).validate_json(read_file(folder / PART_FILE))
            if part.documents:  # one of fewer documents than parts has none, and no vectors
                (folder / VECTORS_FILE).stat()
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
    progress: Progress = silent,
    *,
    bm25: Bm25Settings | None = None,
) -> IndexReport:
    """As `build_index`, embedded by a Ray cluster; this machine keeps the vectors."""
    with RayCluster({"ASSAY_THREADS": "1"}) as cluster:
        counts = f"{cluster.count('CPU')} CPUs and {cluster.count('GPU')} GPUs"
        progress(f"using {counts} of Ray", 0, None)
        return build_index(dataset, ClusterEmbedder(settings, cluster), store, progress, bm25=bm25)


class ClusterEmbedder:
    """An embedder that all CPUs or GPUs of a cluster share: each gets some texts at a time."""

    def __init__(self, settings: EmbedderSettings, cluster: RayCluster) -> None:
        own = open_embedder(settings)
        self.name, self.max_tokens, self.prompts = own.name, own.max_tokens, own.prompts
        self.dimension, self.count_tokens = own.dimension, own.count_tokens
        self.texts_at_once = _CALLS_AT_ONCE * cluster.count("CPU") * _TEXTS_IN_A_CALL
        self._settings, self._cluster = settings, cluster
        self._gpus = int(settings.embedder.startswith("st:") and cluster.count("GPU") > 0)

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """One row of length 1 for each text."""
        calls = [(some, self._settings, self.name) for some in batches(texts, _TEXTS_IN_A_CALL)]
        found: dict[int, Vectors] = {}
        for place, vectors in self._cluster.map(_embed_texts, calls, gpus=self._gpus):
            if isinstance(vectors, AssayError):
                raise vectors
            found[place] = vectors
            progress("embedding", sum(map(len, found.values())), len(texts))
        return np.concatenate([found[place] for place in range(len(calls))])


def _embed_texts(texts: list[str], settings: EmbedderSettings, name: str) -> Vectors:
    """On a worker, by the model that the caller has."""
    embedder = _worker_embedder(settings)
    if embedder.name != name:
        raise SearchError(
            f"a node of the cluster embeds with {embedder.name!r}, not with {name!r}; install the "
            "same version of Assay and of the model on all nodes"
        )
    return embedder.embed(texts)


_worker_embedder = cache(open_embedder)  # a worker computes many parts
