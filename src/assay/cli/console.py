"""Where a verb writes: results on stdout, everything else on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assay.progress import Progress


def print_json(value: Any) -> None:
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    sys.stdout.write(orjson.dumps(value, option=options).decode())
    sys.stdout.flush()


def show(*renderables: "RenderableType") -> None:
    """A result for people: at most 80 columns where the output is not a terminal."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 80)
    for renderable in renderables:
        console.print(renderable)


def say(message: str) -> None:
    """A note for people: never part of the result."""
    print(message, file=sys.stderr, flush=True)


def warn(message: str) -> None:
    say(f"warning: {message}")


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """A bar on a terminal; elsewhere one plain line for each piece of work."""
    if not sys.stderr.isatty():
        yield _plain_progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


def _plain_progress() -> "Progress":
    announced: set[str] = set()

    def report(what: str, _done: int, _total: int | None) -> None:
        if what not in announced:
            announced.add(what)
            say(what)

    return report
