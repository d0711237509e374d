"""`assay search`, `assay index` and `assay tune`: the built-in retriever on a data set."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.console import progress_bar
from assay.cli.options import (
    DATASET_OPTION,
    EMBEDDER_OPTION,
    ENGINE_OPTION,
    SEARCH_MODE_OPTION,
    require_used,
)
from assay.cli.verb import Result, argument, option, setting_option
from assay.data import load_dataset
from assay.errors import SearchError, UsageError
from assay.report.numbers import figure
from assay.run.config import parse_shard
from assay.search import embedding
from assay.search.bm25 import Bm25Settings
from assay.search.embedding import EmbedderSettings
from assay.search.filters import parse_filter
from assay.search.index import build_index, check_train_judgments, open_retriever, open_store
from assay.search.retriever import check_request
from assay.targets.target_kinds import parse_target, unused_in_mode

if TYPE_CHECKING:
    from rich.table import Table

    from assay.data.dataset import Dataset
    from assay.search.embedding import Embedder
    from assay.search.index import IndexReport
    from assay.search.retriever import SearchHit
    from assay.search.store import Store

# Titles need the room: an id is folded, and `--json` has it whole.
_MAX_ID_WIDTH = 20


def search(
    context: click.Context,
    query: str = argument("QUERY", "The query, in quotes."),
    embedder: str | None = EMBEDDER_OPTION,
    bm25: list[str] | None = setting_option("bm25"),
    dataset: str = DATASET_OPTION,
    top_k: int = option(10, "How many documents to return, 1 to 100.", "ASSAY_TOP_K", "K"),
    mode: str = SEARCH_MODE_OPTION,
    filters: str | None = option(
        None,
        "Only documents whose metadata match: type=recipe,year>=2019, or JSON such as "
        '{"date": {"gte": "2024-01-01"}}.',
        None,
        "CONDITION|JSON",
        "--filter",
    ),
) -> Result:
    """Search a data set with the reference retriever. A new or changed one is indexed first.

    Documents are listed best first, with a score from 0 to 1 and their rank in each signal.
    """
    chosen_mode = check_request(query, top_k, mode)
    unused = unused_in_mode(parse_target(f"builtin:{mode}"))
    require_used(context, unused, f"with --mode {mode}; leave it out")
    settings, parameters = EmbedderSettings(embedder or ""), Bm25Settings.parse(bm25 or ())
    where = None if filters is None else dict(parse_filter(filters))
    with progress_bar() as progress:
        data = load_dataset(dataset, progress=progress)
        data.require_documents("a search")
        chosen = None if mode == "bm25" else embedding.open_embedder(settings)
        retriever = open_retriever(
            data, chosen_mode, embedder=chosen, bm25=parameters, progress=progress
        )
    with retriever:
        hits = retriever.search(query, top_k, filters=where)
    text = [_table(hits)] if hits else [f"nothing in {data.name} matches {query!r}"]
    results = [{"rank": rank} | asdict(hit) for rank, hit in enumerate(hits, 1)]
    return Result({"query": query, "mode": mode, "results": results}, text)


def _table(hits: Sequence["SearchHit"]) -> "Table":
    """A row for each document; on the right, its rank in each signal that found it."""
    from rich.table import Table
    from rich.text import Text

    signals = list(dict.fromkeys(signal for hit in hits for signal in hit.signals))
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("#", justify="right")
    table.add_column("score", justify="right")
    table.add_column("document", overflow="fold", max_width=_MAX_ID_WIDTH)
    table.add_column("title", overflow="ellipsis", no_wrap=True, ratio=1)
    for signal in signals:
        table.add_column(signal, justify="right")
    for rank, hit in enumerate(hits, 1):
        title = Text(" ".join((hit.title or hit.text[:200]).split()))
        places = (str(hit.signals.get(signal, "")) for signal in signals)
        table.add_row(str(rank), figure(hit.score), Text(hit.doc_id), title, *places)
    return table


def index(
    embedder: str | None = EMBEDDER_OPTION,
    bm25: list[str] | None = setting_option("bm25"),
    dataset: str = DATASET_OPTION,
    engine: str | None = ENGINE_OPTION,
    shard: str | None = option(
        None, "Only embed this part, such as 2/4, for assay merge.", "ASSAY_SHARD", "I/N"
    ),
    out: Path | None = option(
        None, "With --shard: the folder for this part. Default: index-parts/I-of-N.", None, "DIR"
    ),
) -> Result:
    """Embed and index the documents of a data set. Only new texts are embedded.

    The index is kept in QDRANT_PATH (default: in the cache), or on the Qdrant server at
    QDRANT_URL with QDRANT_API_KEY. Searches use the old index until the new one is complete.
    """
    settings, parameters = EmbedderSettings(embedder or ""), Bm25Settings.parse(bm25 or ())
    from assay.search.distributed_index import build_on_cluster, write_part

    if out is not None and not shard:
        raise UsageError("--out has no effect without --shard I/N; add it")
    if shard and engine:
        raise UsageError("--shard and --engine are two ways to divide the work; pass one of them")
    with progress_bar() as progress:
        data = load_dataset(dataset, progress=progress)
        data.require_documents("an index")
        if shard:
            place, parts = parse_shard(shard)
            folder = out or Path("index-parts") / f"{place + 1}-of-{parts}"
            about = (settings, parameters, progress)
            part = write_part(folder, data, dataset, (place, parts), *about)
            note = f"when all {parts} parts are there: assay merge {folder.parent}/*"
            return Result({"part": str(folder)} | asdict(part), notes=[note])
        chosen = embedding.open_embedder(settings)
        store = open_store(data.name, chosen)
        if engine:
            report = build_on_cluster(data, settings, store, progress, bm25=parameters)
        else:
            report = build_index(data, chosen, store, progress, bm25=parameters)
    return _index_result(data, store, chosen, report)


def _index_result(
    data: "Dataset", store: "Store", embedder: "Embedder", report: "IndexReport"
) -> Result:
    """What an index holds now and what was changed in it."""
    about = {"dataset": data.name, "index": store.where, "embedder": embedder.name}
    return Result(about | asdict(report))


def merge_index_parts(folders: list[Path], dataset: str | None) -> Result:
    """Build the index whose parts are in `folders`."""
    from assay.search.distributed_index import VECTORS_FILE, read_parts

    first = read_parts(folders)
    with progress_bar() as progress:
        data = load_dataset(dataset or first.dataset, progress=progress)
        if data.corpus_fingerprint != first.corpus:
            raise SearchError(
                f"the parts were made from other documents than {dataset or first.dataset!r} has "
                "here; pass the data set that they were made from with --dataset"
            )
        embedder = embedding.open_embedder(first.settings)
        cache = embedding.VectorCache()
        for folder in folders:
            cache.take_from(embedding.VectorCache(folder / VECTORS_FILE))
        store = open_store(data.name, embedder)
        report = build_index(data, embedder, store, progress, bm25=first.bm25, cache=cache)
    return _index_result(data, store, embedder, report)


def tune(embedder: str | None = EMBEDDER_OPTION, dataset: str = DATASET_OPTION) -> Result:
    """Learn a ranking from the train judgments of a data set. The test split is not used.

    Prints nDCG@10 on held-out queries: expect this of new ones. The model is kept in the cache for
    builtin:tuned; one that does not beat hybrid there is not saved: exit code 2.
    """
    from assay.search.tuning.tune import describe_gain, learn, model_path, save_if_better

    with progress_bar() as progress:
        data = load_dataset(dataset, progress=progress)
        check_train_judgments(data)
        chosen = embedding.open_embedder(EmbedderSettings(embedder or ""))
        with open_retriever(data, embedder=chosen, progress=progress) as retriever:
            path = model_path(data, chosen, retriever)
            ranker = learn(data, chosen, retriever, progress)
    save_if_better(ranker, path)
    text = [f"{data.name}: learned from train, trained track", describe_gain(ranker.held_out)]
    value = {"model": str(path), "held_out": ranker.held_out}
    return Result(value, [*text, f"model: {path}"])
