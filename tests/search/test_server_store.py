"""A Qdrant server: addresses, keys, aliases, and what happens when it goes away."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from tests.search.conftest import QdrantServer, running_server
from tests.search.samples import DOCUMENTS, WordEmbedder

from assay.errors import SearchError, SearchUnavailable, UsageError
from assay.progress import Progress, silent
from assay.search.embedding import Vectors
from assay.search.index import build_index, open_index
from assay.search.qdrant_cluster import (
    ClusterSettings,
    FailoverClient,
    ask_each,
    connect,
    require_version,
    server_errors,
)
from assay.search.server_store import ServerStore


def test_nobody_at_the_address_is_told_with_what_to_do() -> None:
    with pytest.raises(SearchError, match=r"http://127\.0\.0\.1:9 does not respond.*QDRANT_URL"):
        ServerStore("http://127.0.0.1:9", "test")


@pytest.mark.parametrize("url", ["localhost:6333", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="QDRANT_URL must be an http"):
        ServerStore(url, "test")


def test_a_server_that_dies_between_two_queries_loses_nothing(
    tmp_path: Path, embedder: WordEmbedder
) -> None:
    with running_server(tmp_path) as server:
        store = ServerStore(server.url, "test")
        build_index(DOCUMENTS, embedder, store)
        retriever = open_index(store, embedder)
        assert retriever.search("tea", 1)[0].doc_id == "tea"
        server.kill()
        with pytest.raises(SearchError, match="does not respond"):
            retriever.search("tea", 1)
        with pytest.raises(SearchError, match="does not respond"):
            build_index(DOCUMENTS[1:], embedder, store)
    with running_server(tmp_path) as server:
        store = ServerStore(server.url, "test")
        assert build_index(DOCUMENTS, embedder, store).unchanged == len(DOCUMENTS)
        with open_index(store, embedder) as retriever:
            assert retriever.search("tea", 1)[0].doc_id == "tea"


def test_an_open_index_is_never_mixed_with_the_one_that_replaces_it(
    qdrant_server: QdrantServer, embedder: WordEmbedder
) -> None:
    store = ServerStore(qdrant_server.url, "replaced")
    build_index(DOCUMENTS, embedder, store)
    with open_index(store, embedder) as retriever:
        build_index(DOCUMENTS[2:], embedder, ServerStore(qdrant_server.url, "replaced"))
        with pytest.raises(SearchUnavailable, match="another command has replaced the index"):
            retriever.search("tea", 3)


def test_servers_that_are_not_one_cluster_are_refused(
    qdrant_server: QdrantServer, tmp_path: Path, embedder: WordEmbedder
) -> None:
    """The second has an older index of the same name, which must not answer for the first."""
    with running_server(tmp_path) as other:
        build_index(DOCUMENTS[2:], embedder, ServerStore(other.url, "apart"))
        build_index(DOCUMENTS, embedder, ServerStore(qdrant_server.url, "apart"))
        with pytest.raises(SearchUnavailable, match="server 1 of the 2 in QDRANT_URL is not"):
            ServerStore(f"{qdrant_server.url},{other.url}", "apart")


class Wire:
    """Passes everything on to a server, until it is cut: then it breaks off in the next request."""

    def __init__(self, server: str) -> None:
        host, port = server.removeprefix("http://").split(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut, self.broken_off = threading.Event(), threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with source, target, contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self.cut.is_set():
                    self.broken_off.set()
                    target.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)

    def close(self) -> None:
        self._listener.close()


def test_a_server_that_dies_in_the_middle_of_a_query_is_told_and_can_be_asked_again(
    qdrant_server: QdrantServer, embedder: WordEmbedder
) -> None:
    wire = Wire(qdrant_server.url)
    with contextlib.closing(wire):
        store = ServerStore(wire.url, "wired")
        build_index(DOCUMENTS, embedder, store)
        with open_index(store, embedder) as retriever:
            before = retriever.search("tea", 3)
            wire.cut.set()
            with pytest.raises(SearchError, match="does not respond"):
                retriever.search("tea", 3)
            assert wire.broken_off.is_set()
            wire.cut.clear()
            assert retriever.search("tea", 3) == before


class _Stalled:
    """Accepts every request, and answers those that wait for as long as `patience` asks."""

    def __init__(
        self, name: str, patience: int, asked: list[str], error: Exception | None = None
    ) -> None:
        self._name, self._patience, self._asked = name, patience, asked
        self._error = error or ResponseHandlingException(TimeoutError())

    def cluster_status(self) -> models.ClusterStatus:
        return models.ClusterStatusOneOf1.model_construct(peers={"1": None, "2": None})

    def scroll(self, _collection: str, timeout: int = 60) -> str:
        self._asked.append(f"{self._name} {timeout}")
        if timeout < self._patience:
            raise self._error
        return self._name


@pytest.mark.parametrize(
    ("patience", "asked"),
    [
        ((61, 1), ["a 10", "b 10", "b 10"]),  # stalled: the other one is asked from then on
        ((30, 30), ["a 10", "b 10", "a 60", "a 10", "b 10", "a 60"]),  # busy: it gets its time
    ],
)
def test_a_server_that_stalls_does_not_keep_a_search_waiting(
    patience: tuple[int, int], asked: list[str]
) -> None:
    seen: list[str] = []
    servers: Any = [_Stalled(*each, seen) for each in zip("ab", patience, strict=True)]
    client: Any = FailoverClient(servers, servers)
    for _ in range(2):
        client.scroll("index")
    assert seen == asked


@pytest.mark.parametrize("status", [408, 503])
def test_a_cluster_that_says_that_it_is_too_slow_gets_the_time_of_one_server(status: int) -> None:
    seen: list[str] = []
    slow = UnexpectedResponse(status, "Timeout", b"after 10 seconds", httpx.Headers())
    servers: Any = [_Stalled(name, 30, seen, slow) for name in "ab"]
    client: Any = FailoverClient(servers, servers)
    assert client.scroll("index") == "a"
    assert seen == ["a 10", "b 10", "a 60"]


def test_a_refused_search_is_not_asked_again() -> None:
    seen: list[str] = []
    refused = UnexpectedResponse(403, "Forbidden", b"", httpx.Headers())
    servers: Any = [_Stalled(name, 61, seen, refused) for name in "ab"]
    client: Any = FailoverClient(servers, servers)
    with pytest.raises(UnexpectedResponse):
        client.scroll("index")
    assert seen == ["a 10"]


def test_the_state_of_servers_is_asked_with_little_patience() -> None:
    client: Any = connect("http://127.0.0.1:9,http://127.0.0.1:9", None)
    assert [each.init_options["timeout"] for each in client.probes] == [5, 5]
    with pytest.raises(ResponseHandlingException):
        client.info()
    assert ask_each(client, "cluster_status") == [None, None]


def test_a_full_disk_is_told_with_what_to_do() -> None:
    said = b'{"status": {"error": "No space left on device: WAL buffer size"}}'
    with (
        pytest.raises(SearchError, match=r"No space left.*a disk of the server is full: free"),
        server_errors("http://here"),
    ):
        raise UnexpectedResponse(500, "Internal Server Error", said, httpx.Headers())


def test_a_key_is_needed_where_the_server_wants_one_and_never_told(
    tmp_path: Path, embedder: WordEmbedder
) -> None:
    with running_server(tmp_path, QDRANT__SERVICE__API_KEY="right-key") as server:
        store = ServerStore(server.url, "test", api_key="right-key")
        build_index(DOCUMENTS, embedder, store)
        for key in (None, "wrong-key"):
            with pytest.raises(SearchError, match="QDRANT_API_KEY") as caught:
                ServerStore(server.url, "test", api_key=key).manifest()
            assert "wrong-key" not in str(caught.value)


def test_settings_of_a_cluster_are_passed_through(
    qdrant_server: QdrantServer,
    embedder: WordEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("QDRANT_SHARD_NUMBER", "2")
    monkeypatch.setenv("QDRANT_REPLICATION_FACTOR", "1")
    monkeypatch.setenv("QDRANT_WRITE_CONSISTENCY_FACTOR", "1")
    monkeypatch.setenv("QDRANT_ON_DISK", "1")
    settings = ClusterSettings.from_environment()
    assert settings == ClusterSettings(2, 1, 1, on_disk=True)
    store = ServerStore(qdrant_server.url, "sharded", cluster=settings)
    build_index(DOCUMENTS, embedder, store)
    params: Any = QdrantClient(qdrant_server.url).get_collection("sharded").config.params
    assert (params.shard_number, params.replication_factor) == (2, 1)
    assert params.write_consistency_factor == 1
    assert params.vectors["dense"].on_disk
    assert params.sparse_vectors["bm25"].index.on_disk
    with open_index(store, embedder) as retriever:
        assert retriever.search("tea", 1)[0].doc_id == "tea"
    assert caplog.text == ""

    # An index that is there stays as it is, which is told to those who ask for another.
    other = ClusterSettings(3, 1, quantization="int8")
    build_index(DOCUMENTS, embedder, ServerStore(qdrant_server.url, "sharded", cluster=other))
    assert "shard number 2 and not 3, quantization none and not int8: such" in caplog.text


def test_copies_need_as_many_nodes(qdrant_server: QdrantServer, embedder: WordEmbedder) -> None:
    twice = ServerStore(qdrant_server.url, "twice", cluster=ClusterSettings(replication_factor=2))
    with pytest.raises(SearchError, match=r"factor of 2 needs 2 nodes, and Qdrant at .* has 1"):
        build_index(DOCUMENTS, embedder, twice)


def test_a_build_whose_collection_another_one_removed_is_to_be_repeated(
    qdrant_server: QdrantServer, embedder: WordEmbedder
) -> None:
    store = ServerStore(qdrant_server.url, "raced")
    quicker = ServerStore(qdrant_server.url, "raced")

    class Late(WordEmbedder):
        def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
            build_index(DOCUMENTS[1:], embedder, quicker)
            return super().embed(texts, progress)

    with pytest.raises(SearchUnavailable, match="another command has replaced the index"):
        build_index(DOCUMENTS, Late(), store)
    assert build_index(DOCUMENTS, embedder, store).added == 1


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_a_setting_that_is_no_number_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("QDRANT_SHARD_NUMBER", value)
    with pytest.raises(UsageError, match="QDRANT_SHARD_NUMBER must be an integer"):
        ClusterSettings.from_environment()


def test_a_collection_of_someone_else_is_left_alone(
    qdrant_server: QdrantServer, embedder: WordEmbedder
) -> None:
    client = QdrantClient(qdrant_server.url)
    client.create_collection("theirs", vectors_config={})
    store = ServerStore(qdrant_server.url, "theirs")
    with pytest.raises(SearchError, match=r"did not create.*COLLECTION_NAME"):
        build_index(DOCUMENTS, embedder, store)
    assert client.collection_exists("theirs")


def test_only_the_live_collection_is_kept(
    qdrant_server: QdrantServer, embedder: WordEmbedder
) -> None:
    client = QdrantClient(qdrant_server.url)
    killed, others = "kept--0123456789ab", {"kept-apart", "kept--theirs", "kept--too--0123456789ab"}
    for name in (killed, *others):
        client.create_collection(name, vectors_config={})
    for documents in (DOCUMENTS, DOCUMENTS[1:], DOCUMENTS[2:]):
        build_index(documents, embedder, ServerStore(qdrant_server.url, "kept"))
    names = {one.name for one in client.get_collections().collections}
    assert killed not in names
    assert names >= others
    assert len([name for name in names if name.startswith("kept--")]) == 3


def test_a_server_too_old_for_manifests_is_refused() -> None:
    require_version("1.16.0", "http://here")
    require_version("2.0.0-dev", "http://here")
    with pytest.raises(SearchError, match=r"is 1\.9\.2; Assay needs 1\.16"):
        require_version("1.9.2", "http://here")
