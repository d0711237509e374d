"""The tuned ranking of a data set: compared with what is shipped, kept only when it is better."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import WordEmbedder
from tests.search.tuning import worlds

from assay.data import Dataset, Document, Query
from assay.errors import TuningDeclined
from assay.search.bm25 import Bm25Settings
from assay.search.index import open_retriever
from assay.search.retriever import Retriever
from assay.search.tuning import tune
from assay.search.tuning.features import TuningData
from assay.search.tuning.model import TunedRanker
from assay.search.tuning.tune import TrainingSet, fit, learn, overlap_trees, split_queries
from assay.search.tuning.validation import scores_by_query


def dataset(data: TuningData) -> Dataset:
    documents = {one.id: one for one in data.documents}
    return Dataset("world", documents, {one.id: one for one in data.queries}, data.judgments)


def small() -> TuningData:
    return worlds.learnable(train=36, dev=24)


@pytest.fixture
def world() -> Dataset:
    return dataset(small())


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

    held_out = learn(world, embedder, retriever, hear).held_out
    data, scores = small(), []
    for split in ("train", "dev"):
        asked = data.judged(split)
        shipped = [
            np.array([data.document_index[hit.doc_id] for hit in retriever.search(text, 100)])
            for text in (data.queries[query].text for query in asked)
        ]
        scores += scores_by_query(shipped, data.grades(split, asked)).tolist()
    assert held_out.all.hybrid == pytest.approx(np.mean(scores))
    everything = len(scores)
    assert told["asking hybrid"] == (everything, everything)


def test_a_better_ranking_is_kept_and_found_again(world: Dataset, embedder: WordEmbedder) -> None:
    query = next(iter(world.queries.values())).text
    with open_retriever(world, "tuned", embedder=embedder) as first:
        found = first.search(query, 5, mode="tuned")
        assert tune.model_path(world, embedder, first).exists()
    embedder.seen.clear()
    with open_retriever(world, "tuned", embedder=embedder) as second:
        assert second.search(query, 5, mode="tuned") == found
    assert embedder.seen == [query]


def test_a_ranking_that_is_not_better_is_not_kept(embedder: WordEmbedder) -> None:
    """Each document has a word of its own, and each query is the word of one: hybrid is perfect."""
    documents = {f"d{i}": Document(f"d{i}", "", f"only{i} common words") for i in range(40)}
    queries = {f"q{i}": Query(f"q{i}", f"only{i}") for i in range(36)}
    splits = {"train": range(24), "dev": range(24, 36)}
    judged = {name: {f"q{i}": {f"d{i}": 1} for i in numbers} for name, numbers in splits.items()}
    world = Dataset("plain", documents, queries, judged)
    words = r"not saved: on 36 held-out queries.*1\.0000 for hybrid"
    with pytest.raises(TuningDeclined, match=words) as raised:
        open_retriever(world, "tuned", embedder=embedder)
    with open_retriever(world, embedder=embedder) as hybrid:
        assert not tune.model_path(world, embedder, hybrid).exists()
    assert pickle.loads(pickle.dumps(raised.value)).reason == "not better"


def test_too_few_train_judgments_embed_nothing(world: Dataset, embedder: WordEmbedder) -> None:
    few = replace(world, name="few", judgments={"test": world.judgments["train"]})
    embedder.seen.clear()
    with pytest.raises(TuningDeclined, match="20 judged queries in the train split") as raised:
        open_retriever(few, "tuned", embedder=embedder)
    assert not embedder.seen
    assert raised.value.reason == "too few train queries"


def test_learns_what_only_judgments_tell(ranker: TunedRanker) -> None:
    held_out = ranker.held_out
    assert held_out.split == "train and dev"
    assert held_out.better
    assert held_out.all.tuned > held_out.all.hybrid + 0.2


def test_without_a_dev_split_every_training_query_is_held_out_once() -> None:
    data = worlds.learnable(train=48, dev=0)
    held_out = fit(data, worlds.by_vectors(data)).held_out
    assert (held_out.split, held_out.all.queries) == ("train", 48)
    assert held_out.better


def test_a_query_never_sees_its_own_judgments(data: TuningData) -> None:
    asked, remembered = split_queries(data.judged("train"), seed=0)[0]
    judged = {query_id: dict(grades) for query_id, grades in data.judgments["train"].items()}
    for query in asked:
        judged[data.queries[query].id] = {data.documents[0].id: 1}
    changed = replace(data, judgments={**data.judgments, "train": judged})

    before, after = (_described(version, asked, remembered) for version in (data, changed))

    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def _described(data: TuningData, asked: list[int], remembered: list[int]) -> list[np.ndarray]:
    """All that is computed for the queries of a fold, with trees grown on other queries."""
    training = TrainingSet.read(data)
    others = [training.fold(*parts) for parts in split_queries(remembered, seed=1)]
    own = training.fold(asked, remembered)
    candidates = training.candidates(own.memory, asked, overlap_trees(others, 0))
    return [own.features, own.neighbours, *(one.features for one in candidates)]


def test_trees_for_a_fold_learn_from_no_pair_with_its_queries(data: TuningData) -> None:
    training = TrainingSet.read(data)
    by_fold = [training.fold(*parts) for parts in split_queries(data.judged("train"), seed=0)[:3]]
    spoiled = []
    for taught in by_fold:
        hidden = np.isin(taught.remembered, by_fold[0].asked)[taught.neighbours]
        spoiled.append(replace(taught, overlap=np.where(hidden, 1, taught.overlap)))
    spoiled[0] = replace(spoiled[0], overlap=np.ones_like(spoiled[0].overlap))
    trees, clean = (overlap_trees(some, 0, unseen=some[0]) for some in (spoiled, by_fold))
    for one, other in zip(trees, clean, strict=True):
        assert one.model_to_string() == other.model_to_string()


def test_a_model_of_other_documents_settings_or_code_is_not_found(
    world: Dataset, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def path(settings: Bm25Settings | None = None, data: Dataset = world) -> Path:
        with open_retriever(data, embedder=embedder, bm25=settings) as opened:
            return tune.model_path(data, embedder, opened)

    judged = {"train": dict(list(world.judgments["train"].items())[1:])}
    read = Path.read_bytes
    paths = [path(), path(data=replace(world, judgments=judged))]
    for changed in ("k1=0.9", "b=0.4", "delta=1", "title_weight=1", "language=german"):
        paths.append(path(Bm25Settings.parse([changed])))
    for name in ("tune.py", "bm25.py", "retriever.py", "store.py", "analyzer.py", "chunks.py"):
        monkeypatch.setattr(
            Path, "read_bytes", lambda path, name=name: read(path) + b"#" * (path.name == name)
        )
        paths.append(path())
    assert len(set(paths)) == len(paths)
