"""Carries out a page of the docs: writes the files that it shows, and runs its commands in order.

A block with `title="NAME"` is a file. A line of an `sh` block is a command; one that ends in `&` is
a service, which is stopped at the end. A block marked `sh fails` must exit with 1. The port 8765 of
the pages is replaced by a free one.
"""

import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.loopback import free_port
from typer.main import get_command
from typer.testing import CliRunner, Result

from assay.cli.app import app
from assay.cli.settings import read_settings

PORT = "8765"
_BLOCK = re.compile(r"^([ ]*)```(\w+)([^\n]*)\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE)


def run_page(page: str, folder: Path) -> dict[str, str]:
    """The output of every `assay` command, by command; AssertionError for one that fails."""
    free = str(free_port())
    modules = set(sys.modules)
    services: list[subprocess.Popen[bytes]] = []
    outputs: dict[str, str] = {}
    try:
        for indent, language, rest, body in _BLOCK.findall(page):
            text = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE).replace(PORT, free)
            if title := re.search(r'title="([^"]+)"', rest):
                path = folder / title[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            elif language == "python":
                exec(text, {"__name__": "__main__"})
            elif language == "sh":
                for command in text.splitlines():
                    if command.endswith("&"):
                        services.append(_start(command, folder, free))
                    else:
                        outputs[command] = _run(command, 1 if "fails" in rest else 0)
    finally:
        for service in services:
            service.kill()
            service.wait()
        for name in set(sys.modules) - modules:  # modules of the page, whose names others use too
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
    return outputs


def invoke(words: list[str]) -> Result:
    """The command with the defaults of the assay.toml in the working folder, as `main` has it."""
    return CliRunner().invoke(app, words, default_map=read_settings(get_command(app)))


def _run(command: str, code: int) -> str:
    words = shlex.split(command)
    assert words[0] == "assay", command
    result = invoke(words[1:])
    assert result.exit_code == code, (command, result.output, result.exception)
    return result.output


def _start(command: str, folder: Path, port: str) -> "subprocess.Popen[bytes]":
    words = shlex.split(command.rstrip("& "))
    program = [sys.executable, *(["-m", "assay"] if words[0] == "assay" else [])]
    service = subprocess.Popen([*program, *words[1:]], cwd=folder, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                return service
        assert service.poll() is None, command
        time.sleep(0.05)
    raise AssertionError(f"{command} does not listen")


def section(page: str, title: str = "") -> str:
    """A page of docs/, or one `## title` of it with what is below."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    if not title:
        return text
    return re.split(r"^## ", text[text.index(f"\n## {title}\n") + 1 :], flags=re.MULTILINE)[1]
