"""Runs an application on an address until it is told to stop."""

import asyncio
import errno
import socket
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from assay.errors import UsageError

_GRACE_S = 5
_BACKLOG = 2048


def serve(app: ASGIApp, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; calls in flight get a few seconds to end."""
    with bind(host, port) as listener:
        asyncio.run(uvicorn.Server(_config(app)).serve(sockets=[listener]))


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Bound before anything slow is loaded."""
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


def _config(app: ASGIApp) -> uvicorn.Config:
    """No access log of uvicorn's: it writes whole URLs. `request_log` says what may be said."""
    return uvicorn.Config(
        app,
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
