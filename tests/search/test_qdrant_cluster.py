"""Three real Qdrant nodes: the same results for every number of shards, and nodes that die."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.cluster import running_cluster
from tests.search.conftest import QdrantServer
from tests.search.samples import DOCUMENTS, WordEmbedder
from tests.search.test_server_store import Wire

from assay.data import Dataset, Document
from assay.errors import SearchUnavailable, UsageError
from assay.evaluation.evaluation import Evaluation
from assay.progress import Progress, silent
from assay.run.config import RunConfig
from assay.search import index
from assay.search.embedding import Vectors
from assay.search.index import build_index, open_index
from assay.search.qdrant_cluster import ClusterSettings, Quantization
from assay.search.retriever import Retriever
from assay.search.server_store import ServerStore
from assay.targets.builtin import BuiltinAgent
from assay.targets.protocol import AgentAnswer

pytestmark = pytest.mark.slow
MakeDataset = Callable[[int], Dataset]
_MANY = [
    Document(f"d{n}", f"Title {n}", f"word{n % 7} tea word{n % 11} water {n}") for n in range(60)
]
_QUERIES = ("tea water", "word3 word5", "title 12")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[QdrantServer]]:
    with running_cluster(tmp_path / "cluster") as servers:
        yield servers


def _store(servers: list[QdrantServer], name: str, shards: int, copies: int = 2) -> ServerStore:
    settings = ClusterSettings(shards, copies, 1)
    return ServerStore(",".join(each.url for each in servers), name, cluster=settings)


def _ranking(retriever: Retriever) -> list[list[tuple[str, float]]]:
    return [[(hit.doc_id, hit.score) for hit in retriever.search(query)] for query in _QUERIES]


def test_shards_change_no_score_and_any_node_may_die(
    cluster: list[QdrantServer], embedder: WordEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    rankings = {}
    for shards in (1, 3):
        store = _store(cluster, f"in-{shards}", shards)
        build_index(_MANY, embedder, store)
        rankings[shards] = _ranking(open_index(store, embedder))
    assert rankings[1] == rankings[3]
    state = store.cluster_state()
    assert state is not None
    assert (state.nodes, state.shards, state.copies, state.short) == (3, 3, 2, 0)
    retriever = open_index(store, embedder)

    cluster[0].kill()  # the one that is asked
    assert _ranking(retriever) == rankings[3]
    state = store.cluster_state()
    assert state is not None
    assert (len(state.unreachable), state.short, state.lost) == (1, 2, 0)
    with caplog.at_level(logging.WARNING):
        open_index(store, embedder)
    assert "1 of 3 nodes of the Qdrant cluster cannot be reached" in caplog.text
    assert "2 of 3 shards have fewer than 2 copies" in caplog.text

    # Documents change while it is away: nothing is lost, and the rest goes on.
    assert build_index(_MANY[:-1], embedder, store).removed == 1
    retriever = open_index(store, embedder)
    assert all(hit.doc_id != "d59" for hit in retriever.search("title 59", 60))

    cluster[1].kill()  # now some points have no copy left
    with pytest.raises(SearchUnavailable, match="too many nodes of the Qdrant cluster"):
        retriever.search("tea")


def test_a_server_outside_the_cluster_is_refused_when_a_node_is_gone(
    cluster: list[QdrantServer], tmp_path: Path, embedder: WordEmbedder
) -> None:
    """It was away when the index was opened, so that nothing could be compared."""
    with running_cluster(tmp_path / "other", 1) as (stranger,):
        wire = Wire(stranger.url)
        wire.cut.set()
        with contextlib.closing(wire):
            urls = f"{cluster[0].url},{wire.url}"
            store = ServerStore(urls, "outside", cluster=ClusterSettings(1, 1))
            build_index(DOCUMENTS, embedder, store)
            with open_index(store, embedder) as retriever:
                cluster[0].kill()
                wire.cut.clear()
                with pytest.raises(SearchUnavailable, match=r"server 2 of the 2 .* not a node"):
                    retriever.search("tea", 3)


class KillsANode(BuiltinAgent):
    """Ends a node when it is asked for the sixth time."""

    node: QdrantServer
    asked = 0

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        self.asked += 1
        if self.asked == 6:
            self.node.kill()
        return await super().ask(query, top_k)


@pytest.mark.parametrize("which", [0, 2], ids=["contact node", "other node"])
async def test_an_evaluation_survives_a_node(
    cluster: list[QdrantServer],
    which: int,
    make_dataset: MakeDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index, "open_embedder", WordEmbedder)
    monkeypatch.setenv("QDRANT_URL", ",".join(each.url for each in cluster))
    monkeypatch.setenv("QDRANT_SHARD_NUMBER", "3")
    monkeypatch.setenv("QDRANT_REPLICATION_FACTOR", "2")
    data = make_dataset(30)
    plan = Evaluation.plan(RunConfig(target="builtin:hybrid", concurrency=2), data)
    undisturbed = await plan.start(BuiltinAgent("hybrid", data), tmp_path / "runs")
    agent = KillsANode("hybrid", data)
    agent.node = cluster[which]
    run = await plan.start(agent, tmp_path / "runs")
    assert (run.state, run.report.failures) == ("complete", {})
    assert run.report.metrics == undisturbed.report.metrics


class KillsWhileEmbedding(WordEmbedder):
    """Ends a node in the middle of an index."""

    node: QdrantServer
    calls = 0

    @property
    def texts_at_once(self) -> int:
        return 20

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        self.calls += 1
        if self.calls == 2:
            self.node.kill()
        return super().embed(texts, progress)


def test_an_index_is_built_while_a_node_dies(
    cluster: list[QdrantServer],
    qdrant_server: QdrantServer,
    monkeypatch: pytest.MonkeyPatch,
    embedder: WordEmbedder,
) -> None:
    monkeypatch.setattr(index, "_DOCUMENTS_AT_ONCE", 20)
    dying = KillsWhileEmbedding()
    dying.node = cluster[0]
    store = _store(cluster, "dying", 3)
    assert build_index(_MANY, dying, store).added == len(_MANY)
    assert dying.calls >= 2
    whole = ServerStore(qdrant_server.url, "whole")
    build_index(_MANY, embedder, whole)
    expected = _ranking(open_index(whole, embedder))
    assert _ranking(open_index(store, embedder)) == expected


@pytest.mark.parametrize("kind", ["int8", "binary"])
def test_compressed_vectors_are_scored_by_the_whole_ones(
    qdrant_server: QdrantServer, embedder: WordEmbedder, kind: Quantization
) -> None:
    plain = ServerStore(qdrant_server.url, "plain")
    build_index(DOCUMENTS, embedder, plain)
    small = ServerStore(
        qdrant_server.url,
        f"small-{kind}",
        cluster=replace(ClusterSettings(), quantization=kind, on_disk=True),
    )
    build_index(DOCUMENTS, embedder, small)
    found = [
        [(hit.doc_id, round(hit.score, 5)) for hit in open_index(each, embedder).search("tea")]
        for each in (plain, small)
    ]
    assert found[0] == found[1]
    assert small.cluster_state() is None


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(UsageError, match="QDRANT_QUANTIZATION must be one of none, int8, binary"):
        ClusterSettings(quantization="int4")  # type: ignore[arg-type]
