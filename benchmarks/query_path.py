"""Which modules one query passes on its way from `assay eval a2a:URL` to `report.html`.

python benchmarks/query_path.py [--list]

An A2A agent runs in a process of its own; `assay eval` asks it one query of `notes` in this one. A
module is on the way when one of its functions is given the query, its answer or its scores: an
argument or a result that holds the query's id or text, alone or inside a request, call or row. The
command runs once before, so that imports are not counted.
"""

import argparse
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import assay
from assay.cli.app import app
from assay.data.dataset import Dataset, Query
from assay.run.calls import Call
from assay.run.models import QueryRow

SOURCE = str(Path(assay.__file__).parent)
AGENT = [sys.executable, "-m", "assay", "serve", "purple", "--mode", "bm25", "--dataset", "notes"]


def traced_files(arguments: list[str], marks: tuple[str, ...]) -> set[str]:
    """The modules of which a function was given something that holds one of `marks`."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(SOURCE):
            return
        name = str(Path(code.co_filename).relative_to(SOURCE))
        if name in seen or not name.endswith(".py"):
            return
        count = code.co_argcount + code.co_kwonlyargcount
        given = [frame.f_locals.get(each) for each in code.co_varnames[:count] if each != "self"]
        if any(holds(each, marks) for each in (*given, argument)):
            seen.add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def holds(value: object, marks: tuple[str, ...], depth: int = 3) -> bool:
    """Whether `value` is or holds a text with one of `marks`; data sets do not count."""
    if isinstance(value, str):
        return any(mark in value for mark in marks)
    if isinstance(value, bytes):
        return any(mark.encode() in value for mark in marks)
    if depth == 0 or isinstance(value, Dataset):
        return False
    if isinstance(value, dict):
        inside: list[object] = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inside = list(value)
    elif isinstance(value, Query | Call | QueryRow):
        names = ("text", "query_id", "id", "queries")
        inside = [getattr(value, each) for each in names if hasattr(value, each)]
    else:
        return False
    return len(inside) < 100 and any(holds(each, marks, depth - 1) for each in inside)


def run(arguments: list[str]) -> None:
    """Call `assay` in this process; what it prints is not the result of this script."""
    with suppress(SystemExit), redirect_stdout(sys.stderr):
        app(arguments, standalone_mode=False)


def main() -> None:
    """Print the number of modules, and with `--list` their names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    agent = subprocess.Popen(
        [*AGENT, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait(f"http://127.0.0.1:{port}/health/ready")
        with tempfile.TemporaryDirectory() as out:
            target = f"a2a:http://127.0.0.1:{port}"
            options = ["--dataset", "notes", "--num-queries", "1", "--out", out]
            run(["eval", target, *options])
            row = next(assay.runs(out)[0].rows())
            seen = traced_files(["eval", target, *options], (row.query_id, row.query_text))
            assert len(list(Path(out).glob("*/report.html"))) == 2, "no page was written"
    finally:
        agent.terminate()
    if given.list:
        print("\n".join(sorted(seen)))
    print(f"{len(seen)} modules")


def _wait(url: str) -> None:
    import httpx

    for _ in range(300):
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the agent at {url} does not become ready")


if __name__ == "__main__":
    main()
