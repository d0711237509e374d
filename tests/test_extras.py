"""The small core works alone, and what it lacks is named with the command that installs it."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from assay.extras import PACKAGES

ROOT = Path(__file__).parents[1]
STEPS = "ASSAY_IMAGE_STEPS"
MEGABYTES = 160

BLOCKED = """
import contextlib, io, json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from assay.cli.app import main

for arguments in {commands!r}:
    sys.argv = ["assay", *arguments]
    code, said = 0, io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([arguments, code, said.getvalue()]))
"""
CORE = ("eval", "builtin:bm25", "--dataset", "notes")
NEEDED_BY: dict[str, list[tuple[str, ...]]] = {
    "search": [
        ("eval", "builtin:dense", "--dataset", "notes"),
        ("eval", "builtin:hybrid", "--dataset", "notes"),
        ("search", "tea", "--dataset", "notes"),
        ("index", "--dataset", "notes"),
        ("eval", "--dataset", "notes"),
    ],
    "tuned": [("tune", "--dataset", "notes"), ("eval", "builtin:tuned", "--dataset", "notes")],
    "mcp": [
        ("eval", "nextcloud:http://127.0.0.1:1", "--dataset", "notes"),
        ("eval", "mcp:http://127.0.0.1:1/mcp", "--dataset", "notes"),
    ],
    "serve": [
        ("eval", "--dataset", "notes"),
        ("serve", "ui"),
        ("serve", "green"),
        ("serve", "agent", "RAG_RETRIEVE"),
    ],
}
BROUGHT_ALONG = {"tuned": ("search",)}
"""What an extra installs besides: one command must do where both are missing."""


@pytest.mark.parametrize("extra", NEEDED_BY)
def test_a_missing_extra_is_named_with_its_command(extra: str, tmp_path: Path) -> None:
    lacking = {extra, *BROUGHT_ALONG.get(extra, ())}
    packages = {name for name, brings in PACKAGES.items() if brings in lacking}
    code = BLOCKED.format(packages=packages, commands=[*NEEDED_BY[extra], CORE])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("QDRANT")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**kept, "ASSAY_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *refused, core = map(json.loads, done.stdout.splitlines())
    assert len(refused) == len(NEEDED_BY[extra])
    for arguments, exit_code, said in refused:
        assert exit_code == 2, (arguments, said)
        assert f"pip install 'agent-assay[{extra}]'" in said, arguments
        assert "Traceback" not in said
    assert core[1] in (0, None), core


def test_every_package_of_the_table_is_in_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(PACKAGES.values()) <= set(extras)
    named = {
        extra: {re.split(r"[^a-z0-9-]", each.lower())[0] for each in needed}
        for extra, needed in extras.items()
    }
    brought_along = {"google", "httpx2", "mcp_types"}  # by a2a-sdk and by mcp
    for package, extra in PACKAGES.items():
        if package not in brought_along:
            name = "a2a-sdk" if package == "a2a" else package.replace("_", "-")
            assert name in named[extra], (package, extra)


def test_every_import_of_the_source_is_installed_by_the_core_or_named_with_its_extra() -> None:
    """Else a user of the core alone meets a traceback in place of a command."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {re.split(r"[^a-z0-9-]", each.lower())[0] for each in project["dependencies"]}
    brought_along = {"anyio", "pydantic_core", "stemmer"}  # by httpx, pydantic and PyStemmer
    on_purpose = {"pandas", "pytest"}  # their absence is handled where they are imported
    known = {*PACKAGES, *core, *brought_along, *on_purpose, *sys.stdlib_module_names, "assay"}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                assert top in known or top.lower() in known, (path, name)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_core_alone_is_small_and_evaluates(tmp_path: Path) -> None:
    """The wheel in an empty environment: the examples of the README, and its size."""
    if not os.environ.get(STEPS):
        pytest.skip(f"set {STEPS}=1: it installs the core into an empty environment")
    venv = tmp_path / "venv"
    script: list[str | Path] = [sys.executable, ROOT / "scripts" / "dist.py"]
    places: list[str | Path] = ["--out", tmp_path / "dist", "--venv", venv]
    tried = subprocess.run([*script, *places], capture_output=True, text=True)
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert tried.stdout.count("ok  assay ") == 3
    site = next(venv.glob("lib/python3*/site-packages"))
    kept = [each for each in site.rglob("*") if each.is_file() and each.parts[-2] != "__pycache__"]
    size = sum(each.stat().st_size for each in kept if "pip" not in each.relative_to(site).parts[0])
    print(f"core install: {size / 1e6:.0f} MB")
    assert size < MEGABYTES * 1e6
    shutil.rmtree(venv)
