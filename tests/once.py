"""Work whose result every worker of pytest needs, and one of them does."""

import fcntl
import json
import os
from collections.abc import Callable
from typing import Any

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Any]) -> Any:
    """What `make` returns, which must be JSON. The first worker that asks makes it; others wait.

    One name is one result in a session. What `make` raises, it raises in every worker that asks.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return make()
    folder = factory.getbasetemp().parent  # that of all the workers
    result = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not result.exists():
            result.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(result.read_text(encoding="utf-8"))
