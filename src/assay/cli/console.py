"""Output of commands: results on stdout, notes and progress on stderr, no control characters."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from assay.errors import UsageError
from assay.net.json import parse_json
from assay.net.redact import printable, printable_json, redact_known

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from assay.evaluation.evaluation import Events, Tick
    from assay.progress import Progress


def print_json(value: Any) -> None:
    """A result for programs, on stdout: a value, or a function that writes one to a stream."""
    import orjson

    if callable(value):
        if not sys.stdout.isatty():
            value(sys.stdout.buffer)
            return
        value(stream := BytesIO())
        value = parse_json(stream.getvalue())
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    sys.stdout.write(printable_json(orjson.dumps(value, option=options).decode()))
    sys.stdout.flush()


class Unwrapped(str):
    """A line that is copied, such as a command: one line, however narrow the terminal is."""

    __slots__ = ()


def show(*renderables: "RenderableType", wide: bool = False) -> None:
    """A result for people: 80 columns where the output is not a terminal.

    `wide` is for lists with names to copy, which a line break would spoil.
    """
    from assay.report.console import SafeConsole

    width = None if sys.stdout.isatty() else 200 if wide else 80
    console = SafeConsole(highlight=False, width=width)
    for renderable in renderables:
        if isinstance(renderable, Unwrapped):
            print(printable(renderable), flush=True)
        else:
            console.print(renderable, markup=False)


def facts(value: Mapping[str, Any], *left_out: str) -> "Table":
    """A line for each entry that says something: what a result is if it has no other text."""
    from assay.report.console import facts_table

    return facts_table(
        (name.replace("_", " "), _words(each))
        for name, each in value.items()
        if name not in left_out and each is not None and each not in ({}, [])
    )


def _words(value: Any) -> str:
    from assay.report.numbers import count, figure, with_interval

    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return figure(value)
    if isinstance(value, Mapping):
        if value.keys() >= {"mean", "low", "high"}:
            return with_interval(value["mean"], value["low"], value["high"])
        return ", ".join(f"{name}: {_words(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    return count(value) if isinstance(value, int) else str(value)


def say(message: str) -> None:
    """A note for people: never part of the result."""
    print(printable(redact_known(message)), file=sys.stderr, flush=True)


@contextmanager
def output_file(path: Path, *, append: bool = False) -> Iterator[BinaryIO]:
    """A file that the user named, in place when the block ends; then it is said.

    Raises `UsageError` where it cannot be written.
    """
    from assay.files import output_writer

    try:
        with path.open("ab") if append else output_writer(path) as file:
            yield file
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None
    say(f"wrote {path}")


def write_output(
    path: Path, content: bytes, *, append: bool = False, source: Path | None = None
) -> None:
    """Write a file that the user named. Raises `UsageError`, also where it is the `source`."""
    if source is not None and path.exists() and path.samefile(source):
        raise UsageError(f"{str(path)!r} is the input, which would be lost; write to another file")
    with output_file(path, append=append) as file:
        file.write(content)


def write_stream(write: Callable[[BinaryIO], object], path: Path | None) -> None:
    """Write a result in bytes to a file that the user named, else to stdout."""
    if path is None:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        with output_file(path) as stream:
            write(stream)


def warn(message: str) -> None:
    """A note about something that may be wrong."""
    say(f"warning: {message}")


# The log of a CI job must show that it goes on, and not have a line for each query.
_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """For work in named stages: downloading, indexing, learning."""
    with _reporter() as (report, _):
        yield report


@contextmanager
def evaluation_events() -> Iterator["Events"]:
    """The events of a run in a terminal: bars, or now and then a line if it is not one."""
    from assay.evaluation.evaluation import Events
    from assay.report.numbers import figure

    with _reporter() as (report, message):

        def tick(now: "Tick") -> None:
            failures = f", {now.failed} failed" if now.failed else ""
            figures = f"{now.metric} {figure(now.mean, 3)}{failures}"
            report(now.target, now.done, now.total, figures)

        yield Events(tick=tick, message=message, progress=report)


@contextmanager
def _reporter() -> Iterator[tuple[Callable[..., None], Callable[[str], None]]]:
    """What shows how far a stage is, and what shows a message meanwhile."""
    if not sys.stderr.isatty():
        yield _report_lines(), say
        return
    from rich import progress as rich_progress

    from assay.report.console import SafeConsole

    tasks: dict[str, Any] = {}
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=24),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn("{task.fields[figures]}", markup=False),
        rich_progress.TimeRemainingColumn(compact=True),
    )
    console = SafeConsole(stderr=True)
    with rich_progress.Progress(*columns, console=console, transient=True) as bars:

        def report(what: str, done: int, total: int | None, figures: str = "") -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total, figures="")
            bars.update(tasks[what], completed=done, total=total, figures=figures)

        def message(text: str) -> None:
            bars.console.print(text, style="yellow", highlight=False, markup=False)

        yield report, message


def _report_lines() -> Callable[..., None]:
    said: dict[str, float] = {}

    def report(what: str, done: int, total: int | None, figures: str = "") -> None:
        now = time.monotonic()
        if what not in said:
            said[what] = now
            if not figures:  # a run has said what it asks
                say(what)
        elif total and done < total and now - said[what] >= _SECONDS_BETWEEN_LINES:
            said[what] = now
            say(f"{what}: {done:,} of {total:,}{', ' * bool(figures)}{figures}")

    return report
