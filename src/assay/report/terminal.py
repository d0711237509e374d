"""A run and a comparison as tables for a terminal, 80 columns wide."""

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.answers.figures import AnswerFigure, improvement, parse_figure
from assay.errors import AssayError
from assay.metrics.metric import parse_metric
from assay.report.console import SafeConsole, facts_table, figures_table
from assay.report.numbers import (
    count,
    counted,
    difference,
    duration,
    figure,
    interval,
    p_value,
    percent,
    rate,
    share,
    with_interval,
)
from assay.report.terminal_answers import render_answers
from assay.run.overlap import QueryOverlap, RankingOverlap

if TYPE_CHECKING:
    from assay.run.models import Comparison, PairedResult, Report
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


def render_report(report: "Report", *, path: str) -> RenderableType:
    """What a run measured: scores, failures, latency, gates, answers and the comparison.

    Parameters:
        report: the figures of the run.
        path: where the run is, as the last fact.
    """
    parts: list[RenderableType] = [Text(_title(report), style="bold"), Text()]
    parts += [scores_table(_score_lines(report)), Text()]
    parts.append(facts_table([*_facts(report), ("run", path)]))
    if report.answers:
        parts += [Text(), render_answers(report.answers)]
    if report.comparison:
        parts += [Text(), render_comparison(report.comparison)]
    return Group(*parts)


def plain_text(renderable: RenderableType) -> str:
    """A renderable for files: no colors, 80 columns, no trailing blanks."""
    console = SafeConsole(file=io.StringIO(), width=80, color_system=None, highlight=False)
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
            p_value(row.p_adjusted if row.comparable else None)
            .removeprefix("p ")
            .removeprefix("= "),
            f"{row.wins}/{row.ties}/{row.losses}",
        )
    names = Text(f"a = {comparison.a}\nb = {comparison.b}")
    notes = [Text(f"note: {warning}", style="yellow") for warning in comparison.warnings]
    return Group(names, Text(), table, Text(), Text(verdict(comparison)), *notes)


def verdict(comparison: "Comparison", *, a: str = "a", b: str = "b") -> str:
    """Whether the headline difference is significant; `a` and `b` are what to call the runs.

    A sentence about the rankings, and before it one about the answers where they were compared.
    Where the labels no longer fit, only that.
    """
    if comparison.labels is not None and comparison.labels.turned_over:
        words = comparison.labels.words
        return f"{words[0].upper()}{words[1:]}."
    names = list(comparison.metrics)
    ranked = [name for name in names if not isinstance(parse_figure(name), AnswerFigure)]
    headlines = dict.fromkeys([*names[:1], *ranked[:1]])
    return " ".join(_verdict(name, comparison.metrics[name], a, b) for name in headlines)


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


def _verdict(name: str, row: "PairedResult", a: str, b: str) -> str:
    metric, queries = parse_figure(name), counted(row.n, "query", "queries")
    if row.wins == row.losses == 0:
        return f"{b} and {a} score the same {metric} on every query."
    if row.significant:
        better = "better" if improvement(metric, row.difference) > 0 else "worse"
        size = figure(abs(row.difference))
        return f"{b} is {size} {better} in {metric}: a significant difference with {queries}."
    needed = row.queries_needed or 0
    # Of fewer than there are, nothing can be said: the estimate was too low.
    more = f"; about {count(needed)} queries would be needed" if needed > row.n else ""
    return f"{b} and {a} do not differ significantly in {metric} with {queries}{more}."


def _title(report: "Report") -> str:
    where = f"{report.dataset.name} {report.dataset.split}"
    agent = f" ({report.target.agent})" if report.target.agent else ""
    made = ", model-made judgments" if report.dataset.judged_by else ""
    return f"{report.target.name}{agent} on {where}, {report.track} track{made}"


def _score_lines(report: "Report") -> Iterator[ScoreLine]:
    for name, row in report.statistics.items():
        yield ScoreLine(str(parse_figure(name)), row.mean, row.low, row.high, row.ceiling)


def _facts(report: "Report") -> Iterator[tuple[str, str]]:
    from assay.run.state import RunState

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
    yield "latency", _latency(report)
    yield from _pacing(report)
    for gate in report.gates:
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


_SHOWN = 10
_TEXT = 44


def render_overlap(overlap: RankingOverlap) -> RenderableType:
    """Means over all queries, then the queries that changed most."""
    names = Text(f"a = {overlap.a}\nb = {overlap.b}")
    parts: list[RenderableType] = [names, Text(), facts_table(_overlap_facts(overlap))]
    if overlap.changed:
        parts += [Text(), Text("queries that changed most", style="bold"), _changed(overlap)]
    parts += [Text(), Text(overlap_verdict(overlap))]
    return Group(*parts, *(Text(f"note: {each}", style="yellow") for each in overlap.warnings))


def overlap_verdict(overlap: RankingOverlap) -> str:
    """One sentence; it says how different the rankings are, and not which is better."""
    queries = count(overlap.queries)
    if overlap.identical == overlap.queries:
        return f"The rankings of all {queries} queries are the same."
    return (
        f"Of {queries} queries {count(overlap.identical)} have the same ranking and "
        f"{count(overlap.disjoint)} have nothing in common; the mean RBO is {figure(overlap.rbo)}. "
        "Only judgments can tell which run is better."
    )


def _overlap_facts(overlap: RankingOverlap) -> list[tuple[str, str]]:
    k = overlap.top_k
    return [
        ("RBO", f"{figure(overlap.rbo)} (p {overlap.persistence:g}; 1 is the same ranking)"),
        (f"shared@{k}", f"{percent(overlap.shared)} of the places hold a document of both"),
        (f"Jaccard@{k}", figure(overlap.jaccard)),
        ("Kendall", f"{figure(overlap.tau)} (order of the documents in both)"),
        ("first place", f"the same for {count(overlap.same_first)} of {count(overlap.queries)}"),
    ]


def _changed(overlap: RankingOverlap) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("query")
    for heading in ("RBO", "shared", "new", "swapped"):
        table.add_column(heading, justify="right")
    for each in overlap.changed[:_SHOWN]:
        table.add_row(
            Text(_query(each)),
            figure(each.rbo),
            percent(each.shared),
            count(each.moved_in),
            count(each.swapped),
        )
    return table


def _query(each: QueryOverlap) -> str:
    words = " ".join(f"{each.query_id}  {each.query_text}".split())
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"
