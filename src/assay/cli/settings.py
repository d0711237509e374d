"""`assay.toml` here or in a folder above: defaults for options, below flags and the environment.

dataset = "notes"        # for every verb that has such an option, and does not read it from a run

[eval]                   # for one verb
top_k = 10
gate = ["ndcg@10>=0.30", "success_rate>=0.99"]   # a single one needs no list

[serve.purple]           # for a verb of a group
mode = "bm25"

[target.docs]            # assay eval docs
target = "rest:http://localhost:9200"
preset = "opensearch:docs"
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from assay.cli.help import all_commands
from assay.cli.old_options import current_keys
from assay.errors import UsageError, did_you_mean
from assay.files import PROJECT_FILE, find_project_file, read_project_file
from assay.run.settings import command_settings, read_option_table

if TYPE_CHECKING:
    from assay.run.config import RunConfig


# Verbs whose data set is that of the runs, labels or report that they are given, or is found, or is
# an argument: the one at the top level of the file may be another. `[merge]` can name one still.
_OWN_DATA = ("audit", "data", "init", "judge", "merge")
_OF_DATA = frozenset({"dataset", "columns", "split"})

_KINDS: Mapping[type, str] = {int: "an integer", float: "a number", bool: "true or false"}


def read_settings(root: Any, folder: Path | None = None) -> dict[str, Any]:
    """Defaults for each verb of `root`, the command of the app, in the form that typer expects."""
    content = read_project_file(folder)
    if isinstance(content.get("target"), dict):
        del content["target"]  # [target.NAME]: see `named_target`
    return _defaults(root, {}, content, "")


def _from_project(value: Any, name: str, hint: Any) -> Any:
    """A path of the file, which is relative to the file, seen from the working folder."""
    path = find_project_file()
    if path is None or path.parent == Path.cwd() or not isinstance(value, str):
        return value
    place = path.parent / value
    is_path = hint in (Path, Path | None) or (name == "dataset" and place.exists())
    return str(place) if is_path else value


def _defaults(
    command: Any, inherited: Mapping[str, Any], table: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Settings at the top level apply to every verb that has the option."""
    verbs = getattr(command, "commands", {})
    below = [each for _, each in all_commands(command)] if verbs else [command]
    known = {param.name for each in below for param in each.params}
    own = {}
    inner = {}
    for key, value in current_keys(table, sorted(known)).items():
        name = _name(key)
        if name == "mapping" and name not in known:
            name = "map"  # the earlier key of --map
        if isinstance(value, dict) and (key in verbs or name not in known):
            inner[key] = value
        else:
            own[name] = value
    for name in own:
        if name not in known:
            place = f"[{where}] " if where else ""
            hint = did_you_mean(name, known)
            raise UsageError(
                f"{PROJECT_FILE}: {place}{name!r} is not an option; see: assay COMMAND --help{hint}"
            )
    for verb in inner:
        if verb not in verbs:
            hint = did_you_mean(verb, verbs)
            raise UsageError(f"{PROJECT_FILE}: unknown command {verb!r}; see: assay --help{hint}")
    values = {**inherited, **own}
    if not verbs:
        return _values_for(command, values)
    general = {name: value for name, value in values.items() if name not in _OF_DATA}
    return {
        verb: _defaults(
            each,
            general if not where and verb in _OWN_DATA else values,
            inner.get(verb, {}),
            f"{where}.{verb}".strip("."),
        )
        for verb, each in verbs.items()
    }


def _values_for(command: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a verb's own options. Raises `UsageError` for one of the wrong kind.

    typer would blame an option or a variable, not the file; and it would take a single text for a
    list of letters, and a list for a text.
    """
    values: dict[str, Any] = {}
    for param in command.params:
        name = param.name
        if name not in given:
            continue
        value = given[name]
        if getattr(param, "multiple", False) or param.nargs != 1:
            if isinstance(value, dict):
                value = [f"{key}={text}" for key, text in value.items()]
            several = value if isinstance(value, list) else [value]
            values[name] = [str(each) for each in several]
            continue
        if isinstance(value, list):
            raise UsageError(
                f"{PROJECT_FILE}: {name!r} takes one value, got a list of {len(value)}"
            )
        hint = get_type_hints(command.callback)[name]
        for kind, words in _KINDS.items():
            if hint in (kind, kind | None) and not _fits(value, kind):
                raise UsageError(f"{PROJECT_FILE}: {name!r} must be {words}, got {value!r}")
        values[name] = _from_project(value, name, hint)
    return values


def _fits(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    try:
        kind(str(value))
    except ValueError:
        return False
    return True


def _name(key: str) -> str:
    return key.replace("-", "_")


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """A target and its options, by the names of the parameters of `assay eval`."""

    target: str
    options: dict[str, Any] = field(default_factory=dict)


def named_target(name: str, folder: Path | None = None) -> NamedTarget | None:
    """The target that assay.toml calls `name`; None if `name` is not a plain name of the file.

    Raises `UsageError` for a table with an unknown key or a value of the wrong type, and for a
    plain name that only resembles one of the file.
    """
    if not name or ":" in name or Path(name).is_file():  # a table, meant as --dataset
        return None
    tables = read_project_file(folder).get("target")
    if not isinstance(tables, dict) or not tables:
        return None
    table = tables.get(name)
    if not isinstance(table, dict):
        hint = did_you_mean(name, tables)
        raise UsageError(
            f"{PROJECT_FILE} has no [target.{name}]; it has: {', '.join(tables)}{hint}"
        )
    target = table.get("target")
    if not isinstance(target, str) or not target:
        raise UsageError(
            f'{PROJECT_FILE}: [target.{name}] needs target = "rest:URL", or any other target'
        )
    known = [setting.param for setting in command_settings()]
    table = current_keys(table, known)
    options = read_option_table(table, f"{PROJECT_FILE}: [target.{name}]", "target")
    return NamedTarget(target, options)


def named_configs(folder: Path | None = None) -> "dict[str, RunConfig]":
    """Every target of assay.toml with its settings, by name. Raises `UsageError`."""
    from assay.run.config import RunConfig

    names = {setting.param: setting for setting in command_settings()}
    found = {}
    tables = read_project_file(folder).get("target")
    for name in tables if isinstance(tables, dict) else ():
        if named := named_target(name, folder):
            values = {names[param].name: value for param, value in named.options.items()}
            found[name] = RunConfig(target=named.target, **values)
    return found
