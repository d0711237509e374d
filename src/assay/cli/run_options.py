"""Options of a command from the table of `RunConfig`: no command lists a setting by itself."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from assay.cli.settings import named_target
from assay.run.options import RunSetting

Command = Callable[..., None]


def with_options(settings: Sequence[RunSetting]) -> Callable[[Command], Command]:
    """Give a command one parameter for each setting, after its first two."""

    def decorate(command: Command) -> Command:
        own = list(inspect.signature(command, eval_str=True).parameters.values())
        fixed = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
        table = [_parameter(setting) for setting in settings]
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in fixed]
        parameters = [*named[:2], *table, *named[2:]]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def _parameter(setting: RunSetting) -> inspect.Parameter:
    kind: Any = list[str] if setting.kind is tuple else setting.kind
    default = setting.default
    if setting.nullable or setting.option.optional or default in ("", ()):
        kind, default = kind | None, None
    flags = [setting.flag]
    if setting.kind is bool:
        flags = [f"{setting.flag}/{setting.flag.replace('--', '--no-', 1)}"]
    option = typer.Option(
        *flags,
        help=setting.option.help,
        envvar=setting.env,
        metavar=setting.option.metavar,
        rich_help_panel=setting.option.group,
    )
    return inspect.Parameter(
        setting.param,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, option],
    )


def read_values(
    context: typer.Context, settings: Sequence[RunSetting], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of settings by their names in `RunConfig`, with defaults for what is not given."""
    values = {}
    for setting in settings:
        value = options[setting.param]
        if setting.kind is tuple:
            value = _repeated_values(context, setting, value or [])
        values[setting.name] = setting.default if value is None else value
    return values


def _repeated_values(
    context: typer.Context, setting: RunSetting, given: list[str]
) -> tuple[str, ...]:
    """The values of a repeatable option. typer splits a variable at blanks: it is read here."""
    source = context.get_parameter_source(setting.param)
    name = "" if source is None else source.name
    if name == "ENVIRONMENT" and setting.env:
        given = os.environ.get(setting.env, "").split(setting.option.separator)
    if setting.name == "gates" and name not in ("", "COMMANDLINE"):
        from assay.evaluation.gates import split_gates

        given = [gate for each in given for gate in split_gates(each)]
    return tuple(each.strip() for each in given if each.strip())


def use_named_target(
    context: typer.Context, target: str | None, options: dict[str, Any]
) -> str | None:
    """The target of `[target.NAME]` in assay.toml; its settings go into `options`.

    Flags and variables win over the table, the table over what the file says for the command.
    """
    found = named_target(target or "")
    if found is None:
        return target
    for param, value in found.options.items():
        source = context.get_parameter_source(param)
        if param in options and (
            source is None or source.name not in ("COMMANDLINE", "ENVIRONMENT")
        ):
            options[param] = value
    return found.target
