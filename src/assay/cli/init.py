"""`assay init`: an assay.toml and a CI job for the project in this folder."""

import ast
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path

from assay.cli.console import Unwrapped, say
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.data.load import require_dataset
from assay.data.question_table import COLUMNS
from assay.data.table import find_columns, parse_columns, read_table
from assay.data.text_file import Record
from assay.errors import AssayError, UsageError
from assay.files import PROJECT_FILE, atomic_write, read_text_file
from assay.run.models import GitRecord
from assay.run.provenance import read_git
from assay.targets.target_kinds import Target, parse_target

_SCHEMA = "https://raw.githubusercontent.com/agent-assay/assay/main/docs/schemas/assay.schema.json"
_SETTINGS = """\
#:schema @SCHEMA@
# Defaults of `assay` in this folder: flags and variables win. All options: assay eval --help
dataset = @DATASET@
@COLUMNS@
[eval]
target = "app"
# A run must answer nearly all questions. Once you know your figures, add one: "ndcg@5>=0.60"
gate = ["success_rate>=0.99"]

[target.app]  # assay eval app
target = @TARGET@
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
      # If `app` is a service, start it here; assay waits until it is ready.
      # - run: python server.py &
      - name: Evaluate
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

_QUERY_NAMES = ("query", "question", "q", "text", "search_text", "prompt")
_COUNT_NAMES = ("top_k", "k", "limit", "n", "size", "num_results", "max_results")
_DATA_FOLDERS = (".", "data", "eval", "evals", "evaluation", "tests", "tests/data")
_TABLES = (".csv", ".tsv", ".jsonl")
# It may be started in a home folder, where a look at every file would take minutes.
_MAX_FILES = 200
_MAX_BYTES = 1_000_000
_SKIPPED = re.compile(r"(test_.*|conftest|setup|__init__|.*_test)\.py")
_JOB = ".github/workflows/assay.yml"
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


def init(
    target: str | None = argument(
        "TARGET",
        "A target, or a URL with {query} in it. Default: a function found here.",
        default=None,
    ),
    dataset: str | None = option(
        None,
        "The questions. Default: a table or folder found here, else notes.",
        metavar="NAME|PATH",
    ),
    columns: list[str] | None = setting_option("columns", variable=None),
    ci: str | None = option(
        None,
        "The job: github or none. Default: github if the project is there.",
        metavar="SYSTEM",
        choices=("github", "none"),
    ),
    force: bool = switch("--force", "Replace files that exist."),
) -> Result:
    """Write an assay.toml and a CI job for this project.

    Finds a search function f(query, top_k) and questions in the working folder. A file that exists
    is kept, unless --force is given.
    """
    folder, columns, notes = Path.cwd(), columns or [], list[str]()
    if target is None and (target := find_function(folder)) is None:
        target = "builtin:bm25"
        notes.append("no search function was found: write your target into assay.toml")
    elif target.startswith(("http://", "https://")) and "{query}" in target:
        target = f"rest:{target}"
    parse_target(target)  # a wrong one is an error now
    if dataset is not None:
        require_dataset(dataset)
    elif found := list(islice(find_datasets(folder, columns), 6)):
        dataset, *others = found
        notes += [f"also found: {', '.join(others)}; choose with --dataset"] if others else []
    else:
        dataset = "notes"
        notes.append("no questions were found: pass --dataset, or --columns query=NAME,ids=NAME")
    files = {
        PROJECT_FILE: _fill(
            _SETTINGS,
            SCHEMA=_SCHEMA,
            DATASET=json.dumps(dataset),  # JSON's escapes are TOML's
            TARGET=json.dumps(target),
            COLUMNS=f"columns = [{', '.join(map(json.dumps, columns))}]\n" if columns else "",
        )
    }
    git = read_git(folder)
    # The host of the remote, whatever its path is called: git@github.com:gitlab/x.git.
    remote = re.match(r"(?:\w+://)?(?:[^@/]+@)?[^/:]*github", (git and git.remote) or "")
    if ci == "github" or (ci is None and (remote or (folder / ".github").is_dir())):
        files[_JOB] = _job(folder, parse_target(target), git)
    elif ci is None:
        notes.append("not on GitHub: --ci github writes a job; docs/ci.md has GitLab's")
    written = _write(files, folder, force)
    notes = [f"target: {target}", f"dataset: {dataset}", *notes]
    return Result(
        {"target": target, "dataset": dataset, "written": written},
        [Unwrapped("assay doctor app"), Unwrapped("assay eval app")],
        notes=[*notes, *(f"wrote {name}" for name in written)],
    )


def _job(folder: Path, target: Target, git: GitRecord | None) -> str:
    extra = _EXTRAS.get(target.kind) or _EXTRAS.get(f"{target.kind}:{target.address}")
    packages = [f"agent-assay[{extra}]" if extra else "agent-assay"]
    if (folder / "requirements.txt").is_file():
        packages += ["-r", "requirements.txt"]
    elif (folder / "pyproject.toml").is_file() or (folder / "setup.py").is_file():
        packages += ["."]
    return render_ci(
        branch=git.branch if git and git.branch in _MAIN_BRANCHES else "main",
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        install=f"pip install {shlex.join(packages)}",
    )


def render_ci(*, branch: str, python: str, install: str) -> str:
    """The job for GitHub: runs `install` on a `python` such as 3.12, compares with `branch`."""
    return _fill(_GITHUB, BRANCH=branch, PYTHON=python, INSTALL=install)


def _fill(template: str, **values: str) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def _write(files: dict[str, str], folder: Path, force: bool) -> list[str]:
    written = []
    for name, content in files.items():
        path = folder / name
        if path.exists() and not force:
            say(f"{name} exists and was kept; --force replaces it")
            continue
        if path.exists():
            saved = next(old for n in count(1) if not (old := Path(f"{path}.bak{n}")).exists())
            path.rename(saved)
            say(f"the {name} before is now {saved.relative_to(folder)}")
        try:
            atomic_write(path, content.encode())
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror}") from None
        written.append(name)
    if not written:
        raise UsageError("nothing was written: every file is already there; pass --force")
    return written


def find_function(folder: Path) -> str | None:
    """`python:module:search` for a module-level `f(query, top_k)`; None if there is none.

    It is looked for where `python:` can import from: beside the project file, and in packages.
    """
    packages = sorted(each.parent for each in islice(folder.glob("*/__init__.py"), _MAX_FILES))
    found = []
    for path in (
        p for place in (folder, *packages) for p in islice(place.glob("*.py"), _MAX_FILES)
    ):
        if _SKIPPED.fullmatch(path.name):
            continue
        try:
            tree = ast.parse(read_text_file(path, limit=_MAX_BYTES))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
            fits = len(names) >= 2 and names[0] in _QUERY_NAMES and names[1] in _COUNT_NAMES
            if fits and not node.name.startswith("_"):
                module = ".".join(path.relative_to(folder).with_suffix("").parts)
                found.append(("search" not in node.name, module.count("."), module, node.name))
    if not found:
        return None
    *_, module, name = min(found)
    return f"python:{module}:{name}"


def find_datasets(folder: Path, columns: Sequence[str] = ()) -> Iterator[str]:
    """Folders in BEIR format, and tables of questions with expected ids.

    `columns` are names of columns that are called otherwise, as `--columns` has them.
    """
    given = parse_columns(columns, COLUMNS)
    for place in (folder / name for name in _DATA_FOLDERS):
        inside = sorted(islice(place.iterdir(), _MAX_FILES)) if place.is_dir() else []
        for path in (place, *inside):
            relative = path.relative_to(folder).as_posix()
            if (path / "queries.jsonl").is_file() and (path / "qrels").is_dir():
                yield f"./{relative}"
            if path.suffix.lower() in _TABLES and path.is_file():
                try:
                    row = next(iter(read_table(path)), None)
                except AssayError:
                    continue
                names = [str(name) for name in row.fields] if isinstance(row, Record) else []
                found = find_columns(names, COLUMNS, given)
                if found["query"] in names and (found["ids"] in names or found["doc_id"] in names):
                    yield relative
