"""A real Ray cluster of two nodes, as processes on this machine, whose workers are killed."""

import json
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.json_server import Answer, JsonRequest, JsonServer
from tests.loopback import free_port
from tests.search.samples import corpus, indexed

from assay.cli.app import app
from assay.data import Document
from assay.errors import TargetError
from assay.ray_cluster import RayCluster
from assay.search.array_store import ArrayStore
from assay.search.distributed_index import build_on_cluster
from assay.search.embedding import EmbedderSettings, VectorCache, open_embedder
from assay.search.index import build_index
from assay.search.retriever import Retriever

pytestmark = pytest.mark.slow

_DOCUMENTS = [
    Document(f"d{n}", f"Title {n}", f"word{n % 7} tea word{n % 11} water {n}") for n in range(320)
]


_CLIENT_PORT = free_port()


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of two nodes with one CPU each; clients connect to `_CLIENT_PORT`."""
    from ray.cluster_utils import Cluster

    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    # Or gRPC breaks, one time in ten, the process that the head forks for a client.
    patch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
    head = {"num_cpus": 1, "ray_client_server_port": _CLIENT_PORT}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Ray leaves the logs of this port open
        nodes = Cluster(initialize_head=True, head_node_args=head)
    nodes.add_node(num_cpus=1)
    try:
        yield nodes.address
    finally:
        nodes.shutdown()
        patch.undo()


class _Embeddings(JsonServer):
    """Counts the texts that it embeds; if it `kills`, a worker ends after two calls."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.keys: set[str | None] = set()
        self.killed: list[int] = []
        self.kills = False
        self.calls = 0
        super().__init__()

    def answer(self, request: JsonRequest) -> Answer:
        self.keys.add(request.headers.get("authorization"))
        given = request.body["input"]
        vectors = self.embed(given if isinstance(given, list) else [given])
        return 200, {}, {"data": [{"index": n, "embedding": v} for n, v in enumerate(vectors)]}

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        if self.kills and self.calls >= 3 and not self.killed:
            for process in _workers():
                os.kill(process, signal.SIGKILL)
                self.killed.append(process)
        self.texts += texts
        return [_vector(text) for text in texts]


@pytest.fixture
def embeddings() -> Iterator[_Embeddings]:
    with _Embeddings().running() as running:
        yield running


def _vector(text: str) -> list[float]:
    return [float(text.count(letter)) + 0.1 for letter in "abcdefghijklmnop"]


def _workers() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if name.startswith(b"ray::_embed_texts"):
            found.append(int(folder.name))
    return found[:1]


def _ranking(retriever: Retriever) -> list[list[tuple[str, float]]]:
    queries = ("tea water", "word3 word5", "title 12")
    with retriever:
        return [[(hit.doc_id, hit.score) for hit in retriever.search(query)] for query in queries]


def test_an_index_survives_a_killed_worker(
    cluster: str, embeddings: _Embeddings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    embeddings.kills = True
    settings = EmbedderSettings(f"openai:letters@{embeddings.url}")
    store = ArrayStore(tmp_path / "shared", "shared")
    report = build_on_cluster(corpus(_DOCUMENTS), settings, store)
    assert report.documents == len(_DOCUMENTS)
    assert embeddings.killed
    embedder = open_embedder(settings)
    found = _ranking(indexed(store, embedder, _DOCUMENTS))
    alone = ArrayStore(tmp_path / "alone", "alone")
    build_index(corpus(_DOCUMENTS), embedder, alone, cache=VectorCache(tmp_path / "alone.sqlite3"))
    expected = _ranking(indexed(alone, embedder, _DOCUMENTS))
    for ours, theirs in zip(found, expected, strict=True):
        assert [doc_id for doc_id, _ in ours] == [doc_id for doc_id, _ in theirs]
        # The last bit of a cosine depends on who computes it.
        assert [each for _, each in ours] == pytest.approx([each for _, each in theirs])


def test_what_is_embedded_is_not_embedded_again(
    cluster: str, embeddings: _Embeddings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    settings = EmbedderSettings(f"openai:letters@{embeddings.url}")
    # As after an interruption: the first half is in the cache.
    build_index(
        corpus(_DOCUMENTS[:160]), open_embedder(settings), ArrayStore(tmp_path / "one", "one")
    )
    embeddings.texts.clear()
    build_on_cluster(corpus(_DOCUMENTS), settings, ArrayStore(tmp_path / "all", "all"))
    titles = {document.title for document in _DOCUMENTS}
    texts = [one for one in embeddings.texts if one.startswith("Title") and one not in titles]
    assert sorted(texts) == sorted(
        f"{document.title} {document.text}" for document in _DOCUMENTS[160:]
    )


@pytest.mark.usefixtures("cluster")
def test_a_cluster_elsewhere_is_used_through_its_client_port(
    embeddings: _Embeddings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"ray://127.0.0.1:{_CLIENT_PORT}")
    monkeypatch.setenv("ASSAY_EMBEDDER_KEY", "sesame")  # which no node has
    settings = EmbedderSettings(f"openai:letters@{embeddings.url}")
    store, told = ArrayStore(tmp_path / "one", "one"), []
    report = build_on_cluster(
        corpus(_DOCUMENTS[:20]), settings, store, lambda what, *_: told.append(what)
    )
    assert report.documents == 20
    assert told[0] == "using 2 CPUs and 0 GPUs of Ray"
    assert len(embeddings.texts) >= 20
    assert embeddings.keys == {"Bearer sesame"}


_AGENT = """
import os, pathlib, signal
def answer(query, top_k):
    marker = pathlib.Path({marker!r})
    if not marker.exists() and "a" in query:
        marker.write_text("killed")
        os.kill(os.getpid(), signal.SIGKILL)
    return ["note-%03d" % (len(query) % 40), "note-001"]
"""


def test_shards_on_a_cluster_equal_the_whole_run(
    cluster: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marker = tmp_path / "killed"
    (tmp_path / "ray_agent.py").write_text(_AGENT.format(marker=str(marker)))
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ["eval", "python:ray_agent:answer", "--dataset", "notes", "--num-queries", "40"]
    arguments.append("--json")
    on_ray = CliRunner().invoke(app, [*arguments, "--engine", "ray", "--shard", "4"])
    assert on_ray.exit_code == 0, on_ray.stderr
    assert marker.exists()
    here = CliRunner().invoke(app, arguments)
    assert here.exit_code == 0, here.stderr
    parallel, alone = json.loads(on_ray.stdout), json.loads(here.stdout)
    assert parallel["metrics"] == alone["metrics"]
    assert parallel["statistics"] == alone["statistics"]
    assert parallel["summary"]["total_queries"] == 40


def test_a_token_that_is_missing_is_told(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**_: object) -> None:
        raise ray.exceptions.AuthenticationError("the file cannot be opened")

    monkeypatch.setenv("RAY_ADDRESS", cluster)
    closed: list[bool] = []
    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(ray, "shutdown", lambda: closed.append(True))
    with pytest.raises(TargetError, match=f"at {cluster}: the file.*RAY_AUTH_MODE and the token"):
        RayCluster().__enter__()
    assert closed  # or the next connection of this process would fail
