"""What is set up here: settings with the source that won, versions, cache, data sets."""

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

_PACKAGES = (
    *("agent-assay", "a2a-sdk", "mcp", "httpx", "starlette", "uvicorn"),
    *("qdrant-edge-py", "onnxruntime", "lightgbm", "PyStemmer", "numpy"),
)
_SECRET = ("TOKEN", "PASSWORD", "SECRET", "KEY")
# Read where they are needed and not by an option.
_PLAIN_VARIABLES = (
    *("ASSAY_CACHE", "ASSAY_TOKEN", "ASSAY_ADMIN_TOKEN", "AGENT_TOKEN", "ASSAY_ALLOWED_HOSTS"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One option of one verb. `source` is default, assay.toml or the environment's variable."""

    verb: str
    option: str
    value: str
    source: str


def examine_installation(root: Any, as_json: bool) -> int:
    """`root` is the context of the whole command line, which knows every verb and assay.toml."""
    settings = list(_settings(root))
    cache, problem = _cache()
    facts = {
        "settings": [asdict(each) for each in settings],
        "unread_variables": _unread(root),
        "targets": {
            kind.name: {"syntax": kind.syntax, "description": kind.description}
            for kind in TARGET_KINDS.values()
        },
        "versions": dict(_versions()),
        "cache": cache,
        "datasets": dict(_datasets(problem)),
        "problems": [problem] if problem else [],
    }
    if as_json:
        print_json(facts)
    else:
        show(*_rendered(facts))
    return 1 if problem else 0


def _settings(root: Any) -> Iterator[Setting]:
    yield from _settings_of(root.command, root.default_map or {}, "")


def _settings_of(group: Any, from_file: dict[str, Any], path: str) -> Iterator[Setting]:
    for name, command in sorted(group.commands.items()):
        verb, own = f"{path} {name}".strip(), from_file.get(name, {})
        if hasattr(command, "commands"):
            yield from _settings_of(command, own, verb)
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


def _unread(root: Any) -> list[str]:
    """Variables that look like ours and set nothing: most often a slip of the pen."""
    known = set(_PLAIN_VARIABLES)
    for command in root.command.commands.values():
        for parameter in command.params:
            variables = parameter.envvar or []
            known.update([variables] if isinstance(variables, str) else variables)
    return sorted(name for name in os.environ if name.startswith("ASSAY_") and name not in known)


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", f"{platform.python_version()} ({sys.executable})"
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, "not installed"


def _cache() -> tuple[str, str]:
    """The cache folder, and what is wrong with it."""
    from assay.data.cache import cache_folder

    try:
        return str(cache_folder()), ""
    except DataError as error:
        return os.environ.get("ASSAY_CACHE", ""), str(error)


def _datasets(cache_problem: str) -> Iterator[tuple[str, str]]:
    yield "notes", "comes with Assay"
    named = os.environ.get("NFCORPUS_ARCHIVE")
    if named:
        yield "nfcorpus", _archive_state(Path(named).expanduser(), "NFCORPUS_ARCHIVE")
    elif cache_problem:
        yield "nfcorpus", "not there: the cache cannot be used"
    else:
        from assay.data.cache import cache_folder

        yield "nfcorpus", _archive_state(cache_folder() / "nfcorpus.zip", "the cache")


def _archive_state(path: Path, where: str) -> str:
    """Never fetches anything: it only looks."""
    import hashlib

    from assay.data.nfcorpus import HASHES

    if not path.is_file():
        return f"not there; {where} would have it at {path}"
    with path.open("rb") as stream:
        right = hashlib.file_digest(stream, "sha256").hexdigest() == HASHES["sha256"]
    return f"{path}, from {where}" if right else f"{path} is damaged or something else"


def _rendered(facts: dict[str, Any]) -> Iterator[Any]:
    from rich.table import Table
    from rich.text import Text

    from assay.cli.doctor import labelled

    yield Text("settings in force", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("verb", "option", "value", "set by"):
        table.add_column(heading, overflow="fold")
    for each in facts["settings"]:
        if each["verb"] == "eval" or each["source"] != "default":
            table.add_row(*(Text(each[key]) for key in ("verb", "option", "value", "source")))
    yield table
    yield Text("Options of other verbs are shown where they are set; --json has all.", "dim")
    for name in facts["unread_variables"]:
        yield labelled("warning", f"{name} is set, but no option is read from it", "yellow")
    yield from ("", Text("targets", style="bold"))
    for name, kind in facts["targets"].items():
        yield labelled(name, f"{kind['syntax']}: {kind['description']}")
    yield from ("", Text("versions", style="bold"))
    for name, version in facts["versions"].items():
        yield labelled(name, version)
    yield from ("", Text("data", style="bold"), labelled("cache", facts["cache"]))
    for name, state in facts["datasets"].items():
        yield labelled(name, state)
    for problem in facts["problems"]:
        yield from ("", labelled("problem", problem, "red"))
