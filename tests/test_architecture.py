"""The shape of the house: imports one way, few public names, a quick start, small rooms."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import assay

SOURCE = Path(assay.__file__).parent

# From the top of the house to its ground: a room may import from those after it, never before.
LAYERS = [
    {"cli", "pytest_plugin"},
    {"serve"},
    {"evaluation"},
    {"report"},
    {"agents", "nextcloud"},
    {"run"},
    {"measure"},
    {"answer"},
    {"search"},
    {"data", "contract"},
    {"net"},
    {"files"},
    {"extras"},
    {"errors", "progress", "text"},
]
HEIGHT = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "assay" and len(parts) > 1 else None


def imports_of(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if here == "__init__":
        return  # the front door shows names of every room
    for module in imports_of(path):
        there = room_of(module)
        if there is None or there == here:
            continue
        assert there in HEIGHT, f"{there!r} has no place in LAYERS"
        assert HEIGHT[here] < HEIGHT[there], f"{here} must not import {module}"


def test_every_room_has_a_place() -> None:
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES}
    assert rooms - {"__init__"} <= set(HEIGHT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_stays_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_the_public_names_are_these() -> None:
    assert assay.__all__ == [
        *("AP", "MRR", "AssayError", "CappedRecall", "Comparison", "Dataset", "Document", "Hit"),
        *("Judged", "Metric", "Precision", "Query", "Recall", "Report", "Run", "__version__"),
        *("compare_runs", "evaluate", "evaluate_agent", "load_dataset", "load_run", "nDCG"),
        *("parse_metric", "runs", "score"),
    ]
    for name in assay.__all__:
        assert getattr(assay, name) is not None


def test_the_help_page_is_fresh() -> None:
    script = SOURCE.parents[1] / "scripts" / "render_help.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + " run: .venv/bin/python scripts/render_help.py"


def test_help_loads_nothing_heavy() -> None:
    """A quick `assay --help`: what takes long to import is imported by the verb that needs it."""
    code = "import sys, assay.cli.app; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"numpy", "pydantic", "httpx", "onnxruntime", "lightgbm", "starlette", "mcp"}
    assert heavy.isdisjoint(loaded)


def test_torch_is_no_dependency() -> None:
    project = (SOURCE.parents[1] / "pyproject.toml").read_text()
    assert "torch" not in project
