"""The command line: the table of verbs, and what becomes of errors."""

import errno
import sys
from collections.abc import Callable

import click

from assay.cli.console import say
from assay.cli.verb import VerbEntry, VerbGroup
from assay.errors import AssayError
from assay.extras import missing_extra

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_EXAMPLES = """\
Examples:
  assay eval builtin:bm25 --dataset notes           the built-in search, on bundled data
  assay doctor http://localhost:8000/search         what is read from your service
  assay compare main latest                         the newest run against that of a branch
"""


def _group(name: str, help: str, **verbs: VerbEntry) -> VerbGroup:
    return VerbGroup(name, help, {"Commands": verbs})


_at = VerbEntry
# A line is the beginning of the verb's docstring: `assay --help` imports no verb to print it.
data_verbs = _group(
    "data",
    "List, describe, check, import, sample and make data sets.",
    **{
        "list": _at("data:list_datasets", "List the data sets that Assay knows by name."),
        "info": _at("data:info", "Describe a data set: counts, grades, ceilings."),
        "check": _at("data:check_data", "List the errors in a data set, with line numbers."),
        "import": _at("data:import_dataset", "Convert a data set to a folder in BEIR format."),
        "sample": _at("data:sample", "Draw a small data set from a large one."),
        "questions": _at(
            "labels:questions", "Have a model write questions and answers about documents."
        ),
    },
)
judge_verbs = _group(
    "judge",
    "Calibrate judges; grade documents by model or by people.",
    calibrate=_at("labels:calibrate", "Measure how well a judge agrees with people."),
    grade=_at("labels:grade", "Have a model grade unjudged passages of runs from 0 to 3."),
    pool=_at("labels:pool", "Collect the unjudged documents of runs into a table."),
)
serve_verbs = _group(
    "serve",
    "Start a server: agent, evaluator, MCP, contract or web UI.",
    purple=_at("serve:purple", "Serve the reference retrieval agent over A2A."),
    green=_at("serve:green", "Serve the evaluator over A2A."),
    mcp=_at("serve:mcp", "Serve search over MCP and plain HTTP."),
    agent=_at("serve:agent", "Serve agents that implement the HTTP agent contract."),
    ui=_at("serve:ui", "Serve the web UI."),
)
nextcloud_verbs = _group(
    "nextcloud",
    "Upload a data set to Nextcloud as notes. Set NEXTCLOUD_HOST, NEXTCLOUD_USERNAME and "
    "NEXTCLOUD_PASSWORD.",
    upload=_at("nextcloud:upload", "Upload each document as a note."),
    cleanup=_at("nextcloud:cleanup", "Delete the uploaded notes of the category."),
)
app = VerbGroup(
    "assay",
    "Measure retrieval agents: how good they are, where they fail and what changed.",
    {
        "Measure": {
            "eval": _at(
                "eval:evaluate", "Evaluate an agent: send it queries, score what it returns."
            ),
            "bench": _at("bench:bench", "Evaluate every target of a suite on every data set."),
            "score": _at("score:score", "Score a run file or logged answers."),
            "check": _at("contract:check", "Check that agents conform to the HTTP agent contract."),
            "doctor": _at("doctor:doctor", "Diagnose an agent or this installation."),
            "audit": _at("score:audit", "Recompute the scores of a report from its rankings."),
        },
        "Look at runs": {
            "runs": _at("runs:runs", "List the runs of a folder, newest last."),
            "report": _at("runs:report", "Show the report of a run."),
            "compare": _at("runs:compare", "Compare runs query by query, each with the first."),
            "export": _at("runs:export", "Export runs as tables, as TREC runs or for AgentBeats."),
            "merge": _at("bench:merge", "Merge the shards of one evaluation into one run."),
        },
        "Data and judgments": {
            "ground-truth": _at("labels:ground_truth", "Write reference answers or nuggets."),
            "data": data_verbs,
            "judge": judge_verbs,
        },
        "Search and serve": {
            "search": _at("search:search", "Search a data set with the reference retriever."),
            "index": _at("search:index", "Embed and index the documents of a data set."),
            "tune": _at("search:tune", "Learn a ranking from the train judgments of a data set."),
            "serve": serve_verbs,
            "nextcloud": nextcloud_verbs,
        },
        "Set up": {"init": _at("init:init", "Write an assay.toml and a CI job for this project.")},
    },
    epilog=_EXAMPLES,
)
click.version_option(package_name="agent-assay", message="%(version)s")(app)


def main(command: Callable[[], object] | None = None) -> None:
    """Run the command line, or a function; errors become messages and exit codes."""
    try:
        if command is not None:
            command()
        else:
            app(prog_name="assay")
    except (AssayError, ImportError) as error:
        known = error if isinstance(error, AssayError) else missing_extra(error)
        if known is None:
            raise
        _exit(f"error: {known}", known.exit_code)
    except KeyboardInterrupt:
        _exit("interrupted", 130)
    except MemoryError:
        _exit("error: not enough memory; free some, or raise the limit: ulimit -v", 2)
    except BrokenPipeError:
        # The reader of our output has gone. Without this, Python reports it again at exit.
        sys.stdout = None
        sys.exit(141)  # 128 + SIGPIPE, as shells have it for a program that `head` cuts off
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # raised by any look-up of such a file
            _exit(f"error: {str(error.filename)[:80]}...: {error.strerror}", 2)
        if error.errno not in _DISK_ERRORS:
            raise
        # Else what is still buffered would be written at exit, and fail with a traceback.
        sys.stdout = None
        _exit(f"error: cannot write {error.filename or 'the output'}: {error.strerror}", 2)


def _exit(message: str, code: int) -> None:
    say(message)
    sys.exit(code)
