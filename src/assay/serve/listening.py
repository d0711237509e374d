"""Runs an application on an address until it is told to stop."""

import asyncio
import errno
import socket
import threading
from contextlib import suppress
from ipaddress import ip_address
from typing import BinaryIO

import uvicorn
from starlette.types import ASGIApp

from assay.errors import UsageError
from assay.serve.prompt_headers import PromptHeaders

END_WORK = "end_work"
"""Under this name an application's lifespan may yield what ends its long work."""

_GRACE_S = 5
_BACKLOG = 2048
_LAST_PORT = 65535


class Server(uvicorn.Server):
    """Ends the application's long work first. Otherwise whoever follows it would be cut off
    before its end, which the application hears of only when the last of them has gone."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        end_work = self.lifespan.state.get(END_WORK)
        if end_work is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await end_work()
        await super().shutdown(sockets)


def serve(app: ASGIApp, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; calls in flight get a few seconds to end."""
    serve_on(app, bind(host, port))


def serve_on(app: ASGIApp, listener: socket.socket, *, stop_with: BinaryIO | None = None) -> None:
    """As `serve`, and also until `stop_with` ends: a pipe that closes when its writer dies."""
    server = Server(_config(app))
    if stop_with is not None:
        threading.Thread(target=_stop_at_end, args=(stop_with, server), daemon=True).start()
    # uvicorn chooses its faster loop only where it makes the loop itself.
    make_loop = server.config.get_loop_factory()
    with listener, asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(server.serve(sockets=[listener]))


def url_of(listener: socket.socket) -> str:
    """Where a client on this machine reaches it."""
    host, port = listener.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Bound before anything slow is loaded."""
    if not 0 <= port <= _LAST_PORT:
        raise UsageError(f"--port must be from 0 (a free one) to {_LAST_PORT}, got {port}")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise UsageError(f"cannot listen on host {host!r}: {error.strerror}") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise UsageError(_refusal(host, port, error)) from error
    listener.listen(_BACKLOG)
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _stop_at_end(pipe: BinaryIO, server: uvicorn.Server) -> None:
    while pipe.read(4096):
        pass
    server.should_exit = True


def _config(app: ASGIApp) -> uvicorn.Config:
    """No access log of uvicorn's: it writes whole URLs. `request_log` says what may be said."""
    return uvicorn.Config(
        app,
        http=PromptHeaders,
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        lifespan="on",
    )


def _refusal(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken; name another with --port, or end what uses it"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this process has; name one above 1023"
    return f"cannot listen on {host}:{port}: {error.strerror}"
