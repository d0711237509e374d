"""`assay init`: an assay.toml and a CI job for the project in this folder."""

import ast
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from assay.cli.console import Unwrapped, say
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.data.load import require_dataset
from assay.data.question_table import COLUMNS
from assay.data.table import find_columns, parse_columns, read_json, read_table
from assay.data.text_file import Record, plain_file
from assay.errors import AssayError, UsageError
from assay.files import PROJECT_FILE, atomic_write, read_file, read_text_file
from assay.run.provenance import read_git
from assay.targets.target_kinds import TARGET_KINDS, Target, parse_target

_SCHEMA = "https://raw.githubusercontent.com/agent-assay/assay/main/docs/schemas/assay.schema.json"
_SETTINGS = """\
#:schema @SCHEMA@
# Defaults of `assay` in this folder: flags and variables win. All options: assay eval --help
dataset = @DATASET@  # @DATASET_IS@
@COLUMNS@
[eval]
target = "app"
# A run must answer nearly all questions. Once you know your figures, add one: "ndcg@5>=0.60"
gate = ["success_rate>=0.99"]

[target.app]  # assay eval app
target = @TARGET@  # @TARGET_IS@
"""

_GITHUB = """\
# Measures the target `app` of assay.toml on every pull request. Written by `assay init`.
name: assay
on:
  push:
    branches: [@BRANCH@]
  pull_request:
permissions:
  contents: read
jobs:
  assay:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "@PYTHON@"
      - run: @INSTALL@
      # The runs of @BRANCH@, which pull requests are compared with.
      - uses: actions/cache@v4
        with:
          path: runs
          key: assay-${{ github.ref_name }}:${{ github.run_id }}
          restore-keys: "assay-@BRANCH@:"
@START@      - name: Evaluate
        run: |
          assay doctor app
          code=0
          assay eval app --compare-to @BRANCH@ --allow-first-run --fail-on-regression \\
            --junit assay-junit.xml --markdown "$GITHUB_STEP_SUMMARY" || code=$?
          if [ "$code" -le 1 ]; then assay report --html assay.html; fi
          exit "$code"
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: assay
          path: |
            assay.html
            assay-junit.xml
"""

_START = """\
      # `app` is a service: start it here, in the background; assay waits until it is ready.
      # - run: python server.py &
"""
_QUERY_NAMES = ("query", "question", "q", "text", "search_text", "prompt")
_COUNT_NAMES = ("top_k", "k", "limit", "n", "size", "num_results", "max_results")
_SEARCH_NAMES = ("search", "find", "retrieve", "query", "answer", "ask", "run")
_MCP_FILES = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
_DATA_FOLDERS = (".", "data", "eval", "evals", "evaluation", "tests", "tests/data")
_MAX_FILES = 200
_MAX_BYTES = 1_000_000
_TABLES = (".csv", ".tsv", ".jsonl")
_SKIPPED = re.compile(r"(test_.*|conftest|setup|__init__|.*_test)\.py")
_JOB = ".github/workflows/assay.yml"
_EXAMPLE = "notes"
_MAIN_BRANCHES = ("main", "master", "trunk", "develop")
# What a job installs besides the core, by the kind of a target or by the target.
_EXTRAS = {
    "builtin:dense": "search",
    "builtin:hybrid": "search",
    "builtin:tuned": "tuned",
    "mcp": "mcp",
    "mcp-stdio": "mcp",
    "nextcloud": "mcp",
    "purple": "all",
}


class Detected(NamedTuple):
    """A target or a data set of the project."""

    value: str  # what `assay eval` takes
    why: str  # where it comes from, for people


def init(
    target: str | None = argument(
        "TARGET",
        "What to measure: a URL (with {query} in it, or the address of an agent) or any other "
        "target. Default: an MCP configuration or a search function of the project.",
        default=None,
    ),
    dataset: str | None = option(
        None,
        "The questions. Default: a table of questions or a folder in BEIR format that is "
        "found, else notes.",
        metavar="NAME|PATH",
    ),
    columns: list[str] | None = setting_option("columns", variable=None),
    ci: str | None = option(
        None,
        "Whether to write a job: github or none. Default: github if the project is there.",
        metavar="SYSTEM",
        choices=("github", "none"),
    ),
    force: bool = switch("--force", "Replace files that exist."),
) -> Result:
    """Write an assay.toml and a CI job for this project.

    Finds a search function f(query, top_k), an MCP configuration and questions in the working
    folder. A file that exists is kept, unless --force is given.
    """
    folder, columns = Path.cwd(), columns or []
    if target is not None:
        is_template = target.startswith(("http://", "https://")) and "{query}" in target
        measured = Detected(f"rest:{target}" if is_template else target, "given")
    else:
        nothing = Detected("builtin:bm25", "no target was found in this project: write yours here")
        measured = find_mcp_server(folder) or find_function(folder) or nothing
    kind = parse_target(measured.value)
    data, notes = _choose_questions(folder, dataset, columns)
    settings = _fill(
        _SETTINGS,
        SCHEMA=_SCHEMA,
        DATASET=json.dumps(data.value),  # JSON's escapes are TOML's
        DATASET_IS=" ".join(data.why.split()),
        TARGET=json.dumps(measured.value),
        TARGET_IS=" ".join(measured.why.split()),
        COLUMNS=f"columns = [{', '.join(map(json.dumps, columns))}]\n" if columns else "",
    )
    files = {PROJECT_FILE: settings}
    if ci == "github" or (ci is None and is_on_github(folder)):
        files[_JOB] = _job(folder, kind)
    written = _write(files, folder, force)
    shown = [f"target: {measured.value} ({measured.why})", f"dataset: {data.value} ({data.why})"]
    notes = [*shown, *notes, *(f"wrote {name}" for name in written)]
    if ci is None and _JOB not in files:
        notes.append(
            "the project is not on GitHub: --ci github writes a job; docs/ci.md has GitLab's"
        )
    ignored = folder / ".gitignore"
    lines = read_file(ignored).splitlines() if ignored.is_file() else []
    if (folder / ".git").exists() and not any(
        line.strip().strip(b"/") == b"runs" for line in lines
    ):
        notes.append("runs/ holds your questions and results: add it to .gitignore")
    value = {"target": measured.value, "dataset": data.value, "written": written}
    commands = [Unwrapped("assay doctor app"), Unwrapped("assay eval app")]
    return Result(value, commands, notes=notes)


def _choose_questions(
    folder: Path, given: str | None, columns: Sequence[str]
) -> tuple[Detected, list[str]]:
    """The data set that is given or found, else the example; and what else is there."""
    if given is not None:
        require_dataset(given)
        return Detected(given, "given"), []
    found = list(islice(find_datasets(folder, columns), 6))
    if found:
        others = ", ".join(each.value for each in found[1:])
        more = [f"other questions that were found: {others}; --dataset chooses"] if others else []
        return found[0], more
    tables = (
        f"not understood as questions: {path.relative_to(folder).as_posix()} ({', '.join(names)}); "
        "name its columns: --columns query=…,ids=…"
        for path in _data_files(folder)
        if (names := _column_names(path))
    )
    why = "no questions were found: this is Assay's example; see docs/data.md"
    return Detected(_EXAMPLE, why), list(islice(tables, 3))


def _job(folder: Path, target: Target) -> str:
    git = read_git(folder)
    branch = git.branch if git is not None and git.branch in _MAIN_BRANCHES else "main"
    kind = TARGET_KINDS[target.kind]
    extra = _EXTRAS.get(target.kind) or _EXTRAS.get(f"{target.kind}:{target.address}", "")
    packages = [f"agent-assay[{extra}]" if extra else "agent-assay"]
    if (folder / "requirements.txt").is_file():
        packages += ["-r", "requirements.txt"]
    elif (folder / "pyproject.toml").is_file() or (folder / "setup.py").is_file():
        packages += ["."]
    return render_ci(
        branch=branch or "main",
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        install=f"pip install {shlex.join(packages)}",
        service=not kind.runs_code and not kind.searches_dataset,
    )


def render_ci(*, branch: str, python: str, install: str, service: bool) -> str:
    """The job for GitHub, which compares with `branch`.

    It runs the command `install` on a `python` such as 3.12; `service` says whether it has to
    start the target.
    """
    start = _START if service else ""
    return _fill(_GITHUB, BRANCH=branch, PYTHON=python, INSTALL=install, START=start)


def _fill(template: str, **values: str) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def _write(files: dict[str, str], folder: Path, force: bool) -> list[str]:
    kept = [] if force else [name for name in files if (folder / name).exists()]
    if len(kept) == len(files):
        raise UsageError(f"already there: {', '.join(kept)}; pass --force to replace what is there")
    for name in kept:
        say(f"{name} exists and was kept; --force replaces it")
    written = [name for name in files if name not in kept]
    for name in written:
        old = folder / name
        if old.exists():
            saved = next(path for n in count(1) if not (path := Path(f"{old}.bak{n}")).exists())
            old.rename(saved)
            say(f"the {name} before is now {saved.relative_to(folder)}")
        try:
            atomic_write(old, files[name].encode())
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror}") from None
    return written


def find_mcp_server(folder: Path) -> Detected | None:
    """The first server of an MCP configuration that agents of this project use.

    Its variables are left out: they often are secrets, and CI sets its own.
    """
    for name in _MCP_FILES:
        path = folder / name
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            continue
        try:
            content = read_json(plain_file(path))
        except AssayError:
            continue
        found = content if isinstance(content, dict) else {}
        servers = found.get("mcpServers") or found.get("servers")
        for server, settings in servers.items() if isinstance(servers, dict) else ():
            if not isinstance(settings, dict):
                continue
            why = f"server {server!r} in {name}"
            command, words = settings.get("command"), settings.get("args", [])
            if isinstance(url := settings.get("url"), str):
                return Detected(f"mcp:{url}", why)
            if isinstance(command, str) and isinstance(words, list):
                return Detected(f"mcp-stdio:{shlex.join([command, *map(str, words)])}", why)
    return None


def find_function(folder: Path) -> Detected | None:
    """The module-level `f(query, top_k)` whose name says search most; None if there is none.

    It is looked for where `python:` can import from: beside the project file, and in packages.
    """
    packages = islice(folder.glob("*/__init__.py"), _MAX_FILES)
    found = []
    for place in (folder, *sorted(each.parent for each in packages)):
        for path in sorted(islice(place.glob("*.py"), _MAX_FILES)):
            relative = path.relative_to(folder)
            names = () if _SKIPPED.fullmatch(path.name) else _functions(path)
            for name in names:
                ranks = (n for n, word in enumerate(_SEARCH_NAMES) if word in name.lower())
                rank = next(ranks, len(_SEARCH_NAMES))
                found.append((rank, len(relative.parts), relative, name))
    if not found:
        return None
    *_, path, name = min(found)
    module = ".".join(path.with_suffix("").parts)
    return Detected(f"python:{module}:{name}", f"{path} has a function {name}")


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

    `columns` are names of columns that are called otherwise, as `--columns` has them.
    """
    given = parse_columns(columns, COLUMNS)
    for path in _data_files(folder):
        relative = path.relative_to(folder).as_posix()
        if path.is_dir() and (path / "queries.jsonl").is_file() and (path / "qrels").is_dir():
            yield Detected(f"./{relative}", f"{relative}: BEIR format")
        names = _column_names(path)
        found = find_columns(names, COLUMNS, given)
        if found["query"] in names and (found["ids"] in names or found["doc_id"] in names):
            yield Detected(relative, f"{relative}: questions and expected ids")


def _data_files(folder: Path) -> Iterator[Path]:
    for place in (folder / name for name in _DATA_FOLDERS):
        if place.is_dir():
            yield place
            yield from sorted(islice(place.iterdir(), _MAX_FILES))


def _column_names(path: Path) -> list[str]:
    """The names in the first row of a table; none if it is not one, or cannot be read."""
    if path.suffix.lower() not in _TABLES or not path.is_file():
        return []
    try:
        row = next(iter(read_table(path)), None)
    except AssayError:
        return []
    return [str(name) for name in row.fields] if isinstance(row, Record) else []


def is_on_github(folder: Path) -> bool:
    """By its files, else by its remote."""
    remote = (git.remote or "") if (git := read_git(folder)) else ""
    host = re.sub(r"^\w+://|^[^@/]+@", "", remote).partition("/")[0].partition(":")[0].lower()
    return (folder / ".github").is_dir() or "github" in host
