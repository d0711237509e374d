"""The command line: one module for each verb, put together here."""

import errno
import sys
from typing import Annotated

import typer

from assay.cli import eval as eval_verb
from assay.cli import runs as runs_verbs
from assay.cli.audit import audit
from assay.cli.bench import bench_command, merge_command
from assay.cli.console import say
from assay.cli.contract import check_agents
from assay.cli.data import data_app
from assay.cli.doctor import doctor
from assay.cli.export import export
from assay.cli.ground_truth import ground_truth
from assay.cli.help import verbs
from assay.cli.index import index, tune
from assay.cli.init import init
from assay.cli.judge import judge_app
from assay.cli.nextcloud import nextcloud_app
from assay.cli.old_options import current_spelling, rename_variables
from assay.cli.score import score_command
from assay.cli.search import search
from assay.cli.serve import serve_app
from assay.cli.settings import read_settings
from assay.errors import AssayError
from assay.extras import missing_extra

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)

app = verbs(
    "assay", "Measure retrieval agents: how good they are, where they fail and what changed."
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("agent-assay"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Measure retrieval agents: how good they are, where they fail and what changed."""


_MEASURE = "Measure"
_RUNS = "Look at runs"
_DATA = "Data and judgments"
_SEARCH = "Search and serve"
_SET_UP = "Set up"

app.command("eval", rich_help_panel=_MEASURE)(eval_verb.eval_command)
app.command("bench", rich_help_panel=_MEASURE)(bench_command)
app.command("score", rich_help_panel=_MEASURE)(score_command)
app.command("check", rich_help_panel=_MEASURE)(check_agents)
app.command("doctor", rich_help_panel=_MEASURE)(doctor)
app.command("audit", rich_help_panel=_MEASURE)(audit)
app.command("runs", rich_help_panel=_RUNS)(runs_verbs.runs_command)
app.command("report", rich_help_panel=_RUNS)(runs_verbs.report)
app.command("compare", rich_help_panel=_RUNS)(runs_verbs.compare)
app.command("export", rich_help_panel=_RUNS)(export)
app.command("merge", rich_help_panel=_RUNS)(merge_command)
app.add_typer(data_app, name="data", rich_help_panel=_DATA)
app.command("ground-truth", rich_help_panel=_DATA)(ground_truth)
app.add_typer(judge_app, name="judge", rich_help_panel=_DATA)
app.command("search", rich_help_panel=_SEARCH)(search)
app.command("index", rich_help_panel=_SEARCH)(index)
app.command("tune", rich_help_panel=_SEARCH)(tune)
app.add_typer(serve_app, name="serve", rich_help_panel=_SEARCH)
app.add_typer(nextcloud_app, name="nextcloud", rich_help_panel=_SEARCH)
app.command("init", rich_help_panel=_SET_UP)(init)


def main() -> None:
    """Run the command line; errors become messages and exit codes."""
    try:
        command = typer.main.get_command(app)  # takes a while: built once
        arguments = current_spelling(sys.argv[1:])
        rename_variables()
        command(arguments, default_map=read_settings(command), prog_name="assay")
    except AssayError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except ImportError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        say(f"error: {missing}")
        sys.exit(missing.exit_code)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
    except MemoryError:
        say("error: there is not enough memory for this; free some, or raise the limit: ulimit -v")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has gone. Without this, Python reports it again at exit.
        sys.stdout = None
        sys.exit(141)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # raised by any look-up of such a file
            say(f"error: {str(error.filename)[:80]}...: {error.strerror}")
            sys.exit(2)
        if error.errno not in _DISK_ERRORS:
            raise
        sys.stdout = None
        what = error.filename or "the output"
        print(f"error: cannot write {what}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
