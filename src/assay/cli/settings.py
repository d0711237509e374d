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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.old_options import instead_of
from assay.cli.verb import VerbCommand, VerbGroup
from assay.errors import UsageError, did_you_mean
from assay.files import PROJECT_FILE, find_project_file, read_project_file
from assay.run.config import command_settings, named_target

if TYPE_CHECKING:
    from assay.run.config import RunConfig

Table = Mapping[str, Any]
# Verbs whose data set is that of the runs, labels or report that they are given, or is found, or is
# an argument: the one at the top level of the file may be another. `[merge]` can name one still.
_OWN_DATA = ("audit", "data", "init", "judge", "merge")
_OF_DATA = frozenset({"dataset", "columns", "split"})
# Keys whose value may be a table; any other table is that of a verb.
_TABLES = ("judge_set", "bm25", "request", "columns", "map", "tag")


def verb_defaults(command: VerbCommand, context: click.Context) -> dict[str, Any]:
    """What assay.toml says for the options of the verb that is called. Raises `UsageError`."""
    content, root = _content(), context.find_root().command
    words = context.command_path.split()[1:]
    if not content or not words or not isinstance(root, VerbGroup):
        return {}
    _require_tables(root, content)
    if not _options_in(content).keys() <= _params(command).keys():  # perhaps those of other verbs
        _require_keys(content, (each for _, each in root.all_verbs()))
    return _verb_values(command, words, content)


def read_settings(root: VerbGroup, folder: Path | None = None) -> dict[tuple[str, ...], Table]:
    """What assay.toml says for every verb, by the words that call it. Raises `UsageError`."""
    content = _content(folder)
    _require_tables(root, content)
    every = dict(root.all_verbs())
    _require_keys(content, every.values())
    return {words: _verb_values(command, words, content) for words, command in every.items()}


def _content(folder: Path | None = None) -> Table:
    """The file without [target.NAME]: see `named_target`."""
    content = read_project_file(folder)
    return {k: v for k, v in content.items() if k != "target" or not isinstance(v, dict)}


def _verb_values(command: VerbCommand, words: Sequence[str], content: Table) -> dict[str, Any]:
    """The values for a verb: those of the top level, then those of its tables."""
    params, values, table = _params(command), _options_in(content), content
    if words[0] in _OWN_DATA:
        values = {name: value for name, value in values.items() if name not in _OF_DATA}
    for word in words:
        table = table.get(word, {})
        values |= _options_in(table)
    _require_keys(table, [command], place=f"[{'.'.join(words)}] ")
    return {
        params[name].name or "": _value(params[name], name, value)
        for name, value in values.items()
        if name in params
    }


def _params(command: click.Command) -> dict[str, click.Parameter]:
    """The options of a verb by their keys: the names of flags, and those of parameters."""
    keys = ((key, param) for param in command.params for key in (*param.opts, param.name or ""))
    return {key.lstrip("-").replace("-", "_"): param for key, param in keys}


def _options_in(table: Table) -> dict[str, Any]:
    """The options of a table, without the tables of verbs."""
    found = {key.replace("-", "_"): value for key, value in table.items()}
    return {k: value for k, value in found.items() if not isinstance(value, dict) or k in _TABLES}


def _require_keys(table: Table, commands: Iterable[click.Command], place: str = "") -> None:
    known = {name for each in commands for name in _params(each)}
    for name in _options_in(table).keys() - known:
        hint = instead_of(f"--{name.replace('_', '-')}")
        hint = hint or f"see: assay COMMAND --help{did_you_mean(name, known)}"
        raise UsageError(f"{PROJECT_FILE}: {place}{name!r} is not an option; {hint}")


def _require_tables(group: VerbGroup, table: Table) -> None:
    """Raise `UsageError` for a table that no verb has."""
    for name, inner in table.items():
        if not isinstance(inner, dict) or name.replace("-", "_") in _TABLES:
            continue
        if name not in group.verbs:
            hint = did_you_mean(name, group.verbs)
            raise UsageError(f"{PROJECT_FILE}: unknown command {name!r}; see: assay --help{hint}")
        if isinstance(verb := group.verbs[name], VerbGroup):
            _require_tables(verb, inner)


def _value(param: click.Parameter, name: str, value: Any) -> Any:
    """The value as click takes it: click would blame an option, not the file, for a wrong one.

    A path is relative to the file, which may be in a folder above.
    """
    if param.multiple or param.nargs != 1:
        if isinstance(value, dict):
            return [f"{key}={text}" for key, text in value.items()]
        return [str(text) for text in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        raise UsageError(f"{PROJECT_FILE}: {name!r} takes one value, got a list of {len(value)}")
    if isinstance(value, dict):
        value = json.dumps(value)
    try:
        param.type.convert(str(value), param, None)
    except click.BadParameter as error:
        raise UsageError(f"{PROJECT_FILE}: {name!r}: {error}") from None
    path = find_project_file()
    if path is None or path.parent == Path.cwd() or not isinstance(value, str):
        return value
    place = path.parent / value
    is_path = isinstance(param.type, click.Path) or (name == "dataset" and place.exists())
    return str(place) if is_path else value


def named_configs(folder: Path | None = None) -> "dict[str, RunConfig]":
    """Every target of assay.toml with its settings, by name. Raises `UsageError`."""
    from assay.run.config import RunConfig

    names = {setting.param: setting.name for setting in command_settings()}
    tables = read_project_file(folder).get("target")
    found = {}
    for name in tables if isinstance(tables, dict) else ():
        if named := named_target(name, folder):
            values = {names[param]: value for param, value in named[1].items()}
            found[name] = RunConfig(target=named[0], **values)
    return found
