"""The installation: settings with their sources, targets, versions, cache and data sets."""

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from assay.agents.target_kinds import TARGET_KINDS
from assay.cli.console import print_json, show
from assay.errors import DataError
from assay.extras import PACKAGES

_PACKAGES = (
    *("agent-assay", "a2a-sdk", "mcp", "httpx", "starlette", "uvicorn"),
    *("qdrant-edge-py", "onnxruntime", "lightgbm", "PyStemmer", "numpy"),
)
_IMPORTED_AS = {"a2a-sdk": "a2a", "qdrant-edge-py": "qdrant_edge"}
_SECRET = ("TOKEN", "PASSWORD", "SECRET", "KEY")
# Read directly, without an option.
_PLAIN_VARIABLES = (
    *("ASSAY_CACHE", "ASSAY_TOKEN", "ASSAY_ADMIN_TOKEN", "ASSAY_ALLOWED_HOSTS", "ASSAY_THREADS"),
    *("ASSAY_GGUF_MODEL", "ASSAY_NOTE_MAPPING", "ASSAY_PUBMED_URL", "ASSAY_EMBEDDER_KEY"),
    "ASSAY_MODEL_URL",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One option of one verb. `source` is default, assay.toml or the environment's variable."""

    verb: str
    option: str
    value: str
    source: str


@dataclass(frozen=True)
class Installation:
    """What `assay doctor` prints without a URL, as its JSON has it."""

    settings: list[Setting]
    unread_variables: list[str]
    targets: dict[str, dict[str, str]]
    versions: dict[str, str]
    cache: str
    datasets: dict[str, str]
    kept_files: dict[str, str]
    """Of `--deep`: each index, cache and model, and whether its checksums match."""
    problems: list[str]


def examine_installation(root: Any, as_json: bool, *, deep: bool = False) -> int:
    """Print what is set up here; the exit code.

    Parameters:
        root: the context of the whole command line, which knows every verb and assay.toml.
        as_json: print JSON.
        deep: read and hash everything in the cache.
    """
    cache, problem = _cache()
    checked = _check_kept_files() if deep and not problem else {}
    problems = [problem] * bool(problem)
    problems += [f"{what}: {state}" for what, (state, damaged) in checked.items() if damaged]
    found = Installation(
        settings=list(_settings(root.command, root.default_map or {}, "")),
        unread_variables=_unread(root.command),
        targets={
            kind.name: {"syntax": kind.syntax, "description": kind.description}
            for kind in TARGET_KINDS.values()
        },
        versions=dict(_versions()),
        cache=cache,
        datasets=dict(_datasets(problem)),
        kept_files={what: state for what, (state, _) in checked.items()},
        problems=problems,
    )
    if as_json:
        print_json(asdict(found))
    else:
        show(*_rendered(found))
    return 1 if problems else 0


def _check_kept_files() -> dict[str, tuple[str, bool]]:
    """What is in the cache, its state in words, and whether it is damaged."""
    from assay.search.integrity import check_kept_files

    return {one.what: (one.state, bool(one.damage)) for one in check_kept_files()}


def _settings(group: Any, from_file: dict[str, Any], path: str) -> Iterator[Setting]:
    for name, command in sorted(group.commands.items()):
        verb, own = f"{path} {name}".strip(), from_file.get(name, {})
        if hasattr(command, "commands"):
            yield from _settings(command, own, verb)
            continue
        for parameter in command.params:
            if parameter.name not in ("help", "as_json", "json"):
                yield _setting(verb, parameter, own)


def _setting(verb: str, parameter: Any, from_file: dict[str, Any]) -> Setting:
    variables = parameter.envvar or []
    for variable in [variables] if isinstance(variables, str) else variables:
        if value := os.environ.get(variable):
            return Setting(verb, parameter.name, _shown(variable, value), variable)
    if parameter.name in from_file:
        value = str(from_file[parameter.name])
        return Setting(verb, parameter.name, _shown(parameter.name, value), "assay.toml")
    default = parameter.default
    return Setting(verb, parameter.name, "" if default is None else str(default), "default")


def _shown(name: str, value: str) -> str:
    hidden = any(word in name.upper() for word in _SECRET)
    return "(set, not shown)" if hidden else value[:200]


def _unread(group: Any) -> list[str]:
    """Variables that look like ours but set nothing: most often a typo."""
    known = {*_PLAIN_VARIABLES, *_variables(group)}
    return sorted(name for name in os.environ if name.startswith("ASSAY_") and name not in known)


def _variables(group: Any) -> Iterator[str]:
    for command in group.commands.values():
        if hasattr(command, "commands"):
            yield from _variables(command)
        for parameter in command.params:
            variables = parameter.envvar or []
            yield from [variables] if isinstance(variables, str) else variables


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", f"{platform.python_version()} ({sys.executable})"
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            extra = PACKAGES.get(_IMPORTED_AS.get(package, package))
            command = f"; run: pip install 'agent-assay[{extra}]'" if extra else ""
            yield package, f"not installed{command}"


def _cache() -> tuple[str, str]:
    """The cache folder, and what is wrong with it."""
    from assay.data.cache import cache_folder

    try:
        return str(cache_folder()), ""
    except DataError as error:
        return os.environ.get("ASSAY_CACHE", ""), str(error)


def _datasets(cache_problem: str) -> Iterator[tuple[str, str]]:
    yield "notes", "bundled with Assay"
    named = os.environ.get("NFCORPUS_ARCHIVE")
    if named:
        yield "nfcorpus", _archive_state(Path(named).expanduser(), "NFCORPUS_ARCHIVE")
    elif cache_problem:
        yield "nfcorpus", "not available: the cache cannot be used"
    else:
        from assay.data.cache import cache_folder

        yield "nfcorpus", _archive_state(cache_folder() / "nfcorpus.zip", "the cache")


def _archive_state(path: Path, where: str) -> str:
    """The state of the file, without downloading anything."""
    import hashlib

    from assay.data.nfcorpus import HASHES

    if not path.is_file():
        return f"not downloaded; {where} looks for it at {path}"
    with path.open("rb") as stream:
        right = hashlib.file_digest(stream, "sha256").hexdigest() == HASHES["sha256"]
    return f"{path}, from {where}" if right else f"{path} is damaged or another file"


def _rendered(found: Installation) -> Iterator[Any]:
    from rich.table import Table
    from rich.text import Text

    from assay.report.console import labeled

    yield Text("current settings", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("verb", "option", "value", "set by"):
        table.add_column(heading, overflow="fold")
    for each in found.settings:
        if each.verb == "eval" or each.source != "default":
            table.add_row(*map(Text, (each.verb, each.option, each.value, each.source)))
    yield table
    yield Text(
        "Options of other commands are listed only if they are set; --json lists all.", "dim"
    )
    for name in found.unread_variables:
        yield labeled("warning", f"{name} is set, but no option uses it", "yellow")
    yield from ("", Text("targets", style="bold"))
    for name, kind in found.targets.items():
        yield labeled(name, f"{kind['syntax']}: {kind['description']}")
    yield from ("", Text("versions", style="bold"))
    for name, version in found.versions.items():
        yield labeled(name, version)
    yield from ("", Text("data", style="bold"), labeled("cache", found.cache))
    for name, state in found.datasets.items():
        yield labeled(name, state)
    for name, state in found.kept_files.items():
        yield labeled(name, state)
    for problem in found.problems:
        yield from ("", labeled("problem", problem, "red"))
