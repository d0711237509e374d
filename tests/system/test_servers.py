"""What callers and operators of the servers see: from the command line and the wire."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests import forked

PROXIED = {"Authorization": "Bearer guess"}


@contextlib.contextmanager
def served(*arguments: str, **variables: str) -> Iterator[str]:
    """The address of `assay serve ARGUMENTS`."""
    environment = {**os.environ, **variables}
    command = (forked.ASSAY, "serve", *arguments, "--port", "0")
    with forked.started(*command, env=environment) as server:
        yield server.stdout.readline().strip()


@pytest.mark.parametrize(("proxies", "last"), [({}, 429), ({"FORWARDED_ALLOW_IPS": "*"}, 401)])
def test_guesses_behind_one_proxy_are_counted_together_unless_it_is_named(
    proxies: dict[str, str], last: int
) -> None:
    with served("mcp", "--dataset", "notes", "--mode", "bm25", ASSAY_TOKEN="s", **proxies) as url:
        statuses = [
            httpx.get(f"{url}/stats", headers={**PROXIED, "X-Forwarded-For": f"10.0.0.{n}"})
            for n in range(30)
        ]
    assert statuses[-1].status_code == last


@pytest.mark.parametrize(
    ("missing", "words"), [("httptools", ""), ("starlette", "agent-assay[serve]")]
)
def test_a_server_without_its_extra_serves_or_names_it(
    tmp_path: Path, missing: str, words: str
) -> None:
    """Plain uvicorn comes with other packages, without httptools."""
    (tmp_path / f"{missing}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{missing}'\", name='{missing}')\n"
    )
    python = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "assay", "serve", "ui", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not words:
            assert httpx.get(f"{url}/health", timeout=60).status_code == 200
        else:
            process.wait(60)
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    assert words in errors
