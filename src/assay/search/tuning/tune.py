"""The tuned ranking of a data set: learned when it is first asked for, then kept in the cache."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset
from assay.errors import TuningDeclined, UsageError
from assay.progress import Progress, silent
from assay.search.chunks import document_vectors
from assay.search.embedding import Embedder, VectorCache
from assay.search.retriever import MAX_TOP_K, Retriever
from assay.search.tuning.features import Integers, TuningData, bm25_constants
from assay.search.tuning.fit import fit
from assay.search.tuning.model import TunedRanker, load_model, save_model
from assay.search.tuning.validation import HeldOut, ZeroShot


def open_tuned(
    dataset: Dataset,
    embedder: Embedder,
    retriever: Retriever,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> TunedRanker:
    """The model of this data set, these settings and this code; learned now if there is none."""
    # A query needs many small products: for these, threads of BLAS cost far more than they give.
    threadpool_limits(1, user_api="blas")
    path = model_path(dataset, embedder, seed=seed)
    if path.exists():
        known = load_model(path)
        read = (known.encoder.language, known.about.bm25)
        if read == _reading(retriever):
            return known
    ranker = learn(dataset, embedder, retriever, seed=seed, progress=progress)
    save_if_better(ranker, path)
    return ranker


def learn(
    dataset: Dataset,
    embedder: Embedder,
    retriever: Retriever,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> TunedRanker:
    """Learn from the train split; the test split is never passed in, dev only measures.

    `retriever` has the same documents. What is learned has to beat its hybrid ranking.
    """
    documents, cache = list(dataset.documents.values()), VectorCache()
    judged = {
        name: dataset.judgments[name] for name in ("train", "dev") if name in dataset.judgments
    }
    asked = [
        query for query in dataset.queries.values() if any(query.id in s for s in judged.values())
    ]
    language, constants = _reading(retriever)
    data = TuningData(
        doc_ids=[one.id for one in documents],
        titles=[one.title for one in documents],
        texts=[one.text for one in documents],
        doc_vectors=document_vectors(documents, embedder, progress, cache=cache),
        query_ids=[query.id for query in asked],
        query_texts=[query.text for query in asked],
        query_vectors=cache.embed(
            [embedder.prompts.query + query.text for query in asked], embedder, progress
        ),
        judgments=judged,
        language=language,
        bm25=constants,
    )
    return fit(data, _hybrid(data, retriever, progress), seed, progress)


def _reading(retriever: Retriever) -> tuple[str, tuple[float, ...]]:
    """Language and constants of BM25 in the index."""
    bm25 = retriever.bm25
    return bm25.language, bm25_constants(bm25.settings)


def _hybrid(data: TuningData, retriever: Retriever, progress: Progress) -> ZeroShot:
    def rank(text: str) -> Integers:
        try:
            hits = retriever.search(text, MAX_TOP_K, mode="hybrid")
        except UsageError:  # a query without a word: nothing is found for it
            hits = []
        return np.array([data.document_index[hit.doc_id] for hit in hits], np.int64)

    def rankings(queries: Sequence[int]) -> list[Integers]:
        found = []
        for done, query in enumerate(queries, 1):
            found.append(rank(data.query_texts[query]))
            progress("asking hybrid", done, len(queries))
        return found

    return rankings


def save_if_better(ranker: TunedRanker, path: Path) -> None:
    """Save a model that is worth having; one that is not would only pretend to be better."""
    if not ranker.held_out.better:
        raise TuningDeclined(
            f"the tuned ranking is not saved: {describe_gain(ranker.held_out)}; use hybrid for "
            "this data set",
            "not better",
        )
    save_model(ranker, path)


def describe_gain(held_out: HeldOut) -> str:
    """What tuning was worth on queries that it had not learned from."""
    gain = held_out.all
    where = f"{gain.queries} held-out queries of {held_out.split}"
    figures = f"nDCG@10 {gain.tuned:.4f}, against {gain.hybrid:.4f} for hybrid"
    word = "it is better" if held_out.better else "it is not significantly better"
    cost = ""
    if not held_out.harmless:
        unfamiliar = held_out.unfamiliar
        cost = (
            f", but {-unfamiliar.ndcg_10:.4f} worse on the {unfamiliar.queries} of them whose "
            "relevant documents no train query shares"
        )
    return f"on {where} it reaches {figures}: {word}{cost}"


def model_path(dataset: Dataset, embedder: Embedder, *, seed: int = 0) -> Path:
    """Named after everything that the model depends on but the settings of the index, which are in
    the file: a stale one is never opened.
    """
    parts = (dataset.fingerprint, embedder.name, seed, _code_version())
    name = hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()[:16]
    return cache_folder() / "tuned" / f"{name}.model"


# The modules beside this package that a hybrid ranking is made by.
_HYBRID = ("analyzer", "bm25", "chunks", "retriever", "store")


def _code_version() -> str:
    digest = hashlib.sha256()
    here = Path(__file__).parent
    of_hybrid = (here.parent / f"{name}.py" for name in _HYBRID)
    for path in sorted([*here.glob("*.py"), *of_hybrid]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
