"""`scripts/install.sh`, which every environment of the project is installed with."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def installed(folder: Path, *, uv_exits: int, **variables: str) -> tuple[str, list[str]]:
    """What is said, and the calls of the installers, which only write down how they were called."""
    calls = folder / "calls"
    for name, code in (("uv", uv_exits), ("python3", 0)):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $* $UV_FIND_LINKS $UV_INDEX" >>"{calls}"\nexit {code}\n'
        )
        program.chmod(0o755)
    done = subprocess.run(
        ["sh", ROOT / "scripts" / "install.sh", "--target", "there", "six"],
        env={"PATH": f"{folder}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr, calls.read_text().splitlines()


def test_uv_installs_and_is_given_the_places_that_pip_knows(tmp_path: Path) -> None:
    said, calls = installed(
        tmp_path, uv_exits=0, PIP_FIND_LINKS="/one /two", PIP_EXTRA_INDEX_URL="file:///more"
    )
    wanted = "uv pip install --quiet --python python3 --target there six"
    assert calls == [f"{wanted} /one,/two file:///more"]
    assert said == ""


def test_pip_installs_where_uv_fails(tmp_path: Path) -> None:
    said, (_, call) = installed(tmp_path, uv_exits=1)
    assert call.startswith("python3 -m pip install --quiet --upgrade --target there six")
    assert "trying pip" in said
