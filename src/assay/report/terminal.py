"""A run and a comparison as tables for a terminal, 80 columns wide."""

import io
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.measure.figures import AnswerFigure, parse_figure
from assay.report.console import SafeConsole, labelled
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

_WORDS = {"duplicate": "repeated ids", "unknown": "unknown ids", "surplus": "ids beyond top_k"}


def render_report(report: Mapping[str, Any], *, path: str) -> RenderableType:
    """Everything a person wants to know of a run: what, how good, how sure, what went wrong."""
    title = Text(_title(report), style="bold")
    parts: list[RenderableType] = [title, Text(), scores_table(report["statistics"]), Text()]
    parts.append(labelled([*_facts(report), ("run", path)]))
    if "answers" in report:
        parts += [Text(), render_answers(report["answers"])]
    if "comparison" in report:
        parts += [Text(), render_comparison(report["comparison"])]
    return Group(*parts)


def plain_text(renderable: RenderableType) -> str:
    """For files: no colours, 80 columns, no trailing blanks."""
    console = SafeConsole(file=io.StringIO(), width=80, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def render_comparison(comparison: Mapping[str, Any]) -> RenderableType:
    """`b` against `a`, a line a metric, then the verdict in words."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for heading in ("a", "b", "b - a", "95% interval", "p (Holm)", "win/tie/loss"):
        table.add_column(heading, justify="right")
    for name, row in comparison["metrics"].items():
        table.add_row(
            str(parse_figure(name)),
            figure(row["mean_a"]),
            figure(row["mean_b"]),
            difference(row["difference"]),
            interval(row["low"], row["high"]),
            p_value(row["p_adjusted"]).removeprefix("p ").removeprefix("= "),
            f"{row['wins']}/{row['ties']}/{row['losses']}",
        )
    names = Text(f"a = {comparison['a']}\nb = {comparison['b']}")
    notes = [Text(f"note: {warning}", style="yellow") for warning in comparison["warnings"]]
    return Group(names, Text(), table, Text(), Text(verdict(comparison)), *notes)


def verdict(comparison: Mapping[str, Any], *, a: str = "a", b: str = "b") -> str:
    """Whether the headline difference can be believed; `a`, `b`: their names.

    A sentence on the rankings, and where answers were compared one on those before it.
    """
    names = list(comparison["metrics"])
    ranked = [name for name in names if not isinstance(parse_figure(name), AnswerFigure)]
    headlines = dict.fromkeys([*names[:1], *ranked[:1]])
    return " ".join(_verdict(name, comparison["metrics"][name], a, b) for name in headlines)


def _verdict(name: str, row: Mapping[str, Any], a: str, b: str) -> str:
    metric, queries = parse_figure(name), counted(row["n"], "query", "queries")
    if row["wins"] == row["losses"] == 0:
        return f"{b} and {a} score the same {metric} on every query."
    better = "better" if row["difference"] > 0 else "worse"
    size = figure(abs(row["difference"]))
    if row["p_adjusted"] < 0.05:
        return f"{b} is {size} {better} in {metric}; {queries} are enough to be sure."
    needed = row["queries_needed"]
    more = f"; about {count(needed)} queries would be needed" if needed else ""
    return f"{b} and {a} cannot be told apart in {metric} with {queries}{more}."


def _title(report: Mapping[str, Any]) -> str:
    dataset = report["dataset"]
    where = f"{dataset['name']} {dataset['split']}"
    return f"{report['target']['name']} on {where}, {report['track']} track"


def scores_table(statistics: Mapping[str, Mapping[str, Any]]) -> Table:
    """A line a metric; the first is the headline."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("metric", min_width=16)
    for heading in ("mean", "95% interval", "ceiling", "of ceiling"):
        table.add_column(heading, justify="right")
    for index, (name, row) in enumerate(statistics.items()):
        table.add_row(
            str(parse_figure(name)),
            figure(row["mean"]),
            interval(row["low"], row["high"]),
            figure(row["ceiling"]),
            share(row["mean"], row["ceiling"]),
            style="bold" if index == 0 else "",
        )
    return table


def _facts(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    summary, latency = report["summary"], report["latency_ms"]
    asked = f"{count(summary['successful_queries'])} of {count(summary['total_queries'])} answered"
    if report["state"] != "complete":
        asked += f"; {report['state']}: {count(report['planned_queries'])} were planned"
    yield "queries", asked
    if unseen := report["unseen_queries"]:
        metric = parse_figure(next(iter(report["statistics"])))
        score = with_interval(unseen["mean"], unseen["low"], unseen["high"])
        yield "unseen", f"{metric} {score} on {count(unseen['queries'])} new to training"
    if report["failures"]:
        kinds = sorted(report["failures"].items(), key=lambda item: -item[1])
        yield "failures", "; ".join(f"{kind} {count(number)}" for kind, number in kinds)
        for example in report.get("failure_examples", {}).values():
            yield "", f"for example {example}"
    wrong = [
        f"{_WORDS[kind]} {count(found['ids'])} (in {counted(found['queries'], 'query', 'queries')})"
        for kind, found in report["violations"].items()
        if found["ids"]
    ]
    if wrong:
        yield "violations", "; ".join(wrong)
    yield "latency", _latency(latency, summary)
    for gate in report["gates"]:
        word = "passed" if gate["passed"] else "FAILED"
        yield "gate", f"{gate['gate']}  {word}: {figure(gate['value'])}"


def _latency(latency: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    timed = latency.get("queries", summary["successful_queries"]) > 0
    words = [
        f"{name} {duration(latency[name] / 1000 if timed else None)}"
        for name in ("p50", "p95", "p99")
    ]
    words.append(f"{rate(summary['queries_per_second'])} queries/s")
    if timeouts := latency.get("timeouts"):
        words.append(f"{counted(timeouts, 'timeout')} counted at the limit")
    return ", ".join(words)


_TRIED = {"gold": "the right documents", "no_context": "no document", "distractors": "distractors"}


def render_answers(answers: Mapping[str, Any]) -> RenderableType:
    """Figures, then whose fault the wrong ones are, in one sentence and in numbers."""
    parts: list[RenderableType] = [_answers_table(answers["statistics"]), Text()]
    parts.append(labelled(_answer_facts(answers)))
    if answers["diagnosis"]:
        parts += [Text(), Text(answers["diagnosis"]["sentence"], style="bold")]
    return Group(*parts)


def _answers_table(statistics: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("answers", min_width=19)
    for heading in ("mean", "95% interval", "ceiling", "questions"):
        table.add_column(heading, justify="right")
    for index, (name, row) in enumerate(statistics.items()):
        table.add_row(
            name,
            figure(row["mean"]),
            interval(row["low"], row["high"]),
            figure(row["ceiling"]),
            count(row["n"]),
            style="bold" if index == 0 else "",
        )
    return table


def _answer_facts(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    asked = f"{count(answers['answered'])} of {count(answers['questions'])} answered"
    if answers["unanswerable"]:
        asked += f"; {count(answers['unanswerable'])} have no answer in the documents"
    yield "questions", asked
    if "correctness" in answers["statistics"]:
        yield "right if", answers["correctness_by"]
    elif not answers["trouble"]:
        yield "right if", "not decided: the references have no key facts; add --judge"
    if answers["trouble"]:
        yield "not judged", answers["trouble"]
    if judge := answers["judge"]:
        yield "judge", "; ".join(_judge(judge))
    if invented := answers["invented_citations"]["ids"]:
        yield "citations", f"{counted(invented, 'document')} cited that do not exist"
    if diagnosis := answers["diagnosis"]:
        kinds = sorted(diagnosis["counts"].items(), key=lambda item: -item[1])
        if kinds:
            yield "wrong", "; ".join(f"{kind} {count(number)}" for kind, number in kinds)
    if answers.get("note"):
        yield "note", answers["note"]
    for name, tried in (answers["counterfactuals"] or {}).items():
        if tried["asked"]:
            right = f"{tried['right']} of {tried['asked']} right"
            yield "again", f"with {_TRIED[name]}: {right}"


def _judge(judge: Mapping[str, Any]) -> Iterator[str]:
    yield f"{judge['provider']}, {counted(judge['votes'], 'vote')} each"
    if judge["flip_rate"] is not None:
        yield f"contradicts itself on {percent(judge['flip_rate'])}"
    if judge["undecided"]:
        yield f"undecided on {counted(judge['undecided'], 'question')}"
    if judge["unparseable_votes"]:
        yield f"{counted(judge['unparseable_votes'], 'vote')} could not be read"
    if cost := judge.get("spending", {}).get("cost"):
        yield f"{cost:.2f} US dollars"
