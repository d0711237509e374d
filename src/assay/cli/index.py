"""`assay index`: embed a data set's documents and make them searchable."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from assay.cli.console import print_json, show
from assay.cli.options import (
    ArchiveOption,
    BOption,
    DatasetOption,
    DeltaOption,
    DeviceOption,
    EmbedderOption,
    EngineOption,
    JsonOption,
    K1Option,
    LanguageOption,
    ModelOption,
    StopWordsOption,
    TitleWeightOption,
)
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.data.dataset import Corpus, Dataset
    from assay.progress import Progress
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import Embedder, EmbedderSettings
    from assay.search.index import IndexReport
    from assay.search.qdrant_cluster import ClusterSettings
    from assay.search.store import Store

ShardNumber = Annotated[
    int | None,
    typer.Option(
        "--shard-number",
        help="On a Qdrant server: in how many parts to divide the points of a new index.",
        envvar="QDRANT_SHARD_NUMBER",
        metavar="N",
        min=1,
    ),
]
ReplicationFactor = Annotated[
    int | None,
    typer.Option(
        "--replication-factor",
        help="On a Qdrant cluster: how many nodes hold each part of a new index.",
        envvar="QDRANT_REPLICATION_FACTOR",
        metavar="N",
        min=1,
    ),
]
WriteConsistency = Annotated[
    int | None,
    typer.Option(
        "--write-consistency",
        help="On a Qdrant cluster: how many copies must have stored a point before it counts.",
        envvar="QDRANT_WRITE_CONSISTENCY_FACTOR",
        metavar="N",
        min=1,
    ),
]
QuantizationOption = Annotated[
    str,
    typer.Option(
        "--quantization",
        help="On a Qdrant server: keep int8 or binary vectors in memory to find candidates by, "
        "which are then scored by the whole vectors; or none.",
        envvar="QDRANT_QUANTIZATION",
        metavar="KIND",
    ),
]
OnDisk = Annotated[
    bool,
    typer.Option(
        "--on-disk",
        help="On a Qdrant server: keep vectors, words and texts on the disk instead of in memory.",
        envvar="QDRANT_ON_DISK",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        help="Only embed this part of the documents, such as 2/4, into --part; `assay merge` "
        "builds the index from all parts.",
        envvar="ASSAY_SHARD",
        metavar="I/N",
    ),
]
PartFolder = Annotated[
    Path | None,
    typer.Option(
        "--part",
        help="With --shard: the folder for this part. Default: index-parts/I-of-N.",
        metavar="DIR",
    ),
]


def index(
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    model: ModelOption = None,
    embedder: EmbedderOption = None,
    device: DeviceOption = "auto",
    bm25_k1: K1Option = 1.2,
    bm25_b: BOption = 0.75,
    bm25_delta: DeltaOption = 0.0,
    bm25_title_weight: TitleWeightOption = 3.0,
    bm25_language: LanguageOption = "auto",
    bm25_stop_words: StopWordsOption = "default",
    shard_number: ShardNumber = None,
    replication_factor: ReplicationFactor = None,
    write_consistency: WriteConsistency = None,
    quantization: QuantizationOption = "none",
    on_disk: OnDisk = False,
    engine: EngineOption = None,
    shard: Shard = None,
    part: PartFolder = None,
    as_json: JsonOption = False,
) -> None:
    """Embed and index documents. Only new and changed ones are processed.

    The index is kept in QDRANT_PATH (default: in the cache), or on the Qdrant server at
    QDRANT_URL with QDRANT_API_KEY. Searches use the old index until the new one is complete.
    """
    from assay.cli.console import progress_bar
    from assay.data import load_dataset
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import EmbedderSettings, open_embedder
    from assay.search.index import build_index, open_store
    from assay.search.index_changes import as_corpus

    bm25 = Bm25Settings(
        bm25_k1, bm25_b, bm25_delta, bm25_title_weight, bm25_language, bm25_stop_words
    )
    kept = (shard_number, replication_factor, write_consistency, quantization, on_disk)
    cluster = _cluster(*kept) if kept != (None, None, None, "none", False) else None
    settings = EmbedderSettings(embedder or "", str(model or ""), device)
    if part is not None and not shard:
        raise UsageError("--part is where --shard I/N puts its part; add --shard")
    if shard and engine:
        raise UsageError("--shard and --engine are two ways to divide the work; pass one of them")
    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        data.require_documents("an index")
        documents = as_corpus(data.documents.values())
        if shard:
            _embed_shard(shard, part, dataset, documents, settings, bm25, progress, as_json)
            return
        chosen = open_embedder(settings)
        store = open_store(data.name, chosen, cluster=cluster)
        if engine:
            from assay.search.distributed_index import build_on_cluster

            report = build_on_cluster(documents, settings, store, engine, progress, bm25=bm25)
        else:
            report = build_index(documents, chosen, store, progress, bm25=bm25)
    show_index(data, store, chosen, report, as_json)


def show_index(
    data: "Dataset", store: "Store", embedder: "Embedder", report: "IndexReport", as_json: bool
) -> None:
    """What an index holds now and what was changed in it."""
    from assay.report.numbers import count, duration
    from assay.search.index import live_manifest

    made = live_manifest(store)
    language = made.bm25.language if made and made.bm25 else "unknown"
    if as_json:
        facts = {"dataset": data.name, "index": store.where, "embedder": embedder.name}
        print_json(facts | {"bm25_language": language} | asdict(report))
        return
    show(
        f"{data.name}: {count(len(data.documents))} documents in {store.where}, BM25 in {language}",
        f"{count(report.added)} added, {count(report.changed)} changed, "
        f"{count(report.removed)} removed, {count(report.unchanged)} unchanged "
        f"in {duration(report.seconds)}",
    )


def _cluster(
    shard_number: int | None,
    replication_factor: int | None,
    write_consistency: int | None,
    quantization: str,
    on_disk: bool,
) -> "ClusterSettings":
    if not os.environ.get("QDRANT_URL"):
        raise UsageError(
            "--shard-number, --replication-factor, --write-consistency, --quantization and "
            "--on-disk are about an index on a Qdrant server; set QDRANT_URL, or leave them out"
        )
    from assay.search.qdrant_cluster import ClusterSettings, Quantization

    kind = cast(Quantization, quantization)
    return ClusterSettings(shard_number, replication_factor, write_consistency, kind, on_disk)


def _embed_shard(
    shard: str,
    folder: Path | None,
    dataset: str,
    documents: "Corpus",
    settings: "EmbedderSettings",
    bm25: "Bm25Settings",
    progress: "Progress",
    as_json: bool,
) -> None:
    from assay.run.settings import parse_shard
    from assay.search.distributed_index import IndexPart, write_part
    from assay.search.embedding import open_embedder

    index, count = parse_shard(shard)
    folder = folder or Path("index-parts") / f"{index + 1}-of-{count}"
    planned = IndexPart(index, count, dataset, "", "", settings, bm25, 0)
    part = write_part(documents, planned, open_embedder(settings), folder, progress)
    if as_json:
        print_json({"part": str(folder)} | asdict(part))
    else:
        show(
            f"{folder}: {part.documents:,} of {len(documents):,} documents embedded; when all "
            f"{count} parts are there: assay merge {folder.parent}/*"
        )


def merge_index_parts(
    folders: list[Path], dataset: str | None, archive: Path | None, as_json: bool
) -> None:
    """Build the index whose parts are in `folders`."""
    from assay.cli.console import progress_bar
    from assay.data import load_dataset
    from assay.errors import SearchError
    from assay.search.distributed_index import read_parts, take_vectors
    from assay.search.embedding import VectorCache, open_embedder
    from assay.search.index import build_index, open_store
    from assay.search.index_changes import as_corpus, corpus_digest

    first = read_parts(folders)[0]
    with progress_bar() as progress:
        data = load_dataset(dataset or first.dataset, archive=archive, progress=progress)
        documents = as_corpus(data.documents.values())
        if corpus_digest(documents) != first.corpus:
            raise SearchError(
                f"the parts were made from other documents than {dataset or first.dataset!r} has "
                "here; pass the data set that they were made from with --dataset"
            )
        embedder = open_embedder(first.settings)
        cache = VectorCache()
        take_vectors(folders, cache)
        store = open_store(data.name, embedder)
        report = build_index(documents, embedder, store, progress, bm25=first.bm25, cache=cache)
    show_index(data, store, embedder, report, as_json)
