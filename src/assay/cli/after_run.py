"""What `assay eval` prints when a run has ended: the result, what is odd about it, where it is."""

import shlex
import sys
from typing import TYPE_CHECKING

from assay.cli.ci_files import say_gates
from assay.cli.console import print_json, say, show, warn

if TYPE_CHECKING:
    from assay.evaluation.run import Run
    from assay.run.folder import RunFolder

_ENOUGH_ANSWERS = 5


def print_report(folder: "RunFolder") -> None:
    """The whole report as JSON; on a terminal without control characters."""
    if sys.stdout.isatty():
        print_json(folder.read_json())
    else:
        folder.copy_report(sys.stdout.buffer)


def show_run(run: "Run", as_json: bool) -> None:
    """The run's tables, also kept in its folder; or its report as JSON."""
    from assay.report.terminal import plain_text, render_report

    table = render_report(run.report, path=str(run.folder))
    if as_json:
        print_report(run.folder)
    else:
        show(table)
    run.folder.write_summary(plain_text(table))


def _warn_about_ids(run: "Run") -> None:
    """A score of 0 because nothing was read, or because the ids are others, is no finding."""
    report = run.report
    unknown = report.violations["unknown"]
    returned = sum(len(row.retrieved_docs) for row in run.rows())
    name = report.dataset.name
    look = f"look at one answer with: assay doctor TARGET --dataset {name}"
    if not returned:
        warn(f"no answer holds a document id, so every score is 0; {look}, and map ids with --map")
    elif unknown.ids >= returned:
        example = next(iter(unknown.examples), None)
        shown = "" if example is None else f", such as {example.doc_id[:60]!r}"
        why = unknown.hint or "do they have a prefix, or is this the wrong --dataset?"
        warn(
            f"all ids that came are unknown to {name!r}{shown}, so every score is 0: {why}; {look}"
        )
    elif not report.dataset.documents and not report.metrics[f"judged@{report.config.top_k}"]:
        warn(f"no id that came is one that {name!r} expects, so every score is 0; {look}")
    elif unknown.queries and unknown.queries == report.summary.successful_queries:
        say(f"every answer holds ids that {name!r} does not have: is this the right --dataset?")


def _warn_about_count(run: "Run") -> None:
    """Always the same number of documents, and fewer than `top_k`: the number was not passed on."""
    top_k = run.report.config.top_k
    possible = min(top_k, run.report.dataset.documents or top_k)
    counts = {len(row.retrieved_docs) for row in run.rows() if row.status == "ok"}
    several = run.report.summary.successful_queries >= _ENOUGH_ANSWERS
    if several and len(counts) == 1 and 0 < (count := counts.pop()) < possible:
        warn(
            f"every answer has exactly {count} document{'' if count == 1 else 's'}, --top-k is "
            f"{top_k}: is the number of results passed on, or does the target limit it?"
        )


def print_run(run: "Run", as_json: bool) -> None:
    """The result on stdout; gates, warnings and what is left to do on stderr."""
    show_run(run, as_json)
    say_gates(run)
    report = run.report
    answers, answered = report.answers, report.summary.successful_queries
    if not answered:
        say("no query was answered: see the failures above")
    elif answers is not None and not answers.answered:
        say(
            "the target returned documents but no answers; --answers needs "
            '{"doc_ids": [...], "answer": "...", "citations": [...]}, or --map answer=EXPR for a '
            "text in another field"
        )
    if answered:
        _warn_about_ids(run)
        _warn_about_count(run)
    trouble = answers.trouble if answers else None
    if trouble:
        say(f"not all answers were judged: {trouble}")
    if run.state != "complete" or trouble:
        say(f"finish it with: assay eval --resume {run.folder}")


def say_where(run: "Run") -> None:
    """One line that says how to see the run."""
    if not run.folder.page_file.is_file():  # interrupted before anything was scored
        return
    parent = run.folder.path.parent
    runs = "" if str(parent) == "runs" else f" --runs {shlex.quote(str(parent))}"
    say(
        f"see it: {run.folder.page_file}, or: assay report --open {shlex.quote(str(run.folder))}, "
        f"or all runs: assay serve ui{runs}"
    )
