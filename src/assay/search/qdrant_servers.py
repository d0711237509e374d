"""Clients of Qdrant servers: the addresses in QDRANT_URL, failover, and errors in plain words."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from assay.errors import SearchError, SearchUnavailable, UsageError
from assay.net.http import GATEWAY_ERRORS
from assay.net.redact import redact_url

_TIMEOUT_S = 60
# Where other servers can be asked instead: for what costs a server nothing, and for a search.
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

    With several, each request goes to the server that answered last, and to the next one where
    that does not respond. They must hold the same collections, as the nodes of a cluster do.
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


def shown_addresses(urls: str) -> str:
    """The addresses without users and passwords, for messages. Raises `UsageError`."""
    return ", ".join(map(_address, _split(urls)))


def ask_each(client: QdrantClient, method: str) -> list[Any]:
    """What every server answers to a method without arguments; None for those that are away."""
    found: list[Any] = []
    for each in client.probes if isinstance(client, FailoverClient) else [client]:
        try:
            found.append(getattr(each, method)())
        except (ResponseHandlingException, UnexpectedResponse) as error:
            if not _is_away(error):
                raise
            found.append(None)
    return found


class FailoverClient:
    """Has the methods of a `QdrantClient`, each sent to the first server that responds.

    Parameters:
        clients: one for each server.
        probes: the same, for requests that a server answers at once or not at all.
    """

    def __init__(self, clients: Sequence[QdrantClient], probes: Sequence[QdrantClient]) -> None:
        self._clients, self.probes = clients, probes
        self._current = 0

    def close(self) -> None:
        """Close all connections."""
        for client in (*self._clients, *self.probes):
            client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name in _READS:
                # All of them slow: the cluster is busy, and gets the time that one server has.
                short = options | {"timeout": _READ_S}
                try:
                    return self._first_answer(name, arguments, short, _is_away_or_slow)
                except (ResponseHandlingException, UnexpectedResponse) as error:
                    if not _is_away_or_slow(error):
                        raise
            return self._first_answer(name, arguments, options, _is_away)

        return call

    def _first_answer(
        self,
        name: str,
        arguments: Any,
        options: dict[str, Any],
        goes_on: Callable[[ResponseHandlingException | UnexpectedResponse], bool],
    ) -> Any:
        servers = self.probes if name in _STATUS else self._clients
        first, count = self._current, len(servers)
        problem: ResponseHandlingException | UnexpectedResponse | None = None
        for attempt in range(count):
            place = (first + attempt) % count
            try:
                answer = getattr(servers[place], name)(*arguments, **options)
            except (ResponseHandlingException, UnexpectedResponse) as error:
                if not goes_on(error):
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
                f"too many nodes of the Qdrant cluster at {urls} do not respond: of some points no "
                "copy is left; start them again and repeat this: nothing that was stored is lost"
            ) from error
        why = getattr(error, "source", None) or f"HTTP {getattr(error, 'status_code', '?')}"
        raise SearchUnavailable(
            f"Qdrant at {urls} does not respond ({why}); start it or correct "
            "QDRANT_URL, and try again: the index is stored on the server. Without QDRANT_URL, "
            "an embedded index is used"
        ) from error


def refuse_old(version: str, url: str) -> None:
    """Raises `SearchError` for a server that cannot keep an index."""
    numbers = tuple(int(part) for part in version[:40].split(".")[:2] if part.isdecimal())
    if numbers and numbers < _OLDEST:
        raise SearchError(
            f"Qdrant at {url} is {version}; Assay needs {'.'.join(map(str, _OLDEST))} or newer. "
            "Update the server, or unset QDRANT_URL to use the embedded index"
        )


def _is_away(error: ResponseHandlingException | UnexpectedResponse) -> bool:
    if isinstance(error, ResponseHandlingException) or error.status_code in GATEWAY_ERRORS:
        return True
    return error.status_code == 500 and any(words in error.content for words in _OTHERS_AWAY)


def _is_away_or_slow(error: ResponseHandlingException | UnexpectedResponse) -> bool:
    return getattr(error, "status_code", None) == _OVERTIME or _is_away(error)


def _refusal(urls: str, error: UnexpectedResponse) -> SearchError:
    hint = "set QDRANT_API_KEY" if error.status_code in (401, 403) else "see the server's log"
    if error.status_code == 404 and b"doesn't exist" in error.content:
        hint = "another command has replaced the index in the meantime: run this one again"
    elif b"No space left" in error.content:
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
    """Without user and password, for messages."""
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
