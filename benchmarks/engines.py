"""What a user could pick instead: other engines on the same documents, queries and vectors.

    mkdir -p ../engines && cd ../engines
    for one in bm25s rank_bm25 tantivy lancedb chromadb; do uv venv $one; done
    uv pip install --python bm25s bm25s PyStemmer         # and so on, each in its own environment
    .venv/bin/python benchmarks/engines.py --engines ../engines --dataset nfcorpus.zip

The first time, Assay's index also embeds what is not in the cache: run it twice.

Every engine runs in a process of its own, with the settings that its documentation shows first, and
with the vectors of Assay's built-in model: one for each document, of its title and its first 256
tokens, as its users would make them. Prints nDCG@10, R@100 and CPU; the model's own CPU is the same
for all, and is not counted. Assay's rows are what `builtin:bm25` and `builtin:hybrid` do.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DEPTH = 100
Ask = Callable[[str, int], list[str]]
"""A query and its number, which is the row of its vector: ids, best first."""


class Corpus:
    """What `prepare` wrote: the same for all."""

    def __init__(self, folder: Path) -> None:
        content = json.loads((folder / "corpus.json").read_text())
        self.folder = folder
        self.ids: list[str] = content["ids"]
        self.titles: list[str] = content["titles"]
        self.texts: list[str] = content["texts"]
        self.queries: list[str] = content["queries"]

    @property
    def whole(self) -> list[str]:
        """Title and text in one, for engines that have one field."""
        return [f"{title} {text}" for title, text in zip(self.titles, self.texts, strict=True)]

    def vectors(self, name: str) -> Any:
        """Of `documents` or of `queries`."""
        import numpy

        return numpy.load(self.folder / f"{name}.npy")


def bm25s(corpus: Corpus) -> Ask:
    import bm25s as library
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    tokens = library.tokenize(corpus.whole, stopwords="en", stemmer=stemmer, show_progress=False)
    index = library.BM25()
    index.index(tokens, show_progress=False)

    def ask(query: str, _row: int) -> list[str]:
        asked = library.tokenize([query], stopwords="en", stemmer=stemmer, show_progress=False)
        rows, scores = index.retrieve(asked, k=DEPTH, show_progress=False)
        return [
            corpus.ids[int(row)] for row, score in zip(rows[0], scores[0], strict=True) if score > 0
        ]

    return ask


def rank_bm25(corpus: Corpus) -> Ask:
    import numpy
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([text.lower().split() for text in corpus.whole])

    def ask(query: str, _row: int) -> list[str]:
        scores = index.get_scores(query.lower().split())
        best = numpy.argsort(-scores, kind="stable")[:DEPTH]
        return [corpus.ids[int(row)] for row in best if scores[row] > 0]

    return ask


def tantivy(corpus: Corpus) -> Ask:
    import tantivy as library

    schema = library.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw")
    schema.add_text_field("title", tokenizer_name="en_stem")
    schema.add_text_field("text", tokenizer_name="en_stem")
    index = library.Index(schema.build())
    writer = index.writer(num_threads=1)
    for one, title, text in zip(corpus.ids, corpus.titles, corpus.texts, strict=True):
        writer.add_document(library.Document(id=one, title=title, text=text))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def ask(query: str, _row: int) -> list[str]:
        words = "".join(one if one.isalnum() else " " for one in query)
        parsed, _ = index.parse_query_lenient(words, ["title", "text"])
        return [
            searcher.doc(address)["id"][0] for _, address in searcher.search(parsed, DEPTH).hits
        ]

    return ask


def lancedb(corpus: Corpus) -> Ask:
    import lancedb as library
    from lancedb.index import FTS
    from lancedb.rerankers import RRFReranker

    rows = [
        {"id": one, "text": text, "vector": vector}
        for one, text, vector in zip(
            corpus.ids, corpus.whole, corpus.vectors("documents"), strict=True
        )
    ]
    table = library.connect(str(corpus.folder / "lancedb")).create_table("documents", rows)
    if hasattr(table, "create_fts_index"):
        table.create_fts_index("text")
    else:
        table.create_index("text", config=FTS())
    queries, reranker = corpus.vectors("queries"), RRFReranker()

    def ask(query: str, row: int) -> list[str]:
        found = table.search(query_type="hybrid").vector(queries[row]).text(query)
        return [one["id"] for one in found.rerank(reranker).limit(DEPTH).to_list()]

    return ask


def chromadb(corpus: Corpus) -> Ask:
    import chromadb as library

    client = library.EphemeralClient(library.Settings(anonymized_telemetry=False))
    collection = client.create_collection("documents", metadata={"hnsw:space": "cosine"})
    vectors, step = corpus.vectors("documents"), 1000
    for start in range(0, len(corpus.ids), step):
        part = slice(start, start + step)
        collection.add(ids=corpus.ids[part], embeddings=vectors[part], documents=corpus.whole[part])
    queries = corpus.vectors("queries")

    def ask(_query: str, row: int) -> list[str]:
        found: list[str] = collection.query(query_embeddings=[queries[row]], n_results=DEPTH)[
            "ids"
        ][0]
        return found

    return ask


def qdrant(corpus: Corpus) -> Ask:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    vectors = corpus.vectors("documents")
    size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
    client.create_collection("documents", vectors_config=size)
    client.upload_collection(
        "documents", vectors=vectors, payload=[{"id": one} for one in corpus.ids]
    )
    queries = corpus.vectors("queries")

    def ask(_query: str, row: int) -> list[str]:
        found = client.query_points("documents", query=queries[row].tolist(), limit=DEPTH)
        return [(point.payload or {})["id"] for point in found.points]

    return ask


ENGINES: dict[str, tuple[Callable[[Corpus], Ask], str]] = {
    "rank_bm25": (rank_bm25, "words"),
    "bm25s": (bm25s, "words"),
    "tantivy": (tantivy, "words"),
    "chromadb": (chromadb, "vectors"),
    "fastembed": (qdrant, "vectors"),
    "lancedb": (lancedb, "both"),
}
NAMES = {
    "chromadb": "Chroma",
    "fastembed": "qdrant-client, in memory",
    "lancedb": "LanceDB hybrid (RRF)",
}


def run(name: str, folder: Path) -> None:
    """In the engine's own environment: index, ask, and say what it took."""
    corpus = Corpus(folder)
    print(json.dumps(measured(lambda: ENGINES[name][0](corpus), corpus.queries)))


def measured(build: Callable[[], Ask], queries: Sequence[str]) -> dict[str, Any]:
    """CPU seconds to index and to ask, all threads together, and the rankings."""
    before = time.process_time()
    ask = build()
    indexed = time.process_time()
    for row in range(min(10, len(queries))):
        ask(queries[row], row)
    warm = time.process_time()
    rankings = [ask(query, row) for row, query in enumerate(queries)]
    return {
        "index": indexed - before,
        "search": time.process_time() - warm,
        "rankings": rankings,
    }


def main() -> None:
    options = _options()
    if options.run:
        run(options.run, options.folder)
        return
    from assay.data import load_dataset

    dataset = load_dataset(options.dataset)
    queries = dataset.queries_in(options.split)
    print(f"{dataset.name} {options.split}: {len(dataset.documents):,} documents, {len(queries)}")
    print("| engine | signals | nDCG@10 | R@100 | ms of CPU a document | ms of CPU a query |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = _prepare(dataset, [query.text for query in queries], folder)
        for label, signals, build in own if options.only is None else ():
            _row(
                label, signals, measured(build, [query.text for query in queries]), dataset, options
            )
        for engine, (_, signals) in ENGINES.items():
            if options.only not in (None, engine):
                continue
            python = options.engines / engine / "bin" / "python"
            if not python.exists():
                continue
            command = [str(python), __file__, "--run", engine, "--folder", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{engine}: {done.stderr[-800:]}", file=sys.stderr)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            _row(NAMES.get(engine, engine), signals, found, dataset, options)


def _prepare(dataset: Any, queries: Sequence[str], folder: Path) -> list[tuple[str, str, Any]]:
    """Write what all engines read, and return Assay's own rows."""
    import numpy

    from assay.search.array_store import ArrayStore
    from assay.search.bm25 import Bm25Index
    from assay.search.chunks import document_vectors
    from assay.search.embedding import VectorCache, open_embedder
    from assay.search.index import open_retriever

    documents, embedder = list(dataset.documents.values()), open_embedder()
    cache = VectorCache()
    content = {
        "ids": [one.id for one in documents],
        "titles": [one.title for one in documents],
        "texts": [one.text for one in documents],
        "queries": list(queries),
    }
    (folder / "corpus.json").write_text(json.dumps(content))
    numpy.save(folder / "documents.npy", document_vectors(documents, embedder, cache=cache))
    asked = cache.embed(list(queries), embedder)
    numpy.save(folder / "queries.npy", asked)
    known = dict(zip(queries, asked, strict=True))

    class Known:
        """The model with its vectors of the queries: its CPU is not what is compared."""

        def __getattr__(self, name: str) -> Any:
            return getattr(embedder, name)

        def embed(self, texts: Sequence[str], *_: object) -> Any:
            return numpy.array([known[text] for text in texts])

    def hybrid() -> Ask:
        store = ArrayStore(folder, "assay")
        open_retriever(dataset, embedder=embedder, store=store).close()
        retriever = open_retriever(dataset, embedder=Known(), store=store)
        return lambda query, _row: [hit.doc_id for hit in retriever.search(query, DEPTH)]

    def words() -> Ask:
        index = Bm25Index(documents)
        return lambda query, _row: [doc_id for doc_id, _ in index.search(query, DEPTH)]

    return [("Assay `hybrid`", "both", hybrid), ("Assay `bm25`", "words", words)]


def _row(label: str, signals: str, found: Any, dataset: Any, options: argparse.Namespace) -> None:
    import assay

    queries = dataset.queries_in(options.split)
    rankings = {q.id: each for q, each in zip(queries, found["rankings"], strict=True)}
    judged = {q.id: dataset.judgments_in(options.split)[q.id] for q in queries}
    scores = assay.score(rankings, judged, ["ndcg@10", "recall@100"])
    documents = 1000 * found["index"] / len(dataset.documents)
    asked = 1000 * found["search"] / len(queries)
    figures = " | ".join(f"{scores[name]:.4f}" for name in ("ndcg@10", "recall@100"))
    print(f"| {label} | {signals} | {figures} | {documents:.2f} | {asked:.2f} |", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="compare with other search engines")
    parser.add_argument("--dataset", default=os.environ.get("NFCORPUS_ARCHIVE", "nfcorpus"))
    parser.add_argument("--split", default="test")
    parser.add_argument("--engines", type=Path, help="a folder with an environment for each")
    parser.add_argument("--only", choices=ENGINES, help="one engine, without Assay's own rows")
    parser.add_argument("--run", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
