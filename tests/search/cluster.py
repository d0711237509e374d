"""A real Qdrant cluster of processes on this machine."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from tests.loopback import free_port
from tests.search.conftest import QdrantServer, running_server


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
