"""The example of docs/hostile.md runs, and the page says what is true."""

import re
import subprocess
import sys
from pathlib import Path

from assay.serve.hostile.catalogue import CATALOGUE, describe
from assay.serve.hostile.protocols import PROTOCOLS
from assay.serve.hostile.server import FROM_START, HEADER

PAGE = (Path(__file__).parents[2] / "docs" / "hostile.md").read_text(encoding="utf-8")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_example_runs() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    printed = run(sys.executable, "-c", code[1])
    assert "reset -> ConnectionResetError" in printed or "reset -> RemoteDisconnected" in printed
    assert re.search(r"silence -> (TimeoutError|URLError)", printed)
    assert "number-ids -> " in printed
    assert printed.endswith(f"{len(CATALOGUE)} misbehaviors\n")


def test_the_list_is_printed_as_the_page_shows() -> None:
    printed = run(sys.executable, "-m", "assay.cli.serve", "hostile", "--list").splitlines()
    shown = re.search(r"--list \| head -3\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert printed[:3] == shown[1].splitlines()
    assert len(printed) == len(CATALOGUE)


def test_the_page_names_every_group_and_path() -> None:
    groups = re.findall(r"^\| (\w+) \| .* \| .* \|$", PAGE, re.MULTILINE)
    assert [each for each in groups if each != "Group"] == list(
        dict.fromkeys(each["group"] for each in describe())
    )
    assert f"{len(CATALOGUE)} ways" in PAGE
    for _method, path, _handler in PROTOCOLS:
        assert path in PAGE or path == "/health/ready"
    assert FROM_START in PAGE
    assert HEADER in PAGE.lower()


def test_every_misbehavior_is_described() -> None:
    assert [each.name for each in CATALOGUE if not each.description] == []
    pattern = re.compile(r"[a-z0-9][a-z0-9.-]*")
    assert [each.name for each in CATALOGUE if not pattern.fullmatch(each.name)] == []
