"""The command line: the table of verbs, and what becomes of errors."""

import errno
import sys
from collections.abc import Callable
from importlib.metadata import version

import click

from assay.cli.console import say
from assay.cli.old_options import rename_variables
from assay.cli.verb import VerbEntry, VerbGroup
from assay.errors import AssayError
from assay.extras import missing_extra

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_MEASURE, _RUNS, _DATA = "Measure", "Look at runs", "Data and judgments"
_SEARCH, _SET_UP = "Search and serve", "Set up"
_EXAMPLES = """\
Examples:
  assay eval builtin:bm25 --dataset notes           the built-in search, on bundled data
  assay doctor http://localhost:8000/search         what is read from your service
  assay compare main latest                         the newest run against that of a branch
"""


def _entry(place: str, line: str, section: str = "") -> VerbEntry:
    return VerbEntry(f"assay.cli.{place}", section, line)


class _App(VerbGroup):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{_EXAMPLES}")


def _version(context: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        print(version("agent-assay"))
        context.exit()


data_verbs = VerbGroup(
    "data",
    "List, describe, check, import, sample and make data sets.",
    {
        "list": _entry("data:list_datasets", "List the data sets that Assay knows by name."),
        "info": _entry("data:info", "Describe a data set: counts, grades, ceilings."),
        "check": _entry("data:check_data", "List the errors in a data set, with line numbers."),
        "import": _entry("data:import_dataset", "Convert a data set to a folder in BEIR format."),
        "sample": _entry("data:sample", "Draw a small data set from a large one."),
        "questions": _entry(
            "labels:questions", "Have a model write questions and answers about documents."
        ),
    },
    section=_DATA,
)
judge_verbs = VerbGroup(
    "judge",
    "Calibrate judges; grade documents by model or by people.",
    {
        "calibrate": _entry("judge:calibrate", "Measure how well a judge agrees with people."),
        "grade": _entry("labels:grade", "Have a model grade unjudged passages from 0 to 3."),
        "pool": _entry("labels:pool", "Collect the unjudged documents of runs into a table."),
    },
    section=_DATA,
)
serve_verbs = VerbGroup(
    "serve",
    "Start a server: agent, evaluator, MCP, contract or web UI.",
    {
        "purple": _entry("serve:purple", "Serve the reference retrieval agent over A2A."),
        "green": _entry("serve:green", "Serve the evaluator over A2A."),
        "mcp": _entry("serve:mcp", "Serve search over MCP and plain HTTP."),
        "agent": _entry("serve:agent", "Serve agents that implement the HTTP agent contract."),
        "ui": _entry("serve:ui", "Serve the web UI."),
    },
    section=_SEARCH,
)
nextcloud_verbs = VerbGroup(
    "nextcloud",
    "Upload a data set to Nextcloud as notes. Set NEXTCLOUD_HOST, NEXTCLOUD_USERNAME and "
    "NEXTCLOUD_PASSWORD.",
    {
        "upload": _entry("nextcloud:upload", "Upload each document as a note."),
        "cleanup": _entry("nextcloud:cleanup", "Delete the uploaded notes of the category."),
    },
    section=_SEARCH,
)
app = _App(
    "assay",
    "Measure retrieval agents: how good they are, where they fail and what changed.",
    {
        "eval": _entry(
            "eval:evaluate", "Evaluate an agent: send it queries, score what it returns.", _MEASURE
        ),
        "bench": _entry(
            "bench:bench", "Evaluate every target of a suite on every data set.", _MEASURE
        ),
        "score": _entry("score:score", "Score a run file or logged answers.", _MEASURE),
        "check": _entry(
            "contract:check", "Check that agents conform to the HTTP agent contract.", _MEASURE
        ),
        "doctor": _entry("doctor:doctor", "Diagnose an agent or this installation.", _MEASURE),
        "audit": _entry(
            "audit:audit", "Recompute the scores of a report from its rankings.", _MEASURE
        ),
        "runs": _entry("runs:runs", "List the runs of a folder, newest last.", _RUNS),
        "report": _entry("runs:report", "Show the report of a run.", _RUNS),
        "compare": _entry(
            "runs:compare", "Compare runs query by query, each with the first.", _RUNS
        ),
        "export": _entry(
            "export:export", "Export runs as tables, as TREC runs or for AgentBeats.", _RUNS
        ),
        "merge": _entry("bench:merge", "Merge the shards of one evaluation into one run.", _RUNS),
        "ground-truth": _entry("labels:ground_truth", "Write reference answers or nuggets.", _DATA),
        "data": data_verbs,
        "judge": judge_verbs,
        "search": _entry(
            "search:search", "Search a data set with the reference retriever.", _SEARCH
        ),
        "index": _entry("search:index", "Embed and index the documents of a data set.", _SEARCH),
        "tune": _entry(
            "search:tune", "Learn a ranking from the train judgments of a data set.", _SEARCH
        ),
        "serve": serve_verbs,
        "nextcloud": nextcloud_verbs,
        "init": _entry("init:init", "Write an assay.toml and a CI job for this project.", _SET_UP),
    },
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Show the version and exit.",
        )
    ],
)


def main(command: Callable[[], object] | None = None) -> None:
    """Run the command line, or a function; errors become messages and exit codes."""
    try:
        if command is not None:
            command()
            return
        rename_variables()
        app(prog_name="assay")
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
