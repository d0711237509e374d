"""Agents on the old generation of the A2A library, in processes of an interpreter that has it."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.loopback import free_port

_VARIABLE = "ASSAY_A2A03_PYTHON"


def old_python() -> str:
    if not os.environ.get(_VARIABLE):
        pytest.skip(f"set {_VARIABLE} to the interpreter that scripts/make-a2a03-venv.sh makes")
    return os.environ[_VARIABLE]


def old_agent_running(script: str) -> AbstractContextManager[str]:
    return agent_running(old_python(), script)


@contextmanager
def agent_running(python: str, script: str, *arguments: str) -> Iterator[str]:
    port = free_port()
    path = Path(__file__).with_name(script)
    with subprocess.Popen([python, path, str(port), *arguments]) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as knock:
            if knock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the agent did not start within 60 s")
