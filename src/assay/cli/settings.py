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

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.old_options import current_keys
from assay.cli.verb import VerbCommand, VerbGroup
from assay.errors import UsageError, did_you_mean
from assay.files import PROJECT_FILE, find_project_file, read_project_file
from assay.run.settings import command_settings, read_option_table

if TYPE_CHECKING:
    from assay.run.config import RunConfig


# Verbs whose data set is that of the runs, labels or report that they are given, or is found, or is
# an argument: the one at the top level of the file may be another. `[merge]` can name one still.
_OWN_DATA = ("audit", "data", "init", "judge", "merge")
_OF_DATA = frozenset({"dataset", "columns", "split"})


def verb_defaults(command: VerbCommand, context: click.Context) -> dict[str, Any]:
    """What assay.toml says for the options of the verb that is called. Raises `UsageError`."""
    content = _content()
    words = context.command_path.split()[1:]
    root = context.find_root().command
    if not content or not words or not isinstance(root, VerbGroup):
        return {}
    values = verb_values(command, words, content)
    _require_tables(root, content, "")
    if set(_own(content, _params(command))) - _params(command):  # perhaps of other verbs
        _require_keys(content, set().union(*(_params(each) for _, each in root.all_verbs())), "")
    return values


def read_settings(root: VerbGroup, folder: Path | None = None) -> dict[tuple[str, ...], Any]:
    """What assay.toml says for every verb, by the words that call it. Raises `UsageError`."""
    content = _content(folder)
    _require_tables(root, content, "")
    every = dict(root.all_verbs())
    _require_keys(content, set().union(*map(_params, every.values())), "")
    return {words: verb_values(command, words, content) for words, command in every.items()}


def _content(folder: Path | None = None) -> dict[str, Any]:
    content = read_project_file(folder)
    if isinstance(content.get("target"), dict):
        del content["target"]  # [target.NAME]: see `named_target`
    return content


def _params(command: click.Command) -> set[str]:
    """The keys for the options of a verb: the names of parameters and of flags."""
    flags = {flag.lstrip("-") for param in command.params for flag in param.opts}
    return {param.name or "" for param in command.params} | {_name(flag) for flag in flags}


def _name(key: str) -> str:
    return key.replace("-", "_")


def verb_values(
    command: VerbCommand, words: Sequence[str], content: Mapping[str, Any]
) -> dict[str, Any]:
    """The values for a verb: those of the top level, then those of its tables.

    Keys at the top level apply to every verb that has the option.
    """
    known = _params(command)
    values = {
        name: value
        for name, value in _own(content, known).items()
        if name in known and not (words[0] in _OWN_DATA and name in _OF_DATA)
    }
    table: Any = content
    for place, word in enumerate(words, 1):
        table = table.get(word, {})
        where = ".".join(words[:place])
        if place == len(words):
            _require_keys(table, known, where)
        values |= {name: value for name, value in _own(table, known).items() if name in known}
    return _values_for(command, values)


def _own(table: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The options of a table under the names of parameters, without the tables of verbs."""
    found = {}
    for key, value in current_keys(table, sorted(known)).items():
        name = _name(key)
        if name == "mapping" and name not in known:
            name = "map"  # the earlier key of --map
        if not isinstance(value, dict) or name in ("judge_set", "bm25", "request"):
            found[name] = value
    return found


def _require_keys(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in _own(table, known):
        if name not in known:
            place = f"[{where}] " if where else ""
            raise UsageError(
                f"{PROJECT_FILE}: {place}{name!r} is not an option; see: assay COMMAND --help"
                f"{did_you_mean(name, known)}"
            )


def _require_tables(group: VerbGroup, table: Mapping[str, Any], where: str) -> None:
    """Raise `UsageError` for a table that no verb has."""
    for name, inner in table.items():
        if not isinstance(inner, dict) or name.replace("-", "_") in ("judge_set", "bm25"):
            continue
        if name not in group.verbs:
            hint = did_you_mean(name, group.verbs)
            raise UsageError(f"{PROJECT_FILE}: unknown command {name!r}; see: assay --help{hint}")
        verb = group.verbs[name]
        if isinstance(verb, VerbGroup):
            _require_tables(verb, inner, name)


def _values_for(command: VerbCommand, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values as click takes them. Raises `UsageError` for one of the wrong kind.

    click would blame an option, not the file, and would take a single text for a list of letters.
    """
    values: dict[str, Any] = {}
    taken = {param.name for param in command.params}
    for param in command.params:
        name = param.name or ""
        flags = [_name(flag.lstrip("-")) for flag in param.opts if flag.startswith("--")]
        key = next((key for key in (name, *flags) if key in given), None)
        if key is None or (key != name and key in taken):
            continue
        value = given[key]
        if param.multiple or param.nargs != 1:
            if isinstance(value, dict):
                value = [f"{key}={text}" for key, text in value.items()]
            several = value if isinstance(value, list) else [value]
            values[name] = [str(text) for text in several]
            continue
        if isinstance(value, list):
            raise UsageError(
                f"{PROJECT_FILE}: {name!r} takes one value, got a list of {len(value)}"
            )
        if isinstance(value, dict):
            value = json.dumps(value)
        kind = _KINDS.get(type(param.type))
        if kind is not None and not _fits(value, kind):
            raise UsageError(f"{PROJECT_FILE}: {name!r} must be {_WORDS[kind]}, got {value!r}")
        values[name] = _from_project(value, name, param.type)
    return values


_KINDS = {click.IntRange: int, click.FloatRange: float, click.types.BoolParamType: bool}
_WORDS = {int: "an integer", float: "a number", bool: "true or false"}


def _from_project(value: Any, name: str, kind: "click.ParamType[Any]") -> Any:
    """A path of the file, which is relative to the file, seen from the working folder."""
    path = find_project_file()
    if path is None or path.parent == Path.cwd() or not isinstance(value, str):
        return value
    place = path.parent / value
    is_path = isinstance(kind, click.Path) or (name == "dataset" and place.exists())
    return str(place) if is_path else value


def _fits(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    try:
        kind(str(value))
    except ValueError:
        return False
    return True


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
