"""Reads a request's body ahead of the application, and hands it on as if nothing had been read."""

from starlette.types import Message, Receive


async def read_whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """The body at once; whoever asks on is told what comes from the caller afterwards."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
