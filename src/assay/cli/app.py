"""The command line: one module for each verb, put together here."""

import sys

import typer

from assay.cli import eval as eval_verb
from assay.cli import runs as runs_verbs
from assay.errors import AssayError

app = typer.Typer(
    name="assay",
    help="Assay measures retrieval agents: how good, how sure, where they fail, what changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command("eval")(eval_verb.evaluate)
app.command("runs")(runs_verbs.runs)
app.command("report")(runs_verbs.report)
app.command("compare")(runs_verbs.compare)


def main() -> None:
    try:
        app()
    except AssayError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
