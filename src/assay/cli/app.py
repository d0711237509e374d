"""The command line: one module for each verb, put together here."""

import errno
import sys
from typing import Annotated, Any

import typer

from assay.cli import eval as eval_verb
from assay.cli import runs as runs_verbs
from assay.cli.audit import audit
from assay.cli.bench import bench
from assay.cli.check import check
from assay.cli.console import say
from assay.cli.data import data_app
from assay.cli.doctor import doctor
from assay.cli.export import export
from assay.cli.ground_truth import ground_truth
from assay.cli.index import index
from assay.cli.judge import judge_app
from assay.cli.merge import merge, submission
from assay.cli.nextcloud import nextcloud_app
from assay.cli.run_agent import run_agent
from assay.cli.score import score
from assay.cli.search import search
from assay.cli.serve import serve_app
from assay.cli.settings import Options, read_settings
from assay.cli.tune import tune
from assay.errors import AssayError
from assay.extras import missing_extra

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)

app = typer.Typer(
    name="assay",
    help="Measure retrieval agents: how good they are, where they fail and what changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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


app.command("eval")(eval_verb.evaluate)
app.command("bench")(bench)
app.command("runs")(runs_verbs.runs)
app.command("report")(runs_verbs.report)
app.command("compare")(runs_verbs.compare)
app.command("export")(export)
app.command("merge")(merge)
app.command("submission")(submission)
app.command("index")(index)
app.command("search")(search)
app.command("tune")(tune)
app.command("score")(score)
app.command("audit")(audit)
app.command("check")(check)
app.command("doctor")(doctor)
app.command("ground-truth")(ground_truth)
app.command("run-agent")(run_agent)
app.add_typer(serve_app, name="serve")
app.add_typer(judge_app, name="judge")
app.add_typer(data_app, name="data")
app.add_typer(nextcloud_app, name="nextcloud")


def main() -> None:
    try:
        app(default_map=read_settings(_options()))
    except AssayError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except ImportError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        say(f"error: {missing}")
        sys.exit(missing.exit_code)
    except KeyboardInterrupt as interruption:
        print(str(interruption) or "interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone. Without this, Python reports it again at exit.
        sys.stdout = None
        sys.exit(141)
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        sys.stdout = None
        what = error.filename or "the output"
        print(f"error: cannot write {what}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


def _options(group: Any = None) -> dict[str, Options]:
    group = group or typer.main.get_command(app)
    return {
        verb: _options(each) if hasattr(each, "commands") else {one.name for one in each.params}
        for verb, each in group.commands.items()
    }
