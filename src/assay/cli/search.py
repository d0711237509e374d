"""`assay search`: the documents that the reference retriever finds for a query."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, progress_bar, say, show
from assay.cli.options import (
    EMBEDDER,
    ArchiveOption,
    DatasetOption,
    JsonOption,
    bm25_settings,
    embedder_settings,
    option,
    refuse_unused,
    retriever_settings,
    switch,
    with_options,
)
from assay.net.json import JsonObject

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from assay.data import Dataset
    from assay.progress import Progress
    from assay.search.bm25 import Bm25Settings
    from assay.search.embedding import EmbedderSettings
    from assay.search.explanation import Explanation
    from assay.search.modes import Mode
    from assay.search.retriever import Retriever, SearchHit


_LONGEST_ID = 20
# Width of a terminal that has space for a passage beside the title.
_WIDE = 110
# How much of a passage is shown before the first word of the query.
_BEFORE = 20
# How much of a judged query is shown.
_QUERY_SHOWN = 80


@with_options(retriever_settings(*EMBEDDER, "reranker", "bm25"))
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="The query, in quotes.", metavar="QUERY")],
    dataset: DatasetOption = "nfcorpus",
    top_k: Annotated[
        int, option("How many documents to return, 1 to 100.", "ASSAY_TOP_K", "K")
    ] = 10,
    mode: Annotated[
        str,
        option(
            "bm25 (keywords), dense (embeddings), hybrid (both) or tuned (learned "
            "from the train judgments; takes minutes the first time).",
            "ASSAY_MODE",
            "MODE",
        ),
    ] = "hybrid",
    filters: Annotated[
        str | None,
        option(
            "Only documents whose metadata match: type=recipe, year>=2019, "
            "date>=2024-01-01 (ISO 8601), separated by commas; or as JSON: "
            '{"type": ["recipe", "travel"]}, {"date": {"gte": "2024-01-01", "lt": "2025-01-01"}}.',
            None,
            "CONDITION|JSON",
            "--filter",
        ),
    ] = None,
    archive: ArchiveOption = None,
    explain: Annotated[
        bool,
        switch(
            "--explain",
            "Explain the score of each document: the share of each signal, the matched words, the "
            "feedback documents, for tuned the judged queries.",
        ),
    ] = False,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Search a data set with the reference retriever. A new or changed one is indexed first,
    without embeddings for bm25.

    The table has a row for each document, best first, with a score from 0 to 1. The columns on the
    right are its rank in each signal that found it. For hybrid: bm25 (shared words), dense (similar
    embeddings) and feedback (similar to the query and the first three documents combined). For
    tuned: words, meaning and judgments (relevant for similar queries). A terminal of 110 columns or
    more also shows the best matching passage.
    """
    from assay.data import load_dataset
    from assay.search.filters import parse_filter
    from assay.search.retriever import check_request
    from assay.targets.opening import parse_target
    from assay.targets.target_kinds import unused_in_mode

    chosen_mode = check_request(query, top_k, mode)
    unused = unused_in_mode(parse_target(f"builtin:{mode}"), options["reranker"] or "")
    refuse_unused(context, unused, f"with --mode {mode}; leave it out")
    settings, bm25 = embedder_settings(options), bm25_settings(options)
    where = None if filters is None else dict(parse_filter(filters))
    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        retriever = _open(data, chosen_mode, settings, bm25, progress)
    with retriever:
        if explain:
            explained = retriever.explain(query, top_k, mode=chosen_mode, filters=where)
            hits, why = [hit for hit, _ in explained], [one for _, one in explained]
        else:
            hits, why = retriever.search(query, top_k, mode=chosen_mode, filters=where), []
    if as_json:
        print_json({"query": query, "mode": mode, "results": _as_json(hits, why)})
    elif hits:
        show(_Results(query, hits))
        for rank, (hit, one) in enumerate(zip(hits, why, strict=False), 1):
            show(*_explained(rank, hit, one, data))
    elif where and not _number_that_meets(data, where):
        show(f"no document of {data.name} meets the filter {json.dumps(where, ensure_ascii=False)}")
    else:
        show(f"nothing in {data.name} matches {query!r}")
    if where and 0 < len(hits) < top_k:
        met = _number_that_meets(data, where)
        say(f"{met:,} of {len(data.documents):,} documents meet the filter")


def _as_json(hits: "Sequence[SearchHit]", why: "Sequence[Explanation]") -> list[JsonObject]:
    results: list[JsonObject] = [{"rank": rank} | asdict(hit) for rank, hit in enumerate(hits, 1)]
    for record, one in zip(results, why, strict=False):
        record["explanation"] = asdict(one)
    return results


def _open(
    data: "Dataset",
    mode: "Mode",
    settings: "EmbedderSettings",
    bm25: "Bm25Settings",
    progress: "Progress",
) -> "Retriever":
    """The retriever for a mode; the index is built or brought up to date."""
    from assay.search.embedding import open_embedder
    from assay.search.index import open_retriever

    embedder = None if mode == "bm25" else open_embedder(settings)
    retriever = open_retriever(data, mode, embedder=embedder, bm25=bm25, progress=progress)
    if not settings.reranker:
        return retriever
    from assay.search.reranking import with_reranker  # brings an HTTP client

    return with_reranker(retriever, settings)


def _number_that_meets(data: "Dataset", where: JsonObject) -> int:
    from assay.search.filters import conditions, holds
    from assay.search.store import plain_metadata

    wanted = conditions(where)
    found = map(plain_metadata, data.documents.values())
    return sum(all(holds(one, metadata) for one in wanted) for metadata in found)


def _explained(rank: int, hit: "SearchHit", why: "Explanation", data: "Dataset") -> list[str]:
    """A few lines for one document."""
    from assay.report.numbers import figure
    from assay.search.retriever import BM25_MIDPOINT

    parts = " + ".join(f"{name} {figure(share)}" for name, share in why.shares.items())
    lines = [f"\n{rank}. {hit.doc_id}: {figure(hit.score)} = {parts}"]
    if hit.total_chunks > 1:
        lines.append(f"   chunk: {hit.chunk_index + 1} of {hit.total_chunks}")
    if why.terms:
        words = sorted(why.terms.items(), key=lambda one: -one[1])
        line = "   words: " + ", ".join(f"{word} {weight:.2f}" for word, weight in words)
        if list(why.shares) == ["bm25"]:  # in the other modes it is divided by the best one
            line += f"; sum s = {sum(why.terms.values()):.4f}, score = s / (s + {BM25_MIDPOINT:g})"
        lines.append(line)
    if why.feedback:
        lines.append("   feedback: " + ", ".join(why.feedback))
    for one in why.judged:
        asked = data.queries[one.query_id].text if one.query_id in data.queries else one.query_id
        lines.append(f"   judged: {asked[:_QUERY_SHOWN]!r} (overlap {one.overlap:.2f})")
    return lines


@dataclass(frozen=True)
class _Results:
    """A table that knows how wide the terminal is only when it is drawn."""

    query: str
    hits: Sequence["SearchHit"]

    def __rich_console__(self, _console: "Console", options: "ConsoleOptions") -> "RenderResult":
        yield _table(self.query, self.hits, with_passages=options.max_width >= _WIDE)


def _table(query: str, hits: Sequence["SearchHit"], *, with_passages: bool) -> "Table":
    """A row for each document; on the right, its rank in each signal that found it."""
    from rich.table import Table
    from rich.text import Text

    from assay.report.numbers import figure

    signals = list(dict.fromkeys(signal for hit in hits for signal in hit.signals))
    longest = min(_LONGEST_ID, max(len(hit.doc_id) for hit in hits))
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("#", justify="right", width=len(str(len(hits))))
    table.add_column("score", justify="right", width=len(figure(1.0)))
    table.add_column("document", overflow="fold", width=max(longest, len("document")))
    table.add_column("title", overflow="ellipsis", no_wrap=True, ratio=1)
    if with_passages:
        table.add_column("passage", overflow="ellipsis", no_wrap=True, ratio=1, style="dim")
    for signal in signals:
        table.add_column(signal, justify="right", width=len(signal))
    for rank, hit in enumerate(hits, 1):
        words = [Text(" ".join((hit.title or hit.text[:200]).split()))]
        if with_passages:
            words.append(Text(_passage(query, hit.text)))
        places = (str(hit.signals.get(signal, "")) for signal in signals)
        table.add_row(str(rank), figure(hit.score), Text(hit.doc_id), *words, *places)
    return table


def _passage(query: str, text: str) -> str:
    """From a little before the first long word of the query, where the text has one."""
    text = " ".join(text.split())
    words = [re.escape(word) for word in re.findall(r"\w{4,}", query[:1000])]
    found = re.search("|".join(words), text, re.IGNORECASE) if words else None
    if found is None or found.start() <= _BEFORE:
        return text
    start = text.find(" ", found.start() - _BEFORE) + 1
    return f"… {text[min(start, found.start()) :]}"
