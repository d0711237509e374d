"""`assay index` and `assay tune`: prepare the built-in retriever for a data set."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli.console import print_json, progress_bar, show
from assay.cli.options import (
    EMBEDDER,
    ArchiveOption,
    DatasetOption,
    EngineOption,
    JsonOption,
    bm25_settings,
    embedder_settings,
    option,
    retriever_settings,
    with_options,
)
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.progress import Progress
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import Embedder, EmbedderSettings
    from assay.search.index import IndexReport
    from assay.search.store import Store

Shard = Annotated[
    str | None,
    option(
        "Only embed this part of the documents, such as 2/4, into --part; `assay merge` "
        "builds the index from all parts.",
        "ASSAY_SHARD",
        "I/N",
    ),
]
PartFolder = Annotated[
    Path | None,
    option(
        "With --shard: the folder for this part. Default: index-parts/I-of-N.",
        None,
        "DIR",
        "--part",
    ),
]


@with_options(retriever_settings(*EMBEDDER, "bm25"))
def index(
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    engine: EngineOption = None,
    shard: Shard = None,
    part: PartFolder = None,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Embed and index the documents of a data set. Only new texts are embedded.

    The index is kept in QDRANT_PATH (default: in the cache), or on the Qdrant server at
    QDRANT_URL with QDRANT_API_KEY. Searches use the old index until the new one is complete.
    Shards, copies, quantization and vectors on disk of a new index on a server are set by
    QDRANT_SHARD_NUMBER, QDRANT_REPLICATION_FACTOR, QDRANT_WRITE_CONSISTENCY_FACTOR,
    QDRANT_QUANTIZATION (int8 or binary) and QDRANT_ON_DISK.
    """
    from assay.data import load_dataset
    from assay.search.embedding import open_embedder
    from assay.search.index import build_index, open_store

    settings, bm25 = embedder_settings(options), bm25_settings(options)
    if part is not None and not shard:
        raise UsageError("--part has no effect without --shard I/N; add it")
    if shard and engine:
        raise UsageError("--shard and --engine are two ways to divide the work; pass one of them")
    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        data.require_documents("an index")
        if shard:
            _embed_shard(shard, part, dataset, data, settings, bm25, progress, as_json)
            return
        chosen = open_embedder(settings)
        store = open_store(data.name, chosen)
        if engine:
            from assay.search.distributed_index import build_on_cluster

            report = build_on_cluster(data, settings, store, engine, progress, bm25=bm25)
        else:
            report = build_index(data, chosen, store, progress, bm25=bm25)
    show_index(data, store, chosen, report, as_json)


def show_index(
    data: "Dataset", store: "Store", embedder: "Embedder", report: "IndexReport", as_json: bool
) -> None:
    """What an index holds now and what was changed in it."""
    from assay.report.numbers import count, duration
    from assay.search.index import live_manifest

    made = live_manifest(store)
    language = made.bm25.language if made else "unknown"
    if as_json:
        facts = {"dataset": data.name, "index": store.where, "embedder": embedder.name}
        print_json(facts | {"bm25_language": language} | asdict(report))
        return
    show(
        f"{data.name}: {count(len(data.documents))} documents in {store.where}, BM25 in {language}",
        f"{'built' if report.rebuilt else 'up to date'}, {count(report.embedded)} texts embedded, "
        f"in {duration(report.seconds)}",
    )


def _embed_shard(
    shard: str,
    folder: Path | None,
    dataset: str,
    data: "Dataset",
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
    part = write_part(data, planned, open_embedder(settings), folder, progress)
    if as_json:
        print_json({"part": str(folder)} | asdict(part))
    else:
        show(
            f"{folder}: {part.documents:,} of {len(data.documents):,} documents embedded; when all "
            f"{count} parts are there: assay merge {folder.parent}/*"
        )


def merge_index_parts(
    folders: list[Path], dataset: str | None, archive: Path | None, as_json: bool
) -> None:
    """Build the index whose parts are in `folders`."""
    from assay.data import load_dataset
    from assay.errors import SearchError
    from assay.search.distributed_index import read_parts, take_vectors
    from assay.search.embedding import VectorCache, open_embedder
    from assay.search.index import build_index, open_store

    first = read_parts(folders)[0]
    with progress_bar() as progress:
        data = load_dataset(dataset or first.dataset, archive=archive, progress=progress)
        if data.corpus_fingerprint != first.corpus:
            raise SearchError(
                f"the parts were made from other documents than {dataset or first.dataset!r} has "
                "here; pass the data set that they were made from with --dataset"
            )
        embedder = open_embedder(first.settings)
        cache = VectorCache()
        take_vectors(folders, cache)
        store = open_store(data.name, embedder)
        report = build_index(data, embedder, store, progress, bm25=first.bm25, cache=cache)
    show_index(data, store, embedder, report, as_json)


@with_options(retriever_settings(*EMBEDDER))
def tune(
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    seed: Annotated[int, option("Random seed of the training.", "ASSAY_TUNE_SEED", "S")] = 0,
    splits: Annotated[
        str,
        option(
            "train, or train,dev: the dev judgments are then added to the model "
            "after all choices and measurements are made.",
            "ASSAY_TUNE_SPLITS",
            "SPLITS",
        ),
    ] = "train",
    mode: Annotated[
        str,
        option(
            "tuned learns a ranking; bm25 only picks BM25's parameters on the train split, and "
            "prints the option that sets them.",
            metavar="MODE",
        ),
    ] = "tuned",
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Learn a ranking from the train judgments of a data set. The test split is not used.

    What is printed is nDCG@10 on held-out queries: each was ranked by trees that had not seen its
    judgments. Expect this of new queries, and more on the train split, which the model has seen.

    The model is kept in the cache, where builtin:tuned and `assay serve ... --mode tuned` find
    it. One that does not beat hybrid on held-out queries is not saved: exit code 2.
    """
    if mode not in ("tuned", "bm25"):
        raise UsageError(f"--mode must be tuned or bm25, got {mode!r}")
    if mode == "bm25":
        _pick_bm25(dataset, archive, seed, as_json)
        return
    from assay.data import load_dataset
    from assay.search.embedding import open_embedder
    from assay.search.index import check_train_judgments, open_retriever
    from assay.search.tuning.tune import (
        check_splits,
        describe_gain,
        learn,
        model_path,
        save_if_better,
    )

    learned = check_splits(splits)
    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        check_train_judgments(data)
        chosen = open_embedder(embedder_settings(options))
        path = model_path(data, chosen, seed=seed)
        with open_retriever(data, embedder=chosen, progress=progress) as retriever:
            ranker = learn(data, chosen, retriever, seed=seed, splits=learned, progress=progress)
    save_if_better(ranker, path)
    if as_json:
        about = asdict(ranker.about)
        held_out = asdict(ranker.held_out) | {"seed_spread": ranker.held_out.seed_spread}
        print_json({"model": str(path), "about": about, "held_out": held_out})
        return
    show(
        f"{data.name}: learned from {' and '.join(ranker.splits)}, trained track",
        describe_gain(ranker.held_out),
        f"model: {path}",
    )


def _pick_bm25(dataset: str, archive: Path | None, seed: int, as_json: bool) -> None:
    from assay.data import load_dataset
    from assay.search.bm25_choice import choose_bm25

    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        found = choose_bm25(data, seed=seed, progress=progress)
    if as_json:
        print_json({"dataset": data.name, "better": found.better, **asdict(found)})
        return
    compared = (
        f"nDCG@10 {found.ndcg_10:.4f} with {found.best}, {found.default_ndcg_10:.4f} with the "
        f"defaults (standard error of the difference {found.standard_error:.4f})"
    )
    advice = (
        f"use: --bm25 {found.chosen.as_text()}"
        if found.better
        else f"keep the defaults ({found.chosen}): the difference may be chance"
    )
    show(f"{data.name}: {found.queries} train queries, trained track", compared, advice)
