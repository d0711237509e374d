"""Misbehavior of server-sent events. Protocols that do not stream see another content type."""

import asyncio

from assay.serve.hostile.wire import MOST_SECONDS, Act, HostileCall


async def _open(call: HostileCall) -> None:
    await call.send(call.head(kind="text/event-stream"))


def events(*pieces: bytes) -> Act:
    """A stream of these pieces, where b"*" stands for the right answer as an event."""

    async def act(call: HostileCall) -> None:
        event = call.right.frame(call.json)
        await _open(call)
        await call.send(*(event if piece == b"*" else piece for piece in pieces))

    return act


def line_ends(end: bytes) -> Act:
    """The right stream with other line ends."""

    async def act(call: HostileCall) -> None:
        await _open(call)
        await call.send(call.right.frame(call.json).replace(b"\n", end))

    return act


def without_end(piece: bytes, pause: float = 0.0) -> Act:
    """A stream of `piece` that never ends."""

    async def act(call: HostileCall) -> None:
        await _open(call)
        await call.repeat(piece, pause)

    return act


async def giant_event(call: HostileCall) -> None:
    """One event that never ends."""
    await _open(call)
    await call.send(b"data: ")
    await call.repeat(b"x" * 64_000)


async def cut_event(call: HostileCall) -> None:
    """The stream ends within its event."""
    await _open(call)
    await call.send(call.right.frame(call.json).removesuffix(call.right.closing)[:-12])


async def reset_in_stream(call: HostileCall) -> None:
    """The connection breaks before the event is complete."""
    await _open(call)
    await call.send(call.right.frame(call.json)[:20])
    await asyncio.sleep(0.2)
    call.reset()


async def stays_open(call: HostileCall) -> None:
    """The right answer, and then the stream stays open."""
    await _open(call)
    await call.send(call.right.frame(call.json))
    await asyncio.sleep(MOST_SECONDS)


async def byte_by_byte(call: HostileCall) -> None:
    """The right stream, each byte in a packet of its own."""
    await _open(call)
    for byte in call.right.frame(call.json):
        await call.send(bytes([byte]))
        await asyncio.sleep(0)
