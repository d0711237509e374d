"""The tuned ranking of a data set: compared with what is shipped, kept only when it is better."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import WordEmbedder
from tests.search.tuning import worlds

from assay.cli.search import tune as tune_command
from assay.data import Dataset, Document, Query
from assay.errors import TuningDeclined
from assay.search.bm25 import Bm25Settings
from assay.search.index import open_retriever
from assay.search.retriever import Retriever
from assay.search.tuning import tune
from assay.search.tuning.features import TuningData, bm25_constants
from assay.search.tuning.model import TunedRanker
from assay.search.tuning.tune import learn, model_path, save_if_better
from assay.search.tuning.validation import scores_by_query


def _dataset(data: TuningData) -> Dataset:
    documents = [
        Document(*fields) for fields in zip(data.doc_ids, data.titles, data.texts, strict=True)
    ]
    queries = [Query(*fields) for fields in zip(data.query_ids, data.query_texts, strict=True)]
    return Dataset(
        name="world",
        documents={one.id: one for one in documents},
        queries={one.id: one for one in queries},
        judgments=data.judgments,
    )


def _small() -> TuningData:
    return worlds.learnable(train=36, dev=24)


@pytest.fixture
def world() -> Dataset:
    return _dataset(_small())


@pytest.fixture
def retriever(world: Dataset, embedder: WordEmbedder) -> Iterator[Retriever]:
    with open_retriever(world, embedder=embedder) as opened:
        yield opened


def test_what_is_learned_is_compared_with_the_hybrid_ranking_that_is_shipped(
    world: Dataset, retriever: Retriever, embedder: WordEmbedder
) -> None:
    told: dict[str, tuple[int, int | None]] = {}

    def hear(what: str, done: int, total: int | None) -> None:
        told[what] = done, total

    held_out = learn(world, embedder, retriever, progress=hear).held_out
    data = _small()
    scores = []
    for split in ("train", "dev"):
        asked = data.judged(split)
        shipped = [
            np.array([data.document_index[hit.doc_id] for hit in retriever.search(text, 100)])
            for text in (data.query_texts[query] for query in asked)
        ]
        scores += scores_by_query(shipped, data.grades(split, asked)).tolist()
    assert held_out.all.hybrid == pytest.approx(np.mean(scores))
    everything = len(scores)
    assert told["asking hybrid"] == (everything, everything)


def test_a_better_ranking_is_kept_and_found_again(world: Dataset, embedder: WordEmbedder) -> None:
    query = next(iter(world.queries.values())).text
    with open_retriever(world, "tuned", embedder=embedder) as first:
        found = first.search(query, 5, mode="tuned")
    assert model_path(world, embedder).exists()
    embedder.seen.clear()
    with open_retriever(world, "tuned", embedder=embedder) as second:
        assert second.search(query, 5, mode="tuned") == found
    assert embedder.seen == [query]


def test_a_ranking_that_is_not_better_is_not_kept(embedder: WordEmbedder) -> None:
    """Each document has a word of its own, and each query is the word of one: hybrid is perfect."""
    documents = [Document(f"d{i}", "", f"only{i} common words follow") for i in range(40)]
    queries = [Query(f"q{i}", f"only{i}") for i in range(36)]
    relevant = {f"q{i}": {f"d{i}": 1} for i in range(36)}
    world = Dataset(
        name="plain",
        documents={one.id: one for one in documents},
        queries={one.id: one for one in queries},
        judgments={
            "train": {one: relevant[one] for one in list(relevant)[:24]},
            "dev": {one: relevant[one] for one in list(relevant)[24:]},
        },
    )
    words = r"not saved: on 36 held-out queries.*1\.0000 for hybrid"
    with pytest.raises(TuningDeclined, match=words) as raised:
        open_retriever(world, "tuned", embedder=embedder)
    assert not model_path(world, embedder).exists()
    assert pickle.loads(pickle.dumps(raised.value)).reason == "not better"


def test_too_few_train_judgments_are_told_before_anything_is_embedded(
    world: Dataset, embedder: WordEmbedder
) -> None:
    few = replace(world, name="few", judgments={"test": world.judgments["train"]})
    embedder.seen.clear()
    words = "20 judged queries in the train split, few has 0: use the zero-shot ranking `hybrid`$"
    with pytest.raises(TuningDeclined, match=words) as raised:
        open_retriever(few, "tuned", embedder=embedder)
    assert not embedder.seen
    assert raised.value.reason == "too few train queries"


def test_the_command_looks_for_train_judgments_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.search.embedding.open_embedder", None)
    with pytest.raises(TuningDeclined, match="in the train split, notes has 0"):
        tune_command("notes")


@pytest.mark.parametrize(
    "settings",
    [
        Bm25Settings(k1=0.9),
        Bm25Settings(b=0.4),
        Bm25Settings(delta=1.0),
        Bm25Settings(title_weight=1.0),
        Bm25Settings(language="german"),
    ],
)
def test_a_model_of_another_bm25_is_learned_again(
    data: TuningData,
    ranker: TunedRanker,
    embedder: WordEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    settings: Bm25Settings,
) -> None:
    world = _dataset(data)
    learned_from: list[TuningData] = []

    def noted(data: TuningData, *_: object, **__: object) -> TunedRanker:
        learned_from.append(data)
        encoder = replace(ranker.encoder, language=data.language)
        return replace(ranker, about=replace(ranker.about, bm25=data.bm25), encoder=encoder)

    monkeypatch.setattr(tune, "fit", noted)
    save_if_better(ranker, model_path(world, embedder))
    with open_retriever(world, embedder=embedder, bm25=settings) as opened:
        for _ in range(2):  # the second time, what was learned is found
            found = tune.open_tuned(world, embedder, opened)
            assert found.about.bm25 == bm25_constants(settings)
            assert found.encoder.language == settings.language.replace("auto", "english")
    assert len(learned_from) == 1


@pytest.mark.parametrize(
    "name",
    [
        *("fit.py", "bm25.py", "retriever.py", "store.py"),
        *("analyzer.py", "chunks.py", "retriever.py"),
    ],
)
def test_a_model_of_other_code_is_not_found(
    world: Dataset, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before, read = model_path(world, embedder), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"#" * (path.name == name))
    assert model_path(world, embedder) != before
