"""`assay init`: an assay.toml and a CI job for the project in this folder."""

import ast
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from textwrap import indent
from typing import Annotated

from assay.cli.console import Unwrapped, say
from assay.cli.verb import Result, argument, option, setting_option, switch
from assay.data.load import require_dataset
from assay.data.question_table import COLUMNS
from assay.data.table import find_columns, parse_columns, read_json, read_table
from assay.data.text_file import Record, plain_file
from assay.errors import AssayError, UsageError, did_you_mean
from assay.files import PROJECT_FILE, atomic_write, read_file, read_text_file
from assay.run.provenance import read_git
from assay.targets.target_kinds import TARGET_KINDS, parse_target

SETTINGS = """\
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

_EVALUATE = """\
assay doctor app
code=0
assay eval app --compare-to @BRANCH@ --allow-first-run --fail-on-regression \\
  --junit assay-junit.xml --markdown @SUMMARY@ || code=$?
if [ "$code" -le 1 ]; then assay report --html assay.html; fi
exit "$code"
"""

GITHUB = """\
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
@EVALUATE@
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: assay
          path: |
            assay.html
            assay-junit.xml
"""

GITLAB = """\
# Measures the target `app` of assay.toml on every merge request. Written by `assay init`.
assay:
  image: python:@PYTHON@
  timeout: 30 minutes
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  # The runs of @BRANCH@, which merge requests are compared with.
  cache:
    key: assay-$CI_COMMIT_REF_SLUG
    fallback_keys: [assay-@BRANCH@]
    paths: [runs/]
  script:
    - @INSTALL@
@START@    - |
@EVALUATE@
  artifacts:
    when: always
    paths: [assay.html, assay.md]
    reports:
      junit: assay-junit.xml
"""

_START = {
    "github": """\
      # `app` is a service: start it here, in the background; assay waits until it is ready.
      # - run: python server.py &
""",
    "gitlab": """\
    # `app` is a service: start it here, in the background; assay waits until it is ready.
    # - python server.py &
""",
}


def render_ci(system: str, *, branch: str, python: str, install: str, service: bool) -> str:
    """The job for `github` or `gitlab`.

    It compares with `branch`, and runs the command `install` on a `python` such as 3.12;
    `service` says whether it has to start the target.
    """
    github = system == "github"
    summary = '"$GITHUB_STEP_SUMMARY"' if github else "assay.md"
    script = _fill(_EVALUATE, BRANCH=branch, SUMMARY=summary)
    return _fill(
        GITHUB if github else GITLAB,
        BRANCH=branch,
        PYTHON=python,
        INSTALL=install,
        START=_START[system] if service else "",
        EVALUATE=indent(script, " " * (10 if github else 6)).rstrip(),
    )


def _fill(template: str, **values: str) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


_QUERY_NAMES = ("query", "question", "q", "text", "search_text", "prompt")
_COUNT_NAMES = ("top_k", "k", "limit", "n", "size", "num_results", "max_results")
_SEARCH_NAMES = ("search", "find", "retrieve", "query", "answer", "ask", "run")
_MCP_FILES = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
_DATA_FOLDERS = (".", "data", "eval", "evals", "evaluation", "tests", "tests/data")
_MAX_FILES = 200
_MAX_BYTES = 1_000_000
_TABLES = (".csv", ".tsv", ".jsonl")
_SKIPPED = re.compile(r"(test_.*|conftest|setup|.*_test)\.py")


SYSTEMS = ("github", "gitlab", "none")
_EXAMPLE = "notes"
_MAIN_BRANCHES = ("main", "master", "trunk", "develop")
_EXTRAS = {
    "builtin:dense": "search",
    "builtin:hybrid": "search",
    "builtin:tuned": "tuned",
    "mcp": "mcp",
    "mcp-stdio": "mcp",
    "nextcloud": "mcp",
    "purple": "all",
}
"""What a job installs besides the core, by the kind of a target or by the target."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A target or a data set of the project."""

    value: str  # what `assay eval` takes
    why: str  # where it comes from, for people
    extra: str = ""  # the extra of the package that it needs


def init(
    target: Annotated[
        str | None,
        argument(
            "TARGET",
            "What to measure: a URL (with {query} in it, or the address of an agent) or any other "
            "target. Default: an MCP configuration or a search function of the project.",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        option(
            "The questions. Default: a table of questions or a folder in BEIR format that is "
            "found, else notes.",
            metavar="NAME|PATH",
        ),
    ] = None,
    columns: Annotated[list[str] | None, setting_option("columns", variable=None)] = None,
    ci: Annotated[
        str | None,
        option(
            "The CI system to write a job for: github, gitlab or none. Default: that of the "
            "project's files or remote.",
            metavar="SYSTEM",
        ),
    ] = None,
    force: Annotated[
        bool, switch("--force", "Replace files that exist; each is kept as FILE.bak.")
    ] = False,
) -> Result:
    """Write an assay.toml and a CI job for this project.

    Finds a search function f(query, top_k), an MCP configuration and questions in the working
    folder. A file that exists is kept, unless --force is given.
    """
    folder, columns = Path.cwd(), columns or []
    if ci is not None and ci not in SYSTEMS:
        hint = did_you_mean(ci, SYSTEMS)
        raise UsageError(f"--ci {ci!r} is not one of {', '.join(SYSTEMS)}{hint}")
    measured = find_target(folder) if target is None else _given_target(target)
    others: list[str] = []
    if dataset is not None:
        require_dataset(dataset)
        data = Detected(dataset, "given")
    elif found := list(islice(find_datasets(folder, columns), 6)):
        data, others = found[0], [each.value for each in found[1:]]
    else:
        why = "no questions were found: this is Assay's example; see docs/data.md"
        data = Detected(_EXAMPLE, why)
    named = f"columns = [{', '.join(map(json.dumps, columns))}]\n" if columns else ""
    settings = _fill(
        SETTINGS,
        DATASET=json.dumps(data.value),  # JSON's escapes are TOML's
        DATASET_IS=" ".join(data.why.split()),
        TARGET=json.dumps(measured.value),
        TARGET_IS=" ".join(measured.why.split()),
        COLUMNS=named,
    )
    files = {PROJECT_FILE: settings}
    system = ci or find_ci(folder)
    if system in ("github", "gitlab"):
        place, text = _job(system, folder, measured)
        files[place] = text
    written = _write(files, folder, force)
    notes = [f"target: {measured.value} ({measured.why})", f"dataset: {data.value} ({data.why})"]
    if data.value == _EXAMPLE and dataset is None:
        notes += [
            f"not understood as questions: {table}; name its columns: --columns query=…,ids=…"
            for table in islice(other_tables(folder), 3)
        ]
    if others:
        notes.append(f"other questions that were found: {', '.join(others)}; --dataset chooses")
    notes += [f"wrote {name}" for name in written]
    if system is None:
        notes.append("no CI system was found: --ci github or --ci gitlab writes a job for one")
    if _git_takes_runs(folder):
        notes.append("runs/ holds your questions and results: add it to .gitignore")
    if any(name.startswith(".gitlab/") for name in written):
        notes.append("include the job in .gitlab-ci.yml:  include: {local: .gitlab/assay.yml}")
    value = {"target": measured.value, "dataset": data.value, "written": written}
    commands = [Unwrapped("assay doctor app"), Unwrapped("assay eval app")]
    return Result(value, commands, notes=notes)


def _git_takes_runs(folder: Path) -> bool:
    ignored = folder / ".gitignore"
    lines = read_file(ignored).splitlines() if ignored.is_file() else []
    is_ignored = any(line.strip().strip(b"/") == b"runs" for line in lines)
    return (folder / ".git").exists() and not is_ignored


def _given_target(given: str) -> Detected:
    if given.startswith(("http://", "https://")) and "{query}" in given:
        given = f"rest:{given}"
    parsed = parse_target(given)
    extra = _EXTRAS.get(parsed.kind) or _EXTRAS.get(f"{parsed.kind}:{parsed.address}", "")
    return Detected(given, "given", extra)


def _job(system: str, folder: Path, target: Detected) -> tuple[str, str]:
    """Where the job goes, and its text. A pipeline of GitLab that exists is left alone."""
    git = read_git(folder)
    branch = git.branch if git is not None and git.branch in _MAIN_BRANCHES else "main"
    kind = TARGET_KINDS[parse_target(target.value).kind]
    text = render_ci(
        system,
        branch=branch or "main",
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        install=_install(folder, target),
        service=not kind.runs_code and not kind.searches_dataset,
    )
    if system == "github":
        return ".github/workflows/assay.yml", text
    own = (folder / ".gitlab-ci.yml").is_file()
    return (".gitlab/assay.yml" if own else ".gitlab-ci.yml"), text


def _install(folder: Path, target: Detected) -> str:
    """The command that brings Assay and what the project's own code needs."""
    words = ["agent-assay" + (f"[{target.extra}]" if target.extra else "")]
    if (folder / "requirements.txt").is_file():
        words += ["-r", "requirements.txt"]
    elif (folder / "pyproject.toml").is_file() or (folder / "setup.py").is_file():
        words += ["."]
    return f"pip install {shlex.join(words)}"


def _write(files: dict[str, str], folder: Path, force: bool) -> list[str]:
    kept = [] if force else [name for name in files if (folder / name).exists()]
    if len(kept) == len(files):
        what = "exists; pass --force to replace it" if len(kept) == 1 else "exist; pass --force"
        raise UsageError(f"{' and '.join(kept)} {what}")
    for name in kept:
        say(f"{name} exists and was kept; --force replaces it")
    written = [name for name in files if name not in kept]
    for name in written:
        path, content = folder / name, files[name].encode()
        try:
            if path.exists() and (before := read_file(path)) != content:
                copies = (path.with_name(f"{path.name}.bak{number or ''}") for number in count())
                copy = next(each for each in copies if not each.exists())
                atomic_write(copy, before)
                say(f"the {name} before is now {copy.relative_to(folder)}")
            atomic_write(path, content)
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror}") from None
    return written


def find_target(folder: Path) -> Detected:
    """What `assay init` measures: an MCP server, a search function, or an example to replace."""
    nothing = Detected("builtin:bm25", "no target was found in this project: write yours here")
    return find_mcp_server(folder) or find_function(folder) or nothing


def find_mcp_server(folder: Path) -> Detected | None:
    """The first server of an MCP configuration that agents of this project use."""
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
    remote = (git.remote or "") if (git := read_git(folder)) else ""
    host = re.sub(r"^\w+://|^[^@/]+@", "", remote).partition("/")[0].partition(":")[0].lower()
    if "gitlab" in host or os.environ.get("GITLAB_CI"):
        return "gitlab"
    return "github" if "github" in host else None
