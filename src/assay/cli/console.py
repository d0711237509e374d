"""Output of the commands: results on stdout, all else on stderr, no control characters."""

import sys
from typing import TYPE_CHECKING, Any

from assay.net.redact import printable, printable_json

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_json(value: Any) -> None:
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    sys.stdout.write(printable_json(orjson.dumps(value, option=options).decode()))
    sys.stdout.flush()


def show(*renderables: "RenderableType", wide: bool = False) -> None:
    """A result for people: 80 columns where the output is not a terminal.

    `wide` is for lists with names to copy, which a line break would spoil.
    """
    from assay.report.console import SafeConsole

    width = None if sys.stdout.isatty() else 200 if wide else 80
    console = SafeConsole(highlight=False, width=width)
    for renderable in renderables:
        console.print(renderable, markup=False)


def show_unwrapped(line: str) -> None:
    """A result that is copied, such as a command: on one line, however narrow the terminal is."""
    print(printable(line), flush=True)


def say(message: str) -> None:
    """A note for people: never part of the result."""
    print(printable(message), file=sys.stderr, flush=True)


def warn(message: str) -> None:
    say(f"warning: {message}")
