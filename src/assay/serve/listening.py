"""Binds a port, refuses unsafe exposure, and runs an application until it is stopped."""

import asyncio
import errno
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import BinaryIO

import uvicorn
from starlette.types import ASGIApp

from assay.errors import UsageError
from assay.net.outbound import is_loopback
from assay.net.redact import SERVER_TOKEN_VARIABLE
from assay.serve.guards import server_token
from assay.serve.request_log import set_up_logging

# The key under which an application's lifespan may yield the function that ends its long work.
END_WORK = "end_work"

# Names the proxies, as uvicorn reads it: addresses or networks, separated by commas.
PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"

_GRACE_S = 5
# As uvicorn has it: clients connect and wait while what is slow is loaded.
_BACKLOG = 2048
_LAST_PORT = 65535


class GracefulServer(uvicorn.Server):
    """Ends the application's long work first when it shuts down.

    Otherwise clients that follow that work would be cut off before its last event: the
    application's own shutdown begins only when the last of them has disconnected.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn after a signal, before connections are closed."""
        end_work = self.lifespan.state.get(END_WORK)
        if end_work is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await end_work()
        await super().shutdown(sockets)


def serve_on(
    app: ASGIApp,
    listener: socket.socket,
    *,
    stop_with: BinaryIO | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests in flight get a few seconds to end.

    stop_with: also stop at the end of this pipe, which closes when its writer dies.
    """
    config = uvicorn.Config(
        app,
        # `X-Forwarded-For` counts only from proxies that the operator names: otherwise a caller
        # through a proxy on this machine could choose the address by which wrong tokens count.
        proxy_headers=PROXIES_VARIABLE in os.environ,
        access_log=False,  # it would write whole URLs; `request_log` takes its place
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        lifespan="on",
    )
    server = GracefulServer(config)

    def stop_at_end(pipe: BinaryIO) -> None:
        while pipe.read(4096):
            pass
        server.should_exit = True

    if stop_with is not None:
        # A daemon: a thread that reads a pipe cannot be told that the server was stopped.
        threading.Thread(target=stop_at_end, args=(stop_with,), daemon=True).start()
    # uvicorn chooses its faster loop only if it makes the loop itself.
    make_loop = server.config.get_loop_factory()
    with listener, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(server.serve(sockets=[listener]))


def url_of(listener: socket.socket) -> str:
    """The URL by which a client on this machine reaches `listener`."""
    host, port = listener.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 picks a free one. Call it before loading anything slow."""
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"--port must be from 0 (a free one) to {_LAST_PORT}, got {port}")
    listener = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        # Else the port of a server that was stopped a moment ago is still taken (TIME_WAIT).
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        why = f"cannot listen on {host}:{port}: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            why = (
                f"port {port} on {host} is already in use; choose another with --port, or stop the "
                "process that uses it"
            )
        elif error.errno == errno.EACCES:
            why = f"permission denied for port {port}; choose one above 1023 with --port"
        raise UsageError(why) from error
    return listener


def check_exposure(host: str, *, is_open: bool = False) -> None:
    """Refuse to listen beyond this machine without a token, unless the operator wants that."""
    if server_token() is None and not is_open and not is_loopback(host):
        raise UsageError(
            f"--host {host} lets other machines call this server: set {SERVER_TOKEN_VARIABLE} to a "
            "secret that they must send, or listen on 127.0.0.1 (--open serves all, but not the UI)"
        )


@contextmanager
def listen(what: str, host: str, port: int, path: str = "") -> Iterator[socket.socket]:
    """A bound socket, announced at once: clients can connect and wait for what is slow to load.

    The URL is on stdout, for scripts that asked for a free port; the sentence is for people.
    """
    with bind(host, port) as listener:
        url = url_of(listener)
        print(url, flush=True)
        print(f"{what} on {url}{path} (press Ctrl-C to stop)", file=sys.stderr, flush=True)
        set_up_logging()
        yield listener
