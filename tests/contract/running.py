"""Agents as their callers meet them: behind a real server on a port of their own."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp


@asynccontextmanager
async def running(app: ASGIApp) -> AsyncIterator[str]:
    """The address of `app`, served on the test's own event loop until the block is left."""
    with _listener() as listener:
        config = uvicorn.Config(
            app, lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=1
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        # Not serve(): it takes over the signals of the test run and looks for its end every 0.1 s.
        await server.startup(sockets=[listener])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            await server.shutdown(sockets=[listener])


def _listener() -> socket.socket:
    # Names the protocol, because asyncio turns on TCP_NODELAY only where it is named; without
    # it, each answer on a kept connection waits 40 ms for the client's delayed ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener
