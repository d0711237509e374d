"""Derives options, form fields, requests and resume rules from the option table of `RunConfig`.

The command line's parameters, the form's fields, the words of the command that repeats a run, what
`--resume` may change and what shards must agree on: none of these lists a setting by name.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from assay.errors import RunError, UsageError, did_you_mean
from assay.llm.passages import EXTRACTIVE
from assay.run.config import (
    MAY_HOLD_SECRETS,
    RunConfig,
    default_of,
    masked,
    option_table,
)
from assay.run.option import (
    Option,
    OptionPart,
    check_range,
    convert,
    field_types,
    format_value,
    from_text,
)

CHECKED = "on"
"""What a browser sends for a box that is ticked; for one that is not, it sends nothing."""


@dataclass(frozen=True, slots=True)
class RunSetting:
    """One option with the type and default of its field.

    `kind` is str, int, float, bool, tuple (of texts) or an `OptionPart`; `nullable` if None fits.
    """

    name: str
    option: Option
    kind: type
    nullable: bool
    default: Any

    @property
    def flag(self) -> str:
        """The command-line flag, `--top-k`."""
        return self.option.flag or f"--{self.name.replace('_', '-')}"

    @property
    def param(self) -> str:
        """The name in `assay.toml` and in the command's signature."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def env(self) -> str | None:
        """The environment variable, or None."""
        return f"ASSAY_{self.param.upper()}" if self.option.has_variable else None

    @property
    def is_part(self) -> bool:
        """Whether the option takes `KEY=VALUE,…`."""
        return issubclass(self.kind, OptionPart)

    @property
    def repeatable(self) -> bool:
        """Whether the flag may be given several times."""
        return self.kind is tuple or self.is_part

    @property
    def command_default(self) -> Any:
        """What the command line has if the flag is not given."""
        missing = self.nullable or self.option.optional or self.default in ("", ())
        return None if missing else self.default

    @property
    def help(self) -> str:
        """The help for a command that has the option that this one needs, too."""
        if not self.option.needs:
            return self.option.help
        words = self.option.help
        return f"With {settings()[self.option.needs].flag}: {words[0].lower()}{words[1:]}"

    @property
    def widget(self) -> str:
        """The form's control: `text`, `number`, `checkbox`, `select` or `lines`."""
        if self.option.choices:
            return "select"
        kinds = {bool: "checkbox", tuple: "lines", int: "number", float: "number"}
        return kinds.get(self.kind, "text")

    def parse(self, text: str) -> Any:
        """The value of a form field. Raises `UsageError`."""
        text = text.strip()
        if self.kind is bool:
            return text == CHECKED
        if self.kind is tuple:
            return tuple(line.strip() for line in text.splitlines() if line.strip())
        if self.is_part:
            return convert(self.name, text, (self.kind, False))
        return from_text(self.name, text, (self.kind, self.nullable))

    def format(self, value: Any) -> str:
        """The value as text for a form field; `parse` reads it back."""
        if self.kind is bool:
            return CHECKED if value else ""
        if self.kind is tuple:
            return "\n".join(map(str, value))
        return format_value(value)


@cache
def settings() -> dict[str, RunSetting]:
    """Every setting that has an option, by name, in the order of the fields."""
    kinds = field_types(RunConfig)
    return {
        name: RunSetting(name, option, *kinds[name], default_of(name))
        for name, option in option_table().items()
    }


def command_settings() -> list[RunSetting]:
    """Those of `assay eval`, in order."""
    return [
        setting
        for setting in settings().values()
        if setting.option.cli and not setting.option.as_tag
    ]


def form_settings() -> list[RunSetting]:
    """Those of the form that starts an evaluation, in order."""
    return [setting for setting in settings().values() if setting.option.label is not None]


def arguments(config: RunConfig) -> list[tuple[str, str | None]]:
    """Flags with their values that repeat this run; a flag without a value is a switch.

    Every setting that means something is spelled out, whatever the environment says. Secrets are
    masked.
    """
    words: list[tuple[str, str | None]] = []
    for setting in command_settings():
        value = getattr(config, setting.name)
        if not _has_meaning(setting, config):
            continue
        if setting.kind is bool:
            words.append((setting.flag if value else setting.flag.replace("--", "--no-", 1), None))
        elif setting.kind is tuple:
            words += [(setting.flag, str(each)) for each in value]
        elif setting.name == "judge":  # left out, the environment would choose one
            words.append((setting.flag, str(value) or EXTRACTIVE))
        elif setting.is_part:
            words += [(setting.flag, text)] if (text := str(value)) else []
        elif value is not None and (value != "" or setting.default != ""):
            words.append((setting.flag, setting.format(value)))
    for setting in settings().values():
        if setting.option.as_tag and (value := getattr(config, setting.name)) != setting.default:
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
    values = {}
    for key, value in table.items():
        if key in others:
            continue
        setting = known.get(key.replace("-", "_"))
        if setting is None:
            names = [*others, *known]
            hint = did_you_mean(key.replace("-", "_"), names)
            raise UsageError(f"{where} {key!r} is not one of {', '.join(names)}{hint}")
        values[setting.param] = _table_value(setting, value, f"{where} {key!r}")
    return values


def _table_value(setting: RunSetting, value: Any, where: str) -> Any:
    if setting.kind is tuple and isinstance(value, str):
        value = [value]
    if setting.name == "request" and isinstance(value, dict):
        value = json.dumps(value)
    if setting.kind is tuple and isinstance(value, dict):
        value = [f"{key}={text}" for key, text in value.items()]
    return convert(where, value, (setting.kind, False))


def _has_meaning(setting: RunSetting, config: RunConfig) -> bool:
    needs = setting.option.needs
    return not needs or (bool(getattr(config, needs)) and _has_meaning(settings()[needs], config))


def read_form(given: Mapping[str, str]) -> RunConfig:
    """The settings in a form's fields. Raises `UsageError`."""
    values = {
        setting.name: setting.parse(given.get(setting.name, ""))
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
    """The settings of a resumed run: its own, with `changes` where these are allowed.

    Raises `UsageError` if a change would give other scores than the run was started for.
    """
    allowed = {}
    for name, value in changes.items():
        setting = settings().get(name)
        if setting is not None and setting.option.on_resume == "free":
            allowed[name] = value
            continue
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
    """Raise `RunError` where runs, by their names, are not shards of one evaluation."""
    (first_name, first), *others = configs.items()
    for name, config in others:
        for setting in settings().values():
            value, expected = getattr(config, setting.name), getattr(first, setting.name)
            if setting.option.same_in_shards and value != expected:
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
        text = os.environ.get(setting.env or "", "").strip()
        if not text:
            continue
        try:
            kinds = (setting.kind, setting.nullable)
            value = from_text(setting.name, text, kinds) if setting.kind is bool else None
            value = setting.parse(text) if value is None else value
            check_range(setting.name, value, setting.option)
        except UsageError as error:
            raise UsageError(f"{setting.env}: {error}") from None
        found[setting.name] = value
    return found


def request_settings() -> dict[str, RunSetting]:
    """The settings that the A2A evaluator takes, by their key in its request."""
    return {
        setting.option.request_field: setting
        for setting in settings().values()
        if setting.option.request_field
    }


_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def option_schema(setting: RunSetting) -> dict[str, Any]:
    """The JSON Schema of a setting in assay.toml."""
    text = {"type": "string"}
    if setting.is_part:
        parts = field_types(setting.kind)
        keys = {name: {"type": _JSON_TYPES[kind]} for name, (kind, _) in parts.items()}
        table = {"type": "object", "properties": keys, "additionalProperties": False}
        found: dict[str, Any] = {"anyOf": [text, table]}
    elif setting.kind is tuple:
        found = {"anyOf": [text, {"type": "array", "items": text}, {"type": "object"}]}
    else:
        found = {"type": _JSON_TYPES[setting.kind]}
    limits = {"minimum": setting.option.low, "maximum": setting.option.high}
    found |= {name: bound for name, bound in limits.items() if bound is not None}
    if setting.option.choices:
        found["enum"] = list(setting.option.choices)
    return {**found, "description": setting.option.help}


def project_schema() -> dict[str, Any]:
    """The JSON Schema of assay.toml: options of a run at the top, in `[eval]`, `[target.NAME]`.

    Tables and keys of other verbs are allowed without a check.
    """
    options = {setting.param: option_schema(setting) for setting in command_settings()}
    table = {"type": "object", "properties": options}
    named = {
        "type": "object",
        "properties": {"target": {"type": "string"}, **options},
        "required": ["target"],
        "additionalProperties": False,
    }
    targets = {"type": "object", "additionalProperties": {"$ref": "#/$defs/target"}}
    return {
        "title": "assay.toml",
        "type": "object",
        "properties": {**options, "eval": table, "target": targets},
        "$defs": {"target": named},
    }
