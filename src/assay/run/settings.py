"""Derives options, form fields, requests and resume rules from the option table of `RunConfig`.

The command line's parameters, the form's fields, the words of the command that repeats a run, what
`--resume` may change and what shards must agree on: none of these lists a setting by name.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.errors import RunError, UsageError, did_you_mean
from assay.files import PROJECT_FILE, read_project_file
from assay.llm.passages import EXTRACTIVE
from assay.run.config import MAY_HOLD_SECRETS, RunConfig, masked, settings
from assay.run.option import Option, read_options


def command_settings() -> list[Option]:
    """Those of `assay eval`, in order."""
    return [setting for setting in form_settings() if not setting.as_tag]


def form_settings() -> list[Option]:
    """Those of the form that starts an evaluation, in order."""
    return [setting for setting in settings().values() if setting.cli]


def arguments(config: RunConfig) -> list[tuple[str, str | None]]:
    """Flags with their values that repeat this run; a flag without a value is a switch.

    Every setting that means something is spelled out, whatever the environment says. Secrets are
    masked.
    """
    words: list[tuple[str, str | None]] = []
    for setting in command_settings():
        value, needs = getattr(config, setting.name), setting.needs
        if needs and not getattr(config, needs):  # it has no meaning
            continue
        if setting.kind is bool:
            if flag := setting.flag if value else setting.negative_flag:
                words.append((flag, None))
        elif setting.kind is tuple:
            words += [(setting.flag, str(each)) for each in value]
        elif setting.name == "judge":  # left out, the environment would choose one
            words.append((setting.flag, str(value) or EXTRACTIVE))
        elif text := setting.format(value):
            words.append((setting.flag, text))
    for setting in form_settings():
        if setting.as_tag and (value := getattr(config, setting.name)) != setting.default:
            words.append(("--tag", f"{setting.name}={value}"))
    if config.num_shards > 1:
        words.append(("--shard", f"{config.shard_index + 1}/{config.num_shards}"))
    return words


def parse_shard(text: str) -> tuple[int, int]:
    """`shard_index` and `num_shards` of `I/N`, where I counts from 1. Raises `UsageError`."""
    index, slash, count = text.strip().partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise UsageError(
            f"--shard {text!r} is not a shard; write I/N with I from 1 to N, such as --shard 1/4"
        )
    return int(index) - 1, int(count)


def read_option_table(table: Mapping[str, Any], where: str, *others: str) -> dict[str, Any]:
    """The values of settings in a table of a TOML file, by the names of the command's parameters.

    `others` are keys that the table may have as well. Raises `UsageError`, which names `where`,
    for an unknown key or a value of the wrong type.
    """
    known = {setting.param: setting for setting in command_settings()}
    own = {key: value for key, value in table.items() if key not in others}
    return read_options(known, own, where, others)


def named_target(name: str, folder: Path | None = None) -> tuple[str, dict[str, Any]] | None:
    """The target that assay.toml calls `name` and its options, by the parameters of `assay eval`.

    None if `name` is not a plain name of the file. Raises `UsageError` for a table with an unknown
    key or a value of the wrong type, and for a plain name that only resembles one of the file.
    """
    if not name or ":" in name or Path(name).is_file():  # a table, meant as --dataset
        return None
    tables = read_project_file(folder).get("target")
    if not isinstance(tables, dict) or not tables:
        return None
    if not isinstance(table := tables.get(name), dict):
        names, hint = ", ".join(tables), did_you_mean(name, tables)
        raise UsageError(f"{PROJECT_FILE} has no [target.{name}]; it has: {names}{hint}")
    where = f"{PROJECT_FILE}: [target.{name}]"
    if not isinstance(target := table.get("target"), str) or not target:
        raise UsageError(f'{where} needs target = "rest:URL", or any other target')
    return target, read_option_table(table, where, "target")


def read_form(given: Mapping[str, str]) -> RunConfig:
    """The settings in a form's fields. Raises `UsageError`."""
    values = {
        setting.name: setting.read(given.get(setting.name, "").strip())
        for setting in form_settings()
        if setting.name in given or setting.kind is bool
    }
    return RunConfig(target=given.get("target", "").strip(), **values)


def form_fields(config: RunConfig) -> dict[str, str]:
    """The text of every field of the form for this run."""
    return {
        "target": config.target,
        **{each.name: each.format(getattr(config, each.name)) for each in form_settings()},
    }


def resumed(config: RunConfig, changes: Mapping[str, Any], run: str) -> RunConfig:
    """The settings of a resumed run: its own, with the `changes` that are allowed.

    Raises `UsageError` if a change would give other scores than the run was started for.
    """
    allowed = {}
    for name, value in changes.items():
        setting = settings().get(name)
        if setting is not None and setting.on_resume == "free":
            allowed[name] = value
            continue
        # Compared as it was stored: the run has its secrets masked.
        given = masked(value)
        if str(given) != str(getattr(config, name)):
            raise UsageError(
                f"run {run!r} was started with {name} {getattr(config, name)!r}, not {given!r}; "
                "omit it to resume the run, or start a new one"
            )
        if name in MAY_HOLD_SECRETS:  # the run's own has them masked
            allowed[name] = given
    return config.with_changes(**allowed)


def require_same(configs: Mapping[str, RunConfig]) -> None:
    """Raise `RunError` if runs, by their names, are not shards of one evaluation."""
    (first_name, first), *others = configs.items()
    for name, config in others:
        for setting in settings().values():
            value, expected = getattr(config, setting.name), getattr(first, setting.name)
            if setting.same_in_shards and value != expected:
                raise RunError(
                    f"run {name!r} has {setting.name} {value}, run {first_name!r} has {expected}: "
                    "not shards of one evaluation"
                )


def environment_defaults(names: Iterable[str]) -> dict[str, Any]:
    """The values that variables give to settings, by name; those without a variable are left out.

    Raises `UsageError`, which names the variable, for a value that the setting does not take.
    """
    found = {}
    for setting in (settings()[name] for name in names):
        if text := os.environ.get(setting.env or "", "").strip():
            found[setting.name] = setting.read(text, setting.env or "")
    return found


def request_settings() -> dict[str, Option]:
    """The settings that the A2A evaluator takes, by their key in its request."""
    every = settings().values()
    return {setting.request_field: setting for setting in every if setting.request_field}
