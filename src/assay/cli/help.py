"""Help in sections: the verbs by what they are for, the options by the table's groups.

An option's section is its `rich_help_panel`, which for the options of a run is the `group` of the
table in `assay.run.config`; a verb's is the panel that `assay.cli.app` gives it. The help is plain
text, so typer's panels are not drawn: the sections are written here.
"""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from assay.cli.console import say
from assay.errors import closest, did_you_mean
from assay.run.option import Group

GROUPS: tuple[str, ...] = get_args(Group)
REMOVED = {
    "submission": "use: assay export RUN --format agentbeats",
    "--matrix": "the page of assay compare --html lists the queries that changed",
    "--overlap": "export both runs with --format trec for another tool",
    "rekey": "replace the old ids in qrels/*.tsv (docs/labels.md)",
    "completion": "run: assay --install-completion",
    "bench": "to measure a judge, label answers and use: assay judge calibrate",
    "labels": "a graded table is a data set, --dataset POOL.csv; the web UI exports qrels",
    "--qrels": "read TREC collections as --dataset ir_datasets:NAME",
    "--judge-max-flips": "at most 20% of the verdicts may flip",
    "--export": "edit the lines of nuggets.jsonl; a changed fact counts as yours",
    "--import": "edit the lines of nuggets.jsonl; a changed fact counts as yours",
    "--kinds": "a model writes the questions; name it with --provider",
    "--questions": "use: assay data questions DOCUMENTS --provider SPEC",
    "run-agent": "call an agent with curl (docs/contract.md)",
    "--sarif": "use --junit or --json",
    "--session-idle": "a session of assay serve mcp is dropped after 1800 idle seconds",
    "--max-sessions": "assay serve mcp has at most 1000 sessions",
    "hostile": "it is a fixture of the tests now: tests/hostile",
    "sync": "use a data set of your own, or: assay eval nextcloud:URL",
    "status": "run: assay nextcloud upload, which reports it",
    "wait": "run: assay nextcloud upload --wait TARGET",
}
"""Verbs and options of earlier versions, with what to do instead."""

_MORE = "Other options"
_FEW = 12
"""Up to here the options of a verb are one list."""
_REST = "Options"


class VerbCommand(TyperCommand):
    """A verb whose options are shown in sections, and which knows what a wrong one could mean."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then the options of each section in the order of `GROUPS`.

        Those without a section come last where the first one is for the usual options, else first.
        """
        arguments, sections = [], dict[str, list[tuple[str, str]]]()
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                name, words = record
                arguments.append((name.rpartition(" <")[0] or name, words))  # without its type
            else:
                panel = getattr(param, "rich_help_panel", None) or _REST
                sections.setdefault(panel, []).append(record)
        _write(formatter, "Arguments", arguments)
        if sum(map(len, sections.values())) <= _FEW:
            sections = {_REST: [row for rows in sections.values() for row in rows]}
        if GROUPS[0] not in sections:
            _write(formatter, _REST, sections.pop(_REST, []))
        for panel in sorted(sections, key=_rank):
            _write(formatter, _MORE if panel == _REST else panel, sections[panel])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As typer does, but a required argument is RUN, not {RUN}."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does, with one hint in the words of all others about an unknown option."""
        flags = [flag for param in self.params for flag in param.opts]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _suggest_option(error, flags)
            _name_value(error)
            message = getattr(error, "message", "")
            if "extra argument" in message and "--dataset" in flags:
                error.message = f"{message}; a data set is named by --dataset"  # type: ignore[attr-defined]
            raise


class VerbGroup(TyperGroup):
    """Verbs, listed by the section that each one names."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs with the first sentence of their help, in sections if they name any."""
        shown = [(name, command) for name, command in self.commands.items() if not command.hidden]
        width = max((len(name) for name, _ in shown), default=0)
        limit = formatter.width - 6 - width
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in shown:
            panel = getattr(command, "rich_help_panel", None)
            row = (name.ljust(width), command.get_short_help_str(limit))
            sections.setdefault(panel if isinstance(panel, str) else "Commands", []).append(row)
        for panel, rows in sections.items():
            _write(formatter, panel, rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does, with a hint about an unknown option."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _suggest_option(error, (flag for param in self.params for flag in param.opts))
            raise

    def invoke(self, ctx: Any) -> Any:
        """As typer does, but an interruption is reported; typer exits with 130 and says nothing."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            say(str(interruption) or "interrupted")
            raise typer.Exit(130) from interruption

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer does, with the hint of all other unknown names."""
        self.suggest_commands = False
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            message = getattr(error, "message", "")
            if isinstance(message, str) and args and args[0] not in self.commands:
                hint = did_you_mean(args[0], self.commands, cutoff=0.5)
                if instead := REMOVED.get(args[0]):
                    message, hint = f"'{args[0]}' was removed; {instead}", ""
                error.message = message.rstrip(".") + (hint or ".")  # type: ignore[attr-defined]
            raise


def all_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of a group and of the groups in it, with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name), command


def verbs(name: str, summary: str) -> typer.Typer:
    """An app, or a group of verbs below one."""
    return _Verbs(
        name=name,
        help=summary,
        cls=VerbGroup,
        no_args_is_help=True,
        add_completion=name == "assay",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


class _Verbs(typer.Typer):
    def command(self, name: str | None = None, **settings: Any) -> Any:
        settings.setdefault("cls", VerbCommand)
        return super().command(name, **settings)


def _write(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _rank(panel: str) -> tuple[int, str]:
    return (GROUPS.index(panel), "") if panel in GROUPS else (len(GROUPS), panel)


def _name_value(error: Exception) -> None:
    """Say which value was refused, where typer's message only says what it should have been."""
    problems = getattr(error.__cause__, "errors", None)
    if callable(problems) and hasattr(error, "message"):
        problem = problems()[0]
        wanted = problem["msg"].removeprefix("Input ").partition(",")[0]
        error.message = f"{wanted}, got {problem['input']!r}"


def _suggest_option(error: Exception, flags: Iterable[str]) -> None:
    """Replace the list of all flags that resemble it by the one that does most."""
    name = getattr(error, "option_name", None)
    if isinstance(name, str) and hasattr(error, "possibilities"):
        error.possibilities = None
        message = str(getattr(error, "message", ""))
        # The dashes make all flags resemble each other.
        plain = {flag.lstrip("-"): flag for flag in flags}
        near = closest(name.lstrip("-"), plain, cutoff=0.7)
        hint = f". Did you mean {plain[near]!r}?" if near else ""
        if instead := REMOVED.get(name):
            hint = f"; it was removed: {instead}"
        error.message = message + hint  # type: ignore[attr-defined]
