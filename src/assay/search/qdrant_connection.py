"""Connections to Qdrant servers and clusters: failover, errors, settings of a new collection."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from assay.errors import GATEWAY_ERRORS, SearchError, SearchUnavailable, UsageError
from assay.net.redact import redact_url

Quantization = Literal["none", "int8", "binary"]
_TIMEOUT_S = 60
# If other servers can be asked instead: for what costs a server nothing, and for a search.
_STATUS_S, _READ_S = 5, 10
_STATUS = ("info", "cluster_status")
_READS = ("query_points", "retrieve", "scroll")
# Collections keep metadata since then, where the manifest of an index lives.
_OLDEST = (1, 16)
# How a server says that a request took longer than the request itself allowed.
_OVERTIME = 408
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
# How a node says that other nodes of its cluster, which hold the points, do not respond.
_OTHERS_AWAY = (b"operations failed", b"status: Unavailable", b"No leader", b"consensus operation")

_log = logging.getLogger(__name__)


def connect(urls: str, api_key: str | None) -> QdrantClient:
    """A client of the servers that QDRANT_URL names, one or several with commas between them.

    With several, each request goes to the server that answered last, and to the next one if that
    does not respond. They must be nodes of one cluster: see `require_one_cluster`.
    """
    addresses = _split(urls)
    for url in addresses:
        parts = urlsplit(url)
        if api_key and parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            _log.warning("QDRANT_API_KEY is sent to %s unencrypted; use https", _address(url))
    clients = [_client(url, api_key) for url in addresses]
    if len(clients) == 1:
        return clients[0]
    probes = [_client(url, api_key, _STATUS_S) for url in addresses]
    return cast(QdrantClient, FailoverClient(clients, probes))


def describe_server(urls: str, api_key: str | None) -> str:
    """`Qdrant 1.17.0 at http://localhost:6333, 3 nodes`; raises what a search would."""
    shown = shown_addresses(urls)
    client = connect(urls, api_key)
    try:
        with server_errors(shown):
            require_usable(client, shown)
            version, nodes = client.info().version, _count_nodes(client)
    finally:
        client.close()
    return f"Qdrant {version} at {shown}, {nodes} node{'s' * (nodes > 1)}"


def _count_nodes(client: QdrantClient) -> int:
    status = client.cluster_status()
    return len(status.peers) if isinstance(status, models.ClusterStatusOneOf1) else 1


def shown_addresses(urls: str) -> str:
    """The addresses without users and passwords, for messages. Raises `UsageError`."""
    return ", ".join(map(_address, _split(urls)))


def require_usable(client: QdrantClient, url: str) -> None:
    """Raises `SearchError` for a server that is too old, and `SearchUnavailable` if two servers
    that respond do not belong to one cluster.

    Those that are away are compared when a request first goes to them.
    """
    require_version(client.info().version, url)
    if isinstance(client, FailoverClient):
        for place, probe in enumerate(client.probes):
            try:
                client.require_member(place, probe.cluster_status())
            except (ResponseHandlingException, UnexpectedResponse) as error:
                if not _is_away(error):
                    raise


class FailoverClient:
    """Has the methods of a `QdrantClient`, each sent to the first server that responds.

    A server that is asked in the place of another one has to belong to the same cluster: one that
    stands alone may have an older index under the same name.

    Parameters:
        clients: one for each server.
        probes: the same, for requests that a server answers at once or not at all.
    """

    def __init__(self, clients: Sequence[QdrantClient], probes: Sequence[QdrantClient]) -> None:
        self._clients, self.probes = clients, probes
        self._current = 0
        self._peers: set[str] = set()

    def close(self) -> None:
        """Close all connections."""
        for client in (*self._clients, *self.probes):
            client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name in _READS:
                short = options | {"timeout": _READ_S}
                try:
                    return self._first_answer(name, arguments, short, slow_too=True)
                except (ResponseHandlingException, UnexpectedResponse) as error:
                    # All of them slow: the cluster is busy, and gets the time that one server has.
                    if not _is_away(error, slow_too=True):
                        raise
            return self._first_answer(name, arguments, options, slow_too=False)

        return call

    def require_member(self, place: int, status: models.ClusterStatus) -> None:
        """Raises `SearchUnavailable` unless a server is in the same cluster as those before."""
        peers = set(status.peers) if isinstance(status, models.ClusterStatusOneOf1) else set()
        if not peers or (self._peers and not peers & self._peers):
            raise SearchUnavailable(
                f"server {place + 1} of the {len(self.probes)} in QDRANT_URL is not a node of "
                "their cluster and may hold another index: name one server or one cluster's nodes"
            )
        self._peers |= peers

    def _first_answer(
        self, name: str, arguments: Any, options: dict[str, Any], *, slow_too: bool
    ) -> Any:
        servers = self.probes if name in _STATUS else self._clients
        first, count = self._current, len(servers)
        problem: ResponseHandlingException | UnexpectedResponse | None = None
        for attempt in range(count):
            place = (first + attempt) % count
            try:
                if place != self._current:  # also a node that has been replaced since
                    self.require_member(place, self.probes[place].cluster_status())
                answer = getattr(servers[place], name)(*arguments, **options)
            except (ResponseHandlingException, UnexpectedResponse) as error:
                if not _is_away(error, slow_too=slow_too):
                    raise
                _log.warning("Qdrant server %s of %s does not respond", place + 1, count)
                if problem is None or isinstance(error, UnexpectedResponse):
                    problem = error  # a node that responds says more than one that is gone
            else:
                self._current = place
                return answer
        assert problem is not None, "there is at least one client"
        raise problem


@contextmanager
def server_errors(urls: str) -> Iterator[None]:
    """Turn the client's errors into messages for the operator, without payloads."""
    try:
        yield
    except (ResponseHandlingException, UnexpectedResponse) as error:
        if not _is_away(error):
            raise _refusal(urls, cast(UnexpectedResponse, error)) from error
        if getattr(error, "status_code", None) == 500:
            raise SearchUnavailable(
                f"too many nodes of the Qdrant cluster at {urls} do not respond, so some points "
                "have no copy left; start the nodes and run this again: stored points are not lost"
            ) from error
        why = getattr(error, "source", None) or f"HTTP {getattr(error, 'status_code', '?')}"
        raise SearchUnavailable(
            f"Qdrant at {urls} does not respond ({why}); start it, or correct QDRANT_URL: the "
            "index is stored on the server"
        ) from error


def require_version(version: str, url: str) -> None:
    """Raises `SearchError` for a server that cannot keep an index."""
    numbers = tuple(int(part) for part in version[:40].split(".")[:2] if part.isdecimal())
    if numbers and numbers < _OLDEST:
        raise SearchError(
            f"Qdrant at {url} is {version}; Assay needs {'.'.join(map(str, _OLDEST))} or newer. "
            "Update the server, or unset QDRANT_URL"
        )


def _is_away(
    error: ResponseHandlingException | UnexpectedResponse, *, slow_too: bool = False
) -> bool:
    if isinstance(error, ResponseHandlingException) or error.status_code in GATEWAY_ERRORS:
        return True
    if error.status_code == _OVERTIME:
        return slow_too
    return error.status_code == 500 and any(words in error.content for words in _OTHERS_AWAY)


def _refusal(urls: str, error: UnexpectedResponse) -> SearchError:
    hint = "set QDRANT_API_KEY" if error.status_code in (401, 403) else "see the server's log"
    if error.status_code == 404 and b"doesn't exist" in error.content:
        return SearchUnavailable(
            f"another command has replaced the index at {urls} in the meantime: run this one again"
        )
    if b"No space left" in error.content:
        hint = "a disk of the server is full: free some space and run this again, nothing is lost"
    words = " ".join(error.content.decode("utf-8", "replace").split())[:300]
    return SearchError(
        f"Qdrant at {urls} refused the request (HTTP {error.status_code}: {words}); {hint}"
    )


def _client(url: str, api_key: str | None, timeout: int = _TIMEOUT_S) -> QdrantClient:
    with warnings.catch_warnings():
        # Replaced by our own warning, which is not shown for this machine.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        return QdrantClient(url=url, api_key=api_key, timeout=timeout, check_compatibility=False)


def _split(urls: str) -> list[str]:
    return [url.strip() for url in urls.split(",") if url.strip()] or [""]


def _address(url: str) -> str:
    """The address without user and password, for messages."""
    parts = urlsplit(url)
    try:
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(
            "QDRANT_URL must be an http(s) URL such as http://localhost:6333, or several with "
            "commas between them"
        )
    return redact_url(f"{parts.scheme}://{parts.netloc}")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a new collection is kept; what is None is left to the server.

    Parameters:
        shard_number: in how many parts the points are divided; QDRANT_SHARD_NUMBER.
        replication_factor: how many nodes hold each part; QDRANT_REPLICATION_FACTOR.
        write_consistency_factor: how many of them must have stored a point before it counts as
            written; QDRANT_WRITE_CONSISTENCY_FACTOR.
        quantization: keep int8 or binary copies of the vectors in memory, a quarter or a 32nd of
            their size, to find candidates by; QDRANT_QUANTIZATION.
        on_disk: keep whole vectors, the words of BM25 and texts on the disk instead of in memory;
            QDRANT_ON_DISK.
    """

    shard_number: int | None = None
    replication_factor: int | None = None
    write_consistency_factor: int | None = None
    quantization: Quantization = "none"
    on_disk: bool = False

    def __post_init__(self) -> None:
        if self.quantization not in get_args(Quantization):
            raise UsageError(
                f"QDRANT_QUANTIZATION must be one of {', '.join(get_args(Quantization))}, got "
                f"{self.quantization!r}"
            )

    @classmethod
    def from_environment(cls) -> "ClusterSettings":
        """Raises `UsageError` for a value that a setting does not take."""
        given = os.environ.get("QDRANT_ON_DISK", "").strip().lower()
        if given not in ("", "0", "1", "false", "true", "no", "yes"):
            raise UsageError(f"QDRANT_ON_DISK must be true or false, got {given!r}")
        return cls(
            _positive("QDRANT_SHARD_NUMBER"),
            _positive("QDRANT_REPLICATION_FACTOR"),
            _positive("QDRANT_WRITE_CONSISTENCY_FACTOR"),
            cast(Quantization, os.environ.get("QDRANT_QUANTIZATION") or "none"),
            given in ("1", "true", "yes"),
        )

    def require_nodes(self, client: QdrantClient, url: str) -> None:
        """Qdrant would make fewer copies, and none later when the other nodes are there."""
        wanted = self.replication_factor or 1
        if wanted > 1 and (nodes := _count_nodes(client)) < wanted:
            raise SearchError(
                f"a replication factor of {wanted} needs {wanted} nodes, and Qdrant at {url} has "
                f"{nodes}: start the others first, as no copies are added later"
            )

    def quantization_config(self) -> models.QuantizationConfig | None:
        """The setting as Qdrant takes it; the compressed vectors stay in memory."""
        if self.quantization == "none":
            return None
        if self.quantization == "binary":
            return models.BinaryQuantization(
                binary=models.BinaryQuantizationConfig(always_ram=True)
            )
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)


def _positive(name: str) -> int | None:
    value = os.environ.get(name, "")
    if not value:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"{name} must be an integer >= 1, got {value!r}")
    return int(value)
