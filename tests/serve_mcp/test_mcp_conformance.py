"""MCP's own conformance kit and inspector on `assay serve mcp`: what applies to it passes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

KIT = os.environ.get("MCP_KIT")
SCRIPT = Path(__file__).parents[2] / "scripts" / "mcp-conformance.sh"


@pytest.mark.slow
@pytest.mark.skipif(
    not KIT,
    reason="MCP_KIT is not set: the folder scripts/mcp-conformance.sh --install-only fills",
)
def test_what_applies_to_the_server_passes(tmp_path: Path) -> None:
    environment = {**os.environ, "ASSAY": str(Path(sys.executable).parent / "assay")}
    done = subprocess.run(
        ["sh", str(SCRIPT), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    passed = [int(number) for number in re.findall(r"Total: (\d+) passed", done.stdout)]
    assert len(passed) == 2
    assert sum(passed) >= 125
    assert done.stdout.count("\N{CHECK MARK} inspector") == 6
