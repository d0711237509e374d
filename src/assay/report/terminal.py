"""A run and a comparison as tables for a terminal, 80 columns wide."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.errors import AssayError, UsageError
from assay.metrics.figures import improvement, parse_figure
from assay.metrics.metric import parse_metric
from assay.report.console import SafeConsole, facts_table, figures_table
from assay.report.numbers import (
    approximate,
    count,
    counted,
    difference,
    duration,
    figure,
    interval,
    p_value,
    rate,
    share,
    with_interval,
)
from assay.report.terminal_answers import render_answers
from assay.report.terminal_searches import search_lines, trial_lines

if TYPE_CHECKING:
    from assay.run.models import Comparison, QueryRow, Report
    from assay.run.run_record import GateResult


_VIOLATIONS = {
    "duplicate": "repeated ids",
    "unknown": "unknown ids",
    "surplus": "ids beyond top_k",
}


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """A metric with its mean, the 95% interval of the mean and the best possible mean."""

    metric: str
    mean: float
    low: float | None
    high: float | None
    ceiling: float


_USUAL = ("ndcg@", "recall@", "mrr@", "hit@")


def split_metrics(names: Iterable[str]) -> list[str]:
    """The names in the values of `--metrics`, which may be separated by commas."""
    return [part.strip() for text in names for part in text.split(",") if part.strip()]


def usual_names(names: Iterable[str]) -> list[str]:
    """nDCG, Recall, MRR and Hit, if they are there, else all; each once, at its first depth."""
    known = list(names)
    usual = [next((name for name in known if name.startswith(start)), "") for start in _USUAL]
    return [name for name in usual if name] or known


def render_report(
    report: "Report", *, path: str, metrics: Iterable[str] = (), gates: bool = True
) -> RenderableType:
    """What a run measured: scores, failures, latency, gates, answers and the comparison.

    Parameters:
        report: the figures of the run.
        path: where the run is, as the last fact.
        metrics: names of those to show, or "all"; by default nDCG, Recall, MRR and Hit.
        gates: whether to list the gates.
    """
    parts: list[RenderableType] = [Text(_title(report), style="bold"), Text()]
    parts += [scores_table(_score_lines(report, split_metrics(metrics))), Text()]
    parts.append(facts_table([*_facts(report, gates=gates), ("run", path)]))
    if report.answers:
        parts += [Text(), render_answers(report.answers)]
    if report.comparison:
        parts += [Text(), render_comparison(report.comparison)]
    return Group(*parts)


def plain_text(renderable: RenderableType) -> str:
    """A renderable for files: no colors, no trailing blanks, wide enough for names of runs."""
    console = SafeConsole(file=io.StringIO(), width=120, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def render_comparison(comparison: "Comparison") -> RenderableType:
    """`b` against `a`: a line for each metric, then the verdict in words."""
    table = figures_table(("", 0), "a", "b", "b - a", "95% interval", "p (Holm)", "win/tie/loss")
    for name, row in comparison.metrics.items():
        table.add_row(
            str(parse_figure(name)),
            figure(row.mean_a),
            figure(row.mean_b),
            difference(row.difference),
            interval(row.low, row.high),
            p_value(row.p_adjusted).removeprefix("p ").removeprefix("= "),
            f"{row.wins}/{row.ties}/{row.losses}",
        )
    names = Text(f"a = {comparison.a}\nb = {comparison.b}")
    notes = [Text(f"note: {warning}", style="yellow") for warning in comparison.warnings]
    return Group(names, Text(), table, Text(), Text(verdict(comparison)), *notes)


def verdict(comparison: "Comparison", *, a: str = "a", b: str = "b") -> str:
    """Every significant change in one sentence; else that the runs do not differ.

    `a` and `b` are what to call the runs.
    """
    rows = {parse_figure(name): row for name, row in comparison.metrics.items()}
    (metric, first), *_ = rows.items()
    changes: dict[str, list[str]] = {"worse": [], "better": []}
    for figure_, row in rows.items():
        if row.significant:
            word = "better" if improvement(figure_, row.difference) > 0 else "worse"
            changes[word].append(f"{figure_} ({difference(row.difference)})")
    found = [f"{word} in {_listed(names)}" for word, names in changes.items() if names]
    queries = counted(first.n, "query", "queries")
    if found:
        rest = "" if first.significant else f"; {metric} does not differ significantly"
        return f"{b} is significantly {' and '.join(found)} with {queries}{rest}."
    if all(row.wins == row.losses == 0 for row in rows.values()):
        return f"{b} and {a} score the same on every query."
    # Of fewer than there are, nothing can be said: the estimate was too low.
    needed = first.queries_needed or 0
    more = f"; about {approximate(needed)} queries would be needed" if needed > first.n else ""
    return f"{b} and {a} do not differ significantly in {metric} with {queries}{more}."


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def render_worst(report: "Report", rows: "Iterable[QueryRow]", number: int) -> RenderableType:
    """The queries that are furthest below a score of 1 in the headline metric, the worst first."""
    metric, _ = report.headline
    lost = sorted((row for row in rows if row.score(metric) < 1), key=lambda row: row.score(metric))
    if not lost:
        return Text(f"No query is below 1 in {metric}.")
    table = figures_table(("query", 0), str(metric), "relevant found")
    for row in lost[:number]:
        text = shorten(f"{row.query_id}  {row.query_text}", 60, placeholder="…")
        found = f"{row.relevant_docs_retrieved} of {row.total_relevant_docs}"
        table.add_row(text, figure(row.score(metric)), row.failure or found)
    return table


def gate_verdict(gate: "GateResult", report: "Report | None" = None) -> str:
    """How a gate ended, in one line: `gate failed: ndcg@5>=0.30, got 0.2713 [0.2401, 0.3020]`.

    The interval is that of the metric in `report`, where the gate is on one of its metrics.
    """
    value = "no value" if gate.value is None else figure(gate.value)
    if report is not None:
        name = re.split("[<>]", gate.gate)[0].strip()
        if report.answers and (given := report.answers.statistics.get(name)):
            value = with_interval(given.mean, given.low, given.high)
        with suppress(AssayError):
            if row := report.statistics.get(parse_metric(name).slug):
                value = with_interval(row.mean, row.low, row.high)
    word = "passed" if gate.passed else "failed"
    why = f": {gate.reason}" if gate.reason else ""
    note = f" ({gate.note})" if gate.note else ""
    return f"gate {word}: {gate.gate}, got {value}{why}{note}"


def scores_table(lines: Iterable[ScoreLine]) -> Table:
    """One line for each metric; the first is the headline."""
    table = figures_table(("metric", 16), "mean", "95% interval", "ceiling", "of ceiling")
    for index, line in enumerate(lines):
        table.add_row(
            line.metric,
            figure(line.mean),
            interval(line.low, line.high),
            figure(line.ceiling),
            share(line.mean, line.ceiling),
            style="bold" if index == 0 else "",
        )
    return table


def _title(report: "Report") -> str:
    where = f"{report.dataset.name} {report.dataset.split}"
    target = report.target.called or report.target.agent or report.target.name
    made = ", model-made judgments" if report.dataset.judged_by else ""
    return f"{target} on {where}, {report.track} track{made}"


def _score_lines(report: "Report", wanted: Sequence[str]) -> Iterator[ScoreLine]:
    known = report.statistics
    names: Iterable[str] = known if "all" in wanted else usual_names(known)
    if wanted and "all" not in wanted:
        depth = report.config.top_k
        names = [parse_metric(text if "@" in text else f"{text}@{depth}").slug for text in wanted]
        for text, name in zip(wanted, names, strict=True):
            if name not in known:
                raise UsageError(f"the run has no {text}; it has {', '.join(known)}")
    for name in names:
        row = known[name]
        yield ScoreLine(str(parse_figure(name)), row.mean, row.low, row.high, row.ceiling)


def _facts(report: "Report", *, gates: bool = True) -> Iterator[tuple[str, str]]:
    from assay.run.state import RunState

    if report.target.called or report.target.agent:
        yield "target", report.target.name
    summary = report.summary
    asked = f"{count(summary.successful_queries)} of {count(summary.total_queries)} answered"
    if report.state != RunState.COMPLETE:
        asked += f"; {report.state}: {count(report.planned_queries)} were planned"
    yield "queries", asked
    left_out = report.dataset.queries_without_relevant
    if left_out and report.config.num_queries is None:  # a figure of the data set, of no sample
        words = counted(left_out, "judged query has", "judged queries have")
        yield "", f"{words} no relevant document: left out of every mean"
    if report.dataset.judged_by:
        yield "judgments", report.dataset.judged_by
    unseen = report.unseen_queries
    if unseen is not None and unseen.queries:  # older runs have a mean over none
        metric, _ = report.headline
        score = with_interval(unseen.mean, unseen.low, unseen.high)
        yield "unseen", f"{metric} {score} on {count(unseen.queries)} not seen in training"
    if report.failures:
        kinds = sorted(report.failures.items(), key=lambda item: -item[1])
        yield "failures", "; ".join(f"{kind} {count(number)}" for kind, number in kinds)
        for example in report.failure_examples.values():
            yield "", f"for example {example}"
    wrong = [
        f"{_VIOLATIONS[kind]} {count(found.ids)} (in {counted(found.queries, 'query', 'queries')})"
        for kind, found in report.violations.items()
        if found.ids
    ]
    if wrong:
        yield "violations", "; ".join(wrong)
    for found in report.violations.values():
        if found.hint:
            yield "", found.hint
    if report.search:
        yield from search_lines(report.search)
    if report.trials:
        yield from trial_lines(report.trials)
    yield "latency", _latency(report)
    yield from _pacing(report)
    for gate in report.gates if gates else ():
        word = "passed" if gate.passed else "FAILED"
        why = f"; {gate.reason}" if gate.reason else ""
        note = f"; {gate.note}" if gate.note else ""
        yield "gate", f"{gate.gate}  {word}: {figure(gate.value)}{why}{note}"


def _pacing(report: "Report") -> Iterator[tuple[str, str]]:
    pacing = report.pacing
    if pacing is None:
        return
    if warm_up := pacing.warm_up:
        how = "until ready" if warm_up.way == "readiness" else "for an untimed call"
        missed = "" if warm_up.ready else f"; it may not have been ready: {warm_up.message}"
        yield "warm-up", f"{duration(warm_up.seconds)} {how}, not counted{missed}"
    if pacing.lowest_concurrency < pacing.concurrency:
        yield (
            "",
            (
                f"timeouts came in clusters: concurrency lowered from {pacing.concurrency} to "
                f"{pacing.lowest_concurrency}"
            ),
        )
    if pacing.asked_again:
        words = counted(pacing.asked_again, "query", "queries")
        yield (
            "",
            (
                f"{words} timed out and {'was' if pacing.asked_again == 1 else 'were'} asked again "
                f"alone: {count(pacing.answered_again)} answered"
            ),
        )


def _latency(report: "Report") -> str:
    latency, summary = report.latency_ms, report.summary
    timed = summary.successful_queries if latency.queries is None else latency.queries
    percentiles = {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}
    words = [
        f"{name} {duration(value / 1000 if timed else None)}" for name, value in percentiles.items()
    ]
    words.append(f"{rate(summary.queries_per_second)} queries/s")
    if latency.timeouts:
        words.append(f"{counted(latency.timeouts, 'timeout')} counted at the limit")
    return ", ".join(words)
