"""The architecture, held by a few tests that list every offender at once."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import assay

SOURCE = Path(assay.__file__).parent
ROOT = Path(__file__).parents[1]

# From top to bottom: a package may import from those after it, never from those before it.
LAYERS = [
    {"__main__"},
    {"cli", "pytest_plugin"},
    {"serve"},
    {"evaluation"},
    {"report"},
    {"targets", "nextcloud"},
    {"run"},
    {"labels"},
    {"answers"},
    {"metrics"},
    {"llm"},
    {"search"},
    {"data", "contract"},
    {"steps"},
    {"net"},
    {"ray_cluster"},
    {"files"},
    {"extras"},
    {"errors", "privacy", "progress", "text"},
]
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
MODULES = sorted(SOURCE.rglob("*.py"))
LINES = 700


@functools.cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_imports_point_one_way() -> None:
    offenders = []
    for path, tree in trees().items():
        here = package_of(path)
        if here == "__init__":
            continue  # the public names come from every package
        for module in imports_of(tree):
            parts = module.split(".")
            outside = parts[0] == "assay" and len(parts) > 1 and parts[1] != here
            if outside and LEVEL[here] >= LEVEL[parts[1]]:
                offenders.append(f"{named(path)} imports {module}")
    assert offenders == []


def test_every_package_has_a_layer() -> None:
    assert {package_of(path) for path in MODULES} - {"__init__"} == set(LEVEL)


def test_modules_stay_readable() -> None:
    sizes = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > LINES} == {}


def test_public_definitions_have_docstrings() -> None:
    missing, total = [], 0
    for path, tree in trees().items():
        for node in tree.body:
            kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if isinstance(node, kinds) and not node.name.startswith("_"):
                total += 1
                if ast.get_docstring(node) is None:
                    missing.append(f"{named(path)}: {node.name}")
    assert len(missing) <= 0.1 * total, missing


# What exists once, by what it looks like and the one module that may have it.
ONCE = {
    r"httpx\.(?:Async)?Client\(": {"net/client.py"},
    r"httpx2\.AsyncClient\(": {"targets/mcp_connection.py"},
    r"(?i)retry-after.{0,80}parsedate|parsedate.{0,80}retry": {"net/retry.py"},
    r"\bos\.replace\(|\.replace\(path\)|\bpart\.replace\(": {"files.py"},
    r"\bflock\(|msvcrt": {"files.py"},
    r"2(?:\.0)? \*\* \(attempt": {"net/retry.py"},
    r"\bfromisoformat\(": {"text.py"},
    # Of a document that is nested too deeply, servers say more than that it is not JSON. Files of
    # a run are validated against their models.
    r"orjson\.loads\(": {"net/json.py", "contract/server.py", "run/calls.py", "run/folder.py"},
    # A pipe or a device in the place of a file blocks whoever opens it. Files of this package, and
    # of packages that are installed, are files.
    r"\.read_(?:bytes|text)\(|\.open\(\"rb\"\)": {
        "files.py",
        "targets/purple_process.py",
        "llm/prompt.py",
        "report/html.py",
        "search/onnx_embedding.py",
        "search/tuning/tune.py",
    },
    r"\bget_close_matches\b": {"errors.py"},
    r"\bimport duckdb\b|\bimport bm25s\b": set(),
}


def test_one_of_everything() -> None:
    offenders = []
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for pattern, allowed in ONCE.items():
            if (found := re.search(pattern, text)) and named(path) not in allowed:
                offenders.append(f"{named(path)}: {found[0]} is only for {sorted(allowed)}")
    assert offenders == []


def test_a_query_passes_few_modules_on_its_way_to_the_page() -> None:
    script = ROOT / "benchmarks" / "query_path.py"
    done = subprocess.run([sys.executable, script, "--list"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"^(\d+) modules$", done.stdout, flags=re.MULTILINE)
    assert found is not None
    assert 15 <= int(found[1]) <= 26, done.stdout


def test_the_core_depends_on_nothing_heavy() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {re.split(r"[^A-Za-z0-9]", each)[0].lower() for each in project["dependencies"]}
    assert sorted(core) == [
        *("click", "httpx", "jinja2", "jmespath", "markupsafe", "numpy", "orjson", "pydantic"),
        *("pystemmer", "rich"),
    ]
    extras = project["optional-dependencies"]
    assert [name for name, needs in extras.items() if "torch" in str(needs)] == ["torch"]


def test_the_files_that_contributing_names_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.split("## Adding", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 6
    for row in rows:
        paths = re.findall(r"`([\w./]+\.(?:py|html|md|toml))`", row)
        assert 1 <= len(paths) <= 3, row
        assert [path for path in paths if not (ROOT / path).exists()] == [], row
