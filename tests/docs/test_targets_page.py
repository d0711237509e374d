"""Every command of docs/targets.md runs, against local services with the shapes of real ones."""

import asyncio
import json
import os
import re
import shlex
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tests import forked
from tests.serve.serving import serving
from tests.targets.documented_services import documented_app
from tests.targets.search_services import TOKEN

from assay.targets.target_kinds import TARGET_KINDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "targets.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


COMMANDS = [
    line for block in blocks("sh") for line in block.splitlines() if line.startswith("assay eval ")
]


DOCTOR = [
    line for block in blocks("sh") for line in block.splitlines() if line.startswith("assay doctor")
]


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 24
    assert len(DOCTOR) == 2


async def run_command(command: str, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    """The command with the addresses of local services, in a folder with the page's files."""
    async with serving(documented_app()) as url:
        host = url.removeprefix("http://")

        def local(text: str) -> str:
            return re.sub(r"localhost:\d+", host, text)

        (tmp_path / "body.json").write_text(blocks("json")[0])
        (tmp_path / "assay.toml").write_text(local(blocks("toml")[0]))
        (tmp_path / "my_search.py").write_text(local(blocks("python")[0]))
        env = {**os.environ, "SEARCH_TOKEN": TOKEN, "OPENAI_API_KEY": TOKEN, "NO_PROXY": "*"}
        _, *arguments = shlex.split(local(command))
        start = partial(forked.run, forked.ASSAY, *arguments, cwd=tmp_path, env=env)
        return await asyncio.to_thread(start)


@pytest.mark.slow
@pytest.mark.parametrize("command", DOCTOR)
async def test_the_doctor_finds_nothing_wrong(command: str, tmp_path: Path) -> None:
    done = await run_command(command, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 of 5 ids are documents of 'notes'" in done.stdout
    assert TOKEN not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
async def test_the_command_measures_the_service(command: str, tmp_path: Path) -> None:
    done = await run_command(f"{command} --num-queries 4 --json", tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["successful_queries"] == 4
    assert report["metrics"]["hit@8" if "--top-k 8" in command else "hit@5"] > 0.5
    assert not report["violations"]["unknown"]["queries"]
    stored = "".join(path.read_text() for path in tmp_path.glob("runs/*/*") if path.is_file())
    assert TOKEN not in stored


def test_every_kind_of_target_has_its_row() -> None:
    page = (DOCS / "targets.md").read_text(encoding="utf-8")
    rows = "".join(line for line in page.splitlines() if line.startswith("| "))
    assert [name for name in TARGET_KINDS if f"`{name}:" not in rows and name != "url"] == []
