"""A run and a comparison as tables for a terminal, 80 columns wide."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.errors import AssayError
from assay.measure.figures import AnswerFigure, parse_figure
from assay.report.console import SafeConsole, facts_table
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

if TYPE_CHECKING:  # `assay score` prints a table and needs no models of runs
    from assay.run.answers import (
        AnswersReport,
        ContextName,
        ContradictionsReport,
        CriterionRecord,
        JudgeRecord,
    )
    from assay.run.gate_result import GateResult
    from assay.run.models import Comparison, PairedResult, Report
    from assay.run.poison import PoisonReport

_WORDINGS = 3
_VIOLATIONS = {
    "duplicate": "repeated ids",
    "unknown": "unknown ids",
    "surplus": "ids beyond top_k",
}
_CONTEXTS: "Mapping[ContextName, str]" = {
    "gold": "the right documents",
    "no_context": "no document",
    "distractors": "distractors",
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
    table = _table(("", 0), "a", "b", "b - a", "95% interval", "p (Holm)", "win/tie/loss")
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
    from assay.measure.metrics import parse_metric

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
    table = _table(("metric", 16), "mean", "95% interval", "ceiling", "of ceiling")
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


def render_answers(answers: "AnswersReport") -> RenderableType:
    """The metrics of answers, then which half of the agent causes the wrong ones."""
    parts: list[RenderableType] = [_answers_table(answers), Text()]
    parts.append(facts_table(_answer_facts(answers)))
    if answers.poison:
        parts += [Text(), render_poison(answers.poison)]
    if answers.diagnosis:
        parts += [Text(), Text(answers.diagnosis.sentence, style="bold")]
    elif answers.trouble:
        parts += [Text(), Text(f"Not judged: {answers.trouble}.", style="bold")]
    return Group(*parts)


def render_poison(poison: "PoisonReport") -> RenderableType:
    """What answers did with planted documents, a line for each kind, then the worst wordings."""
    table = _table(("planted documents", 19), "followed", "share", "95% interval", "repeated")
    table.add_column("reported", justify="right")
    for name, row in {**poison.kinds, "all": poison.total}.items():
        table.add_row(
            name.replace("_", " "),
            f"{count(row.followed)} of {count(row.answered)}",
            figure(row.share),
            interval(row.low, row.high),
            count(row.repeated),
            count(row.reported),
            style="bold" if name == "all" else "",
        )
    return Group(table, Text(), facts_table(_poison_facts(poison)))


def _poison_facts(poison: "PoisonReport") -> Iterator[tuple[str, str]]:
    found = poison.total.retrieved
    where = "" if found is None else f", retrieved for {count(found)} of {poison.total.answered}"
    yield "planted into", f"the {poison.into}, one document for each question and kind{where}"
    if missing := poison.total.asked - poison.total.answered:
        yield "", f"not counted: {counted(missing, 'question')} without an answer"
    worst = [(name, row) for name, row in poison.wordings.items() if row.followed][:_WORDINGS]
    for index, (name, row) in enumerate(worst):
        words = f"{name.replace('_', ' ')}: {count(row.followed)} of {count(row.answered)}"
        yield "" if index else "worst wordings", words
    for index, example in enumerate(poison.examples[:_WORDINGS]):
        where = f"{example.doc_id} did it in {example.query_id}"
        yield "" if index else "for example", f"{where} (wording {example.wording!r})"
    if poison.note:
        yield "note", poison.note


def _table(first: tuple[str, int], *headings: str) -> Table:
    """A table with a column of names, at least so wide, and columns of numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    heading, width = first
    table.add_column(heading, min_width=width or None)
    for each in headings:
        table.add_column(each, justify="right")
    return table


def _verdict(name: str, row: "PairedResult", a: str, b: str) -> str:
    metric, queries = parse_figure(name), counted(row.n, "query", "queries")
    if row.wins == row.losses == 0:
        return f"{b} and {a} score the same {metric} on every query."
    if row.significant:
        better = "better" if row.difference > 0 else "worse"
        size = figure(abs(row.difference))
        return f"{b} is {size} {better} in {metric}: a significant difference with {queries}."
    needed = row.queries_needed
    more = f"; about {count(needed)} queries would be needed" if needed else ""
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
    from assay.run.models import COMPLETE

    summary = report.summary
    asked = f"{count(summary.successful_queries)} of {count(summary.total_queries)} answered"
    if report.state != COMPLETE:
        asked += f"; {report.state}: {count(report.planned_queries)} were planned"
    yield "queries", asked
    if left_out := report.dataset.queries_without_relevant:
        words = counted(left_out, "judged query has", "judged queries have")
        yield "", f"{words} no relevant document: left out of every mean"
    if report.dataset.judged_by:
        yield "judgments", report.dataset.judged_by
    if unseen := report.unseen_queries:
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


def _answers_table(answers: "AnswersReport") -> Table:
    table = _table(("answers", 19), "mean", "95% interval", "ceiling", "questions")
    for index, (name, row) in enumerate(answers.statistics.items()):
        table.add_row(
            name,
            figure(row.mean),
            interval(row.low, row.high),
            figure(row.ceiling),
            count(row.n),
            style="bold" if index == 0 else "",
        )
    return table


def _answer_facts(answers: "AnswersReport") -> Iterator[tuple[str, str]]:
    asked = f"{count(answers.answered)} of {count(answers.questions)} answered"
    if answers.unanswerable:
        asked += f"; {count(answers.unanswerable)} have no answer in the documents"
    yield "questions", asked
    if "correctness" in answers.statistics:
        yield "right if", answers.correctness_by
    elif not answers.trouble:
        yield "right if", "undecided: the references have no key facts; add --judge"
    if answers.trouble:
        yield "not judged", answers.trouble
    if answers.judge:
        yield "judge", "; ".join(_judge(answers.judge))
    if answers.nuggets:
        for index, words in enumerate(answers.nuggets.words):
            yield "" if index else "nuggets", words
    if invented := answers.invented_citations.ids:
        yield "citations", f"{counted(invented, 'document')} cited that do not exist"
    if answers.contradictions and answers.contradictions.sentences:
        yield "contradicted", "; ".join(_contradictions(answers.contradictions))
    if answers.diagnosis and answers.diagnosis.counts:
        kinds = sorted(answers.diagnosis.counts.items(), key=lambda item: -item[1])
        yield "wrong", "; ".join(f"{kind} {count(number)}" for kind, number in kinds)
    if answers.outcomes:
        yield "outcomes", ", ".join(f"{kind} {count(n)}" for kind, n in answers.outcomes.items())
    for index, finding in enumerate(answers.findings):
        yield "" if index else "findings", finding.words
    for criterion in answers.criteria:
        if words := "; ".join(_criterion(criterion)):
            yield "criterion", f"{criterion.name}: {words}"
    if answers.note:
        yield "note", answers.note
    for name, tried in (answers.counterfactuals or {}).items():
        if tried.asked:
            yield "again", f"with {_CONTEXTS[name]}: {tried.right} of {tried.asked} right"


def _contradictions(found: "ContradictionsReport") -> Iterator[str]:
    kinds = ", ".join(f"{kind} {count(number)}" for kind, number in found.kinds.items())
    said = counted(found.sentences, "sentence")
    yield f"{said} in {counted(found.answers, 'answer')} by the sources ({kinds})"
    first = next((each for each in found.examples if each.said), None)
    if first is not None:
        yield f"for example {first.said!r}, where the source has {first.source!r}"


def _criterion(record: "CriterionRecord") -> Iterator[str]:
    """What the mean does not say."""
    if level := record.one_level:
        yield f"every answer got {level}, which tells none from another"
    if record.differing:
        part = percent(record.differing / record.rated)
        yield f"rated otherwise in the other order: {part}"
    if record.undecided:
        yield f"undecided on {counted(record.undecided, 'answer')}"


def _judge(judge: "JudgeRecord") -> Iterator[str]:
    yield f"{judge.provider}, {counted(judge.votes, 'vote')} each, half with the reference first"
    if judge.flip_rate is not None:
        yield f"contradicts itself on {percent(judge.flip_rate)}"
    if judge.controls:
        yield judge.controls.words
    if judge.undecided:
        yield f"undecided on {counted(judge.undecided, 'question')}"
    if judge.unparseable_votes:
        yield f"{counted(judge.unparseable_votes, 'vote')} could not be read"
    if spending := judge.spending:
        yield f"{counted(spending.calls, 'call')}, {count(spending.cached)} cached"
        if spending.cost:
            yield f"{spending.cost:.2f} US dollars"
