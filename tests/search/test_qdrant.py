"""Real Qdrant servers: addresses, keys, aliases, failover, and nodes that die."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from tests.search.conftest import QdrantServer, running_cluster, running_server
from tests.search.samples import DOCUMENTS, WordEmbedder, corpus, indexed

from assay.data import Document
from assay.errors import SearchError, SearchUnavailable, UsageError
from assay.search import index
from assay.search.index import build_index
from assay.search.qdrant import FailoverClient, ServerStore
from assay.search.retriever import Retriever


def test_nobody_at_the_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    with pytest.raises(SearchError, match=r"http://127\.0\.0\.1:9 does not respond.*QDRANT_URL"):
        index.open_store("test", WordEmbedder())


@pytest.mark.parametrize("url", ["localhost:6333", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="QDRANT_URL must be an http"):
        ServerStore(url, "test")


def test_a_server_that_dies_loses_nothing(tmp_path: Path, embedder: WordEmbedder) -> None:
    with running_server(tmp_path) as server:
        store = ServerStore(server.url, "test")
        retriever = indexed(store, embedder)
        assert retriever.search("tea", 1)[0].doc_id == "tea"
        server.kill()
        with pytest.raises(SearchError, match="does not respond"):
            retriever.search("tea", 1)
        with pytest.raises(SearchError, match="does not respond"):
            build_index(corpus(DOCUMENTS[1:]), embedder, store)
    with running_server(tmp_path) as server:
        store = ServerStore(server.url, "test")
        assert not build_index(corpus(), embedder, store).rebuilt
        with indexed(store, embedder) as retriever:
            assert retriever.search("tea", 1)[0].doc_id == "tea"


def test_an_open_index_is_never_mixed_with_the_one_that_replaces_it(
    qdrant_server: QdrantServer, embedder: WordEmbedder
) -> None:
    store = ServerStore(qdrant_server.url, "replaced")
    with indexed(store, embedder) as retriever:
        build_index(corpus(DOCUMENTS[2:]), embedder, ServerStore(qdrant_server.url, "replaced"))
        with pytest.raises(SearchUnavailable, match="another command has replaced the index"):
            retriever.search("tea", 3)


def test_servers_that_are_not_one_cluster_are_refused(
    qdrant_server: QdrantServer, tmp_path: Path, embedder: WordEmbedder
) -> None:
    """The second has an older index of the same name, which must not answer for the first."""
    with running_server(tmp_path) as other:
        build_index(corpus(DOCUMENTS[2:]), embedder, ServerStore(other.url, "apart"))
        build_index(corpus(), embedder, ServerStore(qdrant_server.url, "apart"))
        with pytest.raises(SearchUnavailable, match="server 1 of the 2 in QDRANT_URL is not"):
            ServerStore(f"{qdrant_server.url},{other.url}", "apart")


class _Stalled:
    """Answers requests that wait for `patience` seconds."""

    def __init__(self, name: str, patience: int, asked: list[str], error: Exception) -> None:
        self._name, self._patience, self._asked, self._error = name, patience, asked, error

    def cluster_status(self) -> models.ClusterStatus:
        return models.ClusterStatusOneOf1.model_construct(peers={"1": None, "2": None})

    def retrieve(self, _collection: str, timeout: int = 60) -> None:
        self._asked.append(f"{self._name} {timeout}")
        if timeout < self._patience:
            raise self._error


_LOST = ResponseHandlingException(TimeoutError())
_BUSY = ["a 10", "b 10", "a 60"]


@pytest.mark.parametrize(
    ("patience", "error", "asked"),
    [
        ((61, 1), _LOST, ["a 10", "b 10", "b 10"]),  # stalled: the other one is asked from then on
        ((30, 30), _LOST, [*_BUSY, *_BUSY]),  # busy: it gets its time
        ((30, 30), UnexpectedResponse(503, "Error", b"", httpx.Headers()), [*_BUSY, *_BUSY]),
    ],
)
def test_a_server_that_stalls_does_not_keep_a_search_waiting(
    patience: tuple[int, int], error: Exception, asked: list[str]
) -> None:
    seen: list[str] = []
    servers: Any = [_Stalled(*each, seen, error) for each in zip("ab", patience, strict=True)]
    client: Any = FailoverClient(servers, servers)
    for _ in range(2):
        client.retrieve("index")
    assert seen == asked


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_key_is_needed_and_never_told(tmp_path: Path, embedder: WordEmbedder) -> None:
    with running_server(tmp_path, QDRANT__SERVICE__API_KEY="right-key") as server:
        store = ServerStore(server.url, "test", api_key="right-key")
        build_index(corpus(), embedder, store)
        for key in (None, "wrong-key"):
            with pytest.raises(SearchError, match="QDRANT_API_KEY") as caught:
                indexed(ServerStore(server.url, "test", api_key=key), embedder)
            assert "wrong-key" not in str(caught.value)


def test_copies_need_as_many_nodes(qdrant_server: QdrantServer, embedder: WordEmbedder) -> None:
    twice = ServerStore(qdrant_server.url, "twice", copies=2)
    with pytest.raises(SearchError, match=r"factor of 2 needs 2 nodes, and Qdrant at .* has 1"):
        build_index(corpus(), embedder, twice)


def test_foreign_collections_are_kept(qdrant_server: QdrantServer, embedder: WordEmbedder) -> None:
    client = QdrantClient(qdrant_server.url)
    client.create_collection("theirs", vectors_config={})
    store = ServerStore(qdrant_server.url, "theirs")
    with pytest.raises(SearchError, match=r"did not create.*COLLECTION_NAME"):
        build_index(corpus(), embedder, store)
    assert client.collection_exists("theirs")


def test_one_collection_is_kept(qdrant_server: QdrantServer, embedder: WordEmbedder) -> None:
    client = QdrantClient(qdrant_server.url)
    killed, others = "kept--0123456789ab", {"kept-apart", "kept--theirs", "kept--too--0123456789ab"}
    for name in (killed, *others):
        client.create_collection(name, vectors_config={})
    for documents in (DOCUMENTS, DOCUMENTS[1:], DOCUMENTS[2:]):
        build_index(corpus(documents), embedder, ServerStore(qdrant_server.url, "kept"))
    names = {one.name for one in client.get_collections().collections}
    assert killed not in names
    assert names >= others
    assert len([name for name in names if name.startswith("kept--")]) == 3


@pytest.mark.slow
def test_shards_change_no_score_and_any_node_may_die(
    tmp_path: Path, embedder: WordEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    words = [f"word{n % 7} tea word{n % 11} water {n}" for n in range(60)]
    documents = [Document(f"d{n}", f"Title {n}", text) for n, text in enumerate(words)]

    def ranking(retriever: Retriever) -> list[tuple[str, float]]:
        queries = ("tea water", "word3 word5", "title 12")
        return [(hit.doc_id, hit.score) for query in queries for hit in retriever.search(query)]

    rankings = {}
    with running_cluster(tmp_path / "cluster") as servers:
        urls = ",".join(server.url for server in servers)
        for shards in (1, 3):
            store = ServerStore(urls, f"in-{shards}", shards=shards, copies=2)
            retriever = indexed(store, embedder, documents)
            rankings[shards] = ranking(retriever)
        assert rankings[1] == rankings[3]
        assert caplog.text == ""

        servers[0].kill()  # the one that is asked
        assert ranking(retriever) == rankings[3]
        assert "Qdrant server 1 of 3 does not respond" in caplog.text
        # Documents change while it is away: nothing is lost, and the rest goes on.
        retriever = indexed(store, embedder, documents[:-1])
        assert all(hit.doc_id != "d59" for hit in retriever.search("title 59", 60))

        servers[1].kill()  # now some points have no copy left
        with pytest.raises(SearchUnavailable, match="too many nodes of the Qdrant cluster"):
            retriever.search("tea")
