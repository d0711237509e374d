"""Addresses and ports of this machine that no other process of the tests uses."""

import os
import socket


def own_address(number: int) -> str:
    """One of three addresses of 127.0.0.0/8, for servers whose ports are fixed by a document.

    Each worker of pytest, and each session at the same time, has servers of its own: a fixture of a
    module runs in every worker that runs a test of it.
    """
    assert 1 <= number <= 3
    own = os.getpid() << 2 | number  # 22 bits are the largest process id of Linux
    return f"127.{own >> 16 & 255}.{own >> 8 & 255}.{own & 255}"


def free_port() -> int:
    """A port of 127.0.0.1 at which nothing listens, for a server of another process, or for none.

    A server of the tests' own process should bind port 0 instead.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
