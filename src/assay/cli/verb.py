"""Verbs as functions: a command reads a signature, prints what the function returns, and exits.

    def compare(
        runs: list[str] = argument("RUN", "The runs to compare."),
        metric: str | None = option(None, "Compare by this metric.", metavar="NAME@K"),
    ) -> Result:
        "Compare runs query by query."
        found = compare_runs(runs, metric)
        return Result(found, [render(found)], exit_code=0 if found.same else 1)

`--json` prints `Result.value`; else `Result.text` is shown, or a line for each entry of the value.
`VerbGroup` imports the module of a verb when it is called, so `assay --help` imports none of them.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import click

from assay.cli.console import facts, print_json, say, show
from assay.cli.old_options import current_spelling, instead_of, rename_variables
from assay.errors import did_you_mean
from assay.run.config import settings
from assay.run.option import Group, Option

GROUPS: tuple[str, ...] = get_args(Group)
_SETTINGS_RULE = (
    "Every option can also be set as ASSAY_NAME in the environment (ASSAY_TOP_K=10, several values "
    "separated by ;) and as a key of assay.toml (top_k = 10)."
)

_METAVARS: dict[type, str] = {Path: "FILE", int: "N"}


@dataclass(frozen=True)
class Result:
    """What a verb returns."""

    value: Any = None  # what `--json` prints, or a function that writes it to a stream
    text: Iterable[Any] | None = None  # what is shown otherwise; if None, the facts of the value
    exit_code: int = 0
    notes: Iterable[str] = ()  # lines for stderr, after the result
    wide: bool = False  # lines may be long: names to copy must not be broken

    def show(self, as_json: bool) -> None:
        """Print it: the value, or the text; then the notes."""
        if as_json:
            print_json(self.value)
        else:
            show(*([facts(self.value)] if self.text is None else self.text), wide=self.wide)
        for note in self.notes:
            say(note)


Verb = Callable[..., Result | None]


@dataclass(frozen=True, slots=True)
class Param:
    """How a parameter of a verb is offered: what its signature has as the default."""

    default: Any  # `...` if there is none
    help: str
    variable: str | None = None
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    group: str = ""
    usual: bool = True
    min: Any = None
    max: Any = None
    choices: tuple[str, ...] = ()
    separator: str = ";"
    is_argument: bool = False
    hidden: bool = False


# These return Any, as `dataclasses.field` does, so that a parameter has the type of its values.
def option(
    default: Any,
    help: str,
    variable: str | None = None,
    metavar: str | None = None,
    *flags: str,
    **rules: Any,
) -> Any:
    """An option; `flags` if they do not follow from the name of the parameter."""
    return Param(default, help, variable, metavar, flags, **rules)


def switch(flag: str, help: str, variable: str | None = None, **rules: Any) -> Any:
    """An option without a value, and without a `--no-` form."""
    return Param(False, help, variable, None, (flag,), **rules)


def argument(metavar: str, help: str, variable: str | None = None, default: Any = ...) -> Any:
    """An argument; one of type `list[str]` takes several words."""
    return Param(default, help, variable, metavar, is_argument=True)


def setting_option(name: str, help: str = "", **rules: Any) -> Any:
    """The option of a setting of `assay eval`, for a verb that makes no run."""
    found = _setting_param(settings()[name])
    return replace(found, help=help or found.help, **rules)


def with_settings(names: Iterable[str], *, grouped: bool = False) -> Callable[[Verb], Verb]:
    """Give a verb the options of these settings of `assay eval`; it gets them as `**options`.

    With `grouped`, which `assay eval` itself has, the options are in groups, and their help names
    what they need.
    """
    found = {}
    for setting in (settings()[name] for name in names):
        words = setting.help
        if grouped and setting.needs:
            words = f"With {settings()[setting.needs].flag}: {words[0].lower()}{words[1:]}"
        found[setting] = replace(_setting_param(setting), help=words)

    def decorate(function: Verb) -> Verb:
        function.__settings__ = found  # type: ignore[attr-defined]
        function.__grouped__ = grouped  # type: ignore[attr-defined]
        return function

    return decorate


def _setting_param(setting: Option) -> Param:
    flag = "/".join(filter(None, (setting.flag, setting.negative_flag)))
    return Param(
        setting.command_default,
        setting.help,
        setting.env,
        setting.metavar,
        (flag,),
        setting.group,
        setting.usual,
        separator=setting.separator,
    )


class _Texts(click.types.StringParamType):
    """One of several texts; a variable holds all of them, apart by the separator."""

    def __init__(self, separator: str) -> None:
        self.separator = separator

    def split_envvar_value(self, rv: str) -> list[str]:
        return [part.strip() for part in rv.split(self.separator) if part.strip()]


def _click_param(name: str, param: Param, hint: Any) -> click.Parameter:
    # Hints are T, list[T], or one of the two with None.
    (inner,) = [each for each in get_args(hint) if each is not NoneType] or [hint]
    several = list in (get_origin(hint), get_origin(inner))
    kind: type = str if several else inner
    required = param.default is ...
    kinds: dict[type, click.ParamType[Any]] = {
        int: click.IntRange(param.min, param.max),
        float: click.FloatRange(param.min, param.max),
        Path: click.Path(path_type=Path),
    }
    rules: dict[str, Any] = {
        "envvar": param.variable,
        "required": required,
        "metavar": param.metavar or _METAVARS.get(kind),
        "type": click.Choice(param.choices) if param.choices else kinds.get(kind, click.STRING),
    }
    if several:
        rules["type"] = _Texts(param.separator)
    if not required:  # click 8.3 takes a default of None for a value: nothing would be missing
        rules["default"] = None if several else param.default
    if param.is_argument:
        words = f"{param.metavar}{'...' * several}"
        rules["metavar"] = words if required else f"[{words}]"
        return click.Argument([name], nargs=-1 if several else 1, **rules)
    if kind is bool:
        del rules["type"], rules["metavar"]
        rules |= {"is_flag": True, "default": bool(param.default)}
    flags = param.flags or (f"--{name.replace('_', '-')}",)
    rules |= {"help": param.help, "hidden": param.hidden, "multiple": several}
    return click.Option([*flags, name], **rules)


class VerbCommand(click.Command):
    """A verb: its help in sections, its defaults from assay.toml, one hint for a wrong option."""

    def __init__(self, name: str, function: Verb) -> None:
        self.function = function
        self.is_grouped = getattr(function, "__grouped__", False)
        hints = get_type_hints(function)
        offered = [
            (setting.param, param, list[str] if setting.repeatable else setting.kind)
            for setting, param in getattr(function, "__settings__", {}).items()
        ]
        offered += [
            (each.name, each.default, hints[each.name])
            for each in inspect.signature(function).parameters.values()
            if isinstance(each.default, Param)
        ]
        self.has_json = hints.get("return") is Result
        if self.has_json:
            words = "Print the result as JSON on stdout."
            offered.append(("as_json", switch("--json", words, group=GROUPS[0]), bool))
        self.offers: dict[str, Param] = {name: param for name, param, _ in offered}
        params = [_click_param(*each) for each in offered]
        super().__init__(name, params=params, callback=self._call, help=inspect.getdoc(function))

    @property
    def flags(self) -> list[str]:
        """Every flag, such as --top-k."""
        return [flag for param in self.params for flag in param.opts]

    def _call(self, **given: Any) -> None:
        context = click.get_current_context()
        as_json = given.pop("as_json") if self.has_json else False
        given = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}
        # Only verbs that distinguish what was typed from a variable or assay.toml take it.
        if "context" in inspect.signature(self.function).parameters:
            given["context"] = context
        if (result := self.function(**given)) is not None:
            result.show(as_json)
            context.exit(result.exit_code)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with defaults from assay.toml and one hint about an unknown option."""
        from assay.cli.settings import verb_defaults

        if "--help-all" in args:
            ctx.meta["help_all"] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        rename_variables(self.flags)
        if ctx.default_map is None:
            ctx.default_map = verb_defaults(self, ctx)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if isinstance(error, click.NoSuchOption) and (hint := instead_of(error.option_name)):
                message = f"{error.option_name} was removed: {hint}"
            elif "extra argument" in error.message and "--dataset" in self.flags:
                message = f"{error.message}; a data set is named by --dataset"
            else:
                raise
            raise click.UsageError(message, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Arguments, then the options, in the order of `GROUPS` if they are in groups."""
        everything = not self.is_grouped or ctx.meta.get("help_all", False)
        titles = ("Arguments", *GROUPS, "Options")
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for each in self.params:
            param = self.offers[each.name or ""]
            if isinstance(each, click.Argument):
                sections["Arguments"].append((each.make_metavar(ctx).strip("[]"), param.help))
            elif isinstance(each, click.Option) and (everything or param.usual) and not each.hidden:
                row = _help_row(each, param)
                sections[param.group if self.is_grouped else "Options"].append(row)
        if self.is_grouped:
            sections[GROUPS[0]].append(("--help, --help-all", "Show the usual options, or all."))
        else:
            sections["Options"].append(("--help", "Show this message and exit."))
        for title, rows in sections.items():
            _write(formatter, title, rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The rule about variables and assay.toml, once."""
        if self.is_grouped:
            formatter.write_paragraph()
            formatter.write_text(_SETTINGS_RULE)


def _help_row(option: click.Option, param: Param) -> tuple[str, str]:
    """The flags, and the help with the variable only if it does not follow from the flag."""
    flags = ", ".join((*option.opts, *option.secondary_opts))
    words, variable = param.help, param.variable
    by_rule = f"ASSAY_{option.opts[0].lstrip('-').upper().replace('-', '_')}"
    if variable not in (None, by_rule, "ASSAY_OUT"):
        words += f" [{variable}]"
    value = "" if option.is_flag else f" {option.metavar or 'TEXT'}"
    return f"{flags}{value}", f"{words} Required." if option.required else words


def _write(formatter: click.HelpFormatter, title: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


class VerbEntry(NamedTuple):
    """Where a verb is (`module:function`), and its line in `assay --help`."""

    place: str
    line: str


class VerbGroup(click.Group):
    """Verbs by the section of `--help` that they are in; imported when they are called."""

    def __init__(
        self,
        name: str,
        help: str,
        sections: "Mapping[str, Mapping[str, VerbEntry | VerbGroup]]",
        **rules: Any,
    ) -> None:
        super().__init__(name, help=help, no_args_is_help=True, **rules)
        self.sections = sections
        self.verbs = {name: verb for verbs in sections.values() for name, verb in verbs.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the verbs, in their order."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, whose module is imported now."""
        found = self.verbs.get(cmd_name)
        if not isinstance(found, VerbEntry):
            return found
        if cmd_name not in self.commands:
            module, _, function = found.place.partition(":")
            verb = getattr(import_module(f"assay.cli.{module}"), function)
            self.commands[cmd_name] = VerbCommand(cmd_name, verb)
        return self.commands[cmd_name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with one line each, by section."""
        width = max(map(len, self.verbs))
        for section, verbs in self.sections.items():
            lines = [
                (name.ljust(width), each.line if isinstance(each, VerbEntry) else each.help or "")
                for name, each in verbs.items()
            ]
            _write(formatter, section, lines)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The epilog as it stands: click would join its lines."""
        if self.epilog:
            formatter.write(f"\n{self.epilog}")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; spellings of the last release become today's."""
        return super().parse_args(ctx, current_spelling(args) if ctx.parent is None else args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does, with a hint about an unknown verb."""
        name = args[0]
        if name not in self.verbs and not name.startswith("-"):
            hint = did_you_mean(name, self.verbs, cutoff=0.5) or "."
            message = f"No such command {name!r}{hint}"
            if instead := instead_of(name):
                message = f"'{name}' was removed; {instead}."
            raise click.UsageError(message, ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, but an interruption is reported."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            say(str(interruption) or "interrupted")
            ctx.exit(130)

    def all_verbs(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Every verb here and in the groups, with the words that call it; imports all of them."""
        for name in self.verbs:
            command = self.get_command(click.Context(self), name)
            if isinstance(command, VerbGroup):
                yield from command.all_verbs((*path, name))
            else:
                yield (*path, name), command


def is_given(context: click.Context, name: str, *by: str) -> bool:
    """Whether a flag or a variable says it, not a default or assay.toml."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in (by or ("COMMANDLINE", "ENVIRONMENT"))


def is_on_command_line(context: click.Context, name: str) -> bool:
    """Whether a flag or an argument says it: a variable may be meant for another run."""
    return is_given(context, name, "COMMANDLINE")
