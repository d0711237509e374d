"""The command line: one module for each verb, put together here."""

import sys

import typer

from assay.errors import AssayError

app = typer.Typer(
    name="assay",
    help="Assay measures retrieval agents: how good, how sure, where they fail, what changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    try:
        app()
    except AssayError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(141)
