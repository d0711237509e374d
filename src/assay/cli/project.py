"""Detects what `assay init` can measure: a search function, an MCP server, questions, CI."""

import ast
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from assay.errors import AssayError
from assay.files import read_text_file

_QUERY_NAMES = ("query", "question", "q", "text", "search_text", "prompt")
_COUNT_NAMES = ("top_k", "k", "limit", "n", "size", "num_results", "max_results")
_SEARCH_NAMES = ("search", "find", "retrieve", "query", "answer", "ask", "run")
_MCP_FILES = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
_DATA_FOLDERS = (".", "data", "eval", "evals", "evaluation", "tests", "tests/data")
_MAX_FILES = 200
_MAX_BYTES = 1_000_000
_TABLES = (".csv", ".tsv", ".jsonl")
_SKIPPED = re.compile(r"(test_.*|conftest|setup|.*_test)\.py")


@dataclass(frozen=True, slots=True)
class Detected:
    """A target or a data set of the project.

    Parameters:
        value: what `assay eval` takes.
        why: where it comes from, for people.
        extra: the extra of the package that it needs.
    """

    value: str
    why: str
    extra: str = ""


def find_target(folder: Path) -> Detected:
    """What `assay init` measures: an MCP server, a search function, or an example to replace."""
    nothing = Detected("builtin:bm25", "no target was found in this project: write yours here")
    return find_mcp_server(folder) or find_function(folder) or nothing


def find_mcp_server(folder: Path) -> Detected | None:
    """The first server of an MCP configuration that agents of this project use."""
    from assay.data.table import read_json
    from assay.data.text_file import plain_file

    for name in _MCP_FILES:
        path = folder / name
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            continue
        try:
            content = read_json(plain_file(path))
        except AssayError:
            continue
        if not isinstance(content, dict):
            continue
        servers = content.get("mcpServers") or content.get("servers")
        for server, settings in servers.items() if isinstance(servers, dict) else ():
            if isinstance(settings, dict) and (target := _mcp_target(settings)):
                return Detected(target, f"server {server!r} in {name}", "mcp")
    return None


def _mcp_target(settings: dict[str, object]) -> str | None:
    """Variables of the server are left out: they often are secrets, and CI sets its own."""
    url, command, words = settings.get("url"), settings.get("command"), settings.get("args", [])
    if isinstance(url, str):
        return f"mcp:{url}"
    if isinstance(command, str) and isinstance(words, list):
        return f"mcp-stdio:{shlex.join([command, *map(str, words)])}"
    return None


def find_function(folder: Path) -> Detected | None:
    """The module-level `f(query, top_k)` whose name says search most; None if there is none."""
    found = [
        (_rank(name), len(path.parts), path, name)
        for path in _python_files(folder)
        for name in _functions(folder / path)
    ]
    if not found:
        return None
    *_, path, name = min(found)
    module = ".".join(path.with_suffix("").parts)
    return Detected(f"python:{module}:{name}", f"{path} has a function {name}")


def _rank(name: str) -> int:
    words = enumerate(_SEARCH_NAMES)
    return next((place for place, word in words if word in name.lower()), len(_SEARCH_NAMES))


def _python_files(folder: Path) -> Iterator[Path]:
    """Those that `python:` can import from here: beside it, or in packages below it."""
    for path in sorted(islice(folder.glob("*.py"), _MAX_FILES)):
        if not _SKIPPED.fullmatch(path.name):
            yield path.relative_to(folder)
    for package in sorted(islice(folder.glob("*/__init__.py"), _MAX_FILES)):
        for path in sorted(islice(package.parent.glob("*.py"), _MAX_FILES)):
            if not _SKIPPED.fullmatch(path.name) and path.name != "__init__.py":
                yield path.relative_to(folder)


def _functions(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(read_text_file(path, limit=_MAX_BYTES))
    except (OSError, SyntaxError, ValueError):
        return
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        fits = len(names) >= 2 and names[0] in _QUERY_NAMES and names[1] in _COUNT_NAMES
        if fits and not node.name.startswith("_"):
            yield node.name


def find_datasets(folder: Path, columns: Sequence[str] = ()) -> Iterator[Detected]:
    """Folders in BEIR format, and tables of questions with expected ids.

    Parameters:
        folder: the project.
        columns: names of columns that are called otherwise, as `--columns` has them.
    """
    from assay.data.question_table import COLUMNS
    from assay.data.table import find_columns, parse_columns

    given = parse_columns(columns, COLUMNS)
    for path in _data_files(folder):
        relative = path.relative_to(folder).as_posix()
        if path.is_dir() and (path / "queries.jsonl").is_file() and (path / "qrels").is_dir():
            yield Detected(f"./{relative}", f"{relative}: BEIR format")
        names = _column_names(path)
        found = find_columns(names, COLUMNS, given)
        if found["query"] in names and (found["ids"] in names or found["doc_id"] in names):
            yield Detected(relative, f"{relative}: questions and expected ids")


def other_tables(folder: Path) -> Iterator[str]:
    """Tables that are no questions by the names of their columns, each with these names."""
    for path in _data_files(folder):
        if names := _column_names(path):
            yield f"{path.relative_to(folder).as_posix()} ({', '.join(names)})"


def _data_files(folder: Path) -> Iterator[Path]:
    for place in (folder / name for name in _DATA_FOLDERS):
        if place.is_dir():
            yield place
            yield from sorted(islice(place.iterdir(), _MAX_FILES))


def _column_names(path: Path) -> list[str]:
    """The names in the first row of a table; none if it is not one, or cannot be read."""
    from assay.data.table import read_table
    from assay.data.text_file import Record

    if path.suffix.lower() not in _TABLES or not path.is_file():
        return []
    try:
        row = next(iter(read_table(path)), None)
    except AssayError:
        return []
    return [str(name) for name in row.fields] if isinstance(row, Record) else []


def find_ci(folder: Path) -> str | None:
    """`github` or `gitlab`: by the files that are there, else by the remote; None for neither."""
    if (folder / ".github").is_dir():
        return "github"
    if (folder / ".gitlab-ci.yml").is_file() or (folder / ".gitlab").is_dir():
        return "gitlab"
    from assay.run.provenance import read_git

    remote = (git.remote or "") if (git := read_git(folder)) else ""
    host = re.sub(r"^\w+://|^[^@/]+@", "", remote).partition("/")[0].partition(":")[0].lower()
    if "gitlab" in host or os.environ.get("GITLAB_CI"):
        return "gitlab"
    return "github" if "github" in host else None
