"""A run for CI: JUnit XML for test reports, Markdown for a job's summary."""

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import shorten
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from assay.metrics.figures import parse_figure
from assay.net.redact import markdown_text, printable
from assay.report.numbers import count, duration, figure, with_interval
from assay.report.terminal import comparison_rows, gate_verdict, verdict
from assay.run.models import Comparison, Report, RunHeader

# Not in any XML document, not even escaped.
_FORBIDDEN = re.compile("[^\\t\\n\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def render_junit(report: Report, name: str) -> bytes:
    """One test case a gate, and one for the run itself: an error if it did not complete."""
    seconds = f"{report.summary.total_time_seconds:.3f}"
    suite = _suite(f"{report.target.title} on {report.dataset.name} {report.dataset.split}")
    suite.set("timestamp", _xml(report.started))
    suite.set("time", seconds)
    trouble = f"{report.failure_reason} (run {name})" if report.failure_reason else ""
    _add_case(suite, "run", "error", trouble, seconds)
    for gate in report.gates:
        _add_case(suite, gate.gate, "failure", "" if gate.passed else gate_verdict(gate, report))
    lines = [f"{metric} {score}" for metric, score in _scores(report)]
    if report.comparison:
        lines += [verdict(report.comparison), *report.comparison.warnings]
    SubElement(suite, "system-out").text = _xml("\n".join(lines))
    return _document(suite)


def render_junit_error(target: str, message: str) -> bytes:
    """The file of an evaluation that could not start, or broke off without a report."""
    suite = _suite(target)
    _add_case(suite, "run", "error", message)
    return _document(suite)


def _suite(name: str) -> Element:
    return Element("testsuite", name=_xml(f"assay: {name}"), tests="0", failures="0", errors="0")


def _add_case(suite: Element, name: str, kind: str, problem: str, seconds: str = "0") -> None:
    """A test case; with a `problem` it is counted as `kind`, an error or a failure."""
    case = SubElement(suite, "testcase", classname="assay", name=_xml(name), time=seconds)
    if problem:
        type_ = {"error": "RunFailed", "failure": "GateFailed"}[kind]
        SubElement(case, kind, message=_xml(problem), type=type_).text = _xml(problem)
    for counter in ("tests", f"{kind}s") if problem else ("tests",):
        suite.set(counter, str(int(suite.get(counter, 0)) + 1))


def _document(suite: Element) -> bytes:
    whole = Element("testsuites")
    whole.append(suite)
    indent(whole)
    # `tostring` writes ASCII with references, which is right in UTF-8 as well.
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + tostring(whole) + b"\n"


def _xml(text: str) -> str:
    return _FORBIDDEN.sub("?", text)


# --- Markdown ------------------------------------------------------------------------------------


def render_markdown(report: Report, header: RunHeader, name: str) -> str:
    """Headline, gates, scores and comparison of the run `name`, short enough for a pull request."""
    return "\n\n".join(_paragraphs(report, header, name)) + "\n"


def render_markdown_error(target: str, message: str) -> str:
    """The summary of an evaluation that could not start, or broke off without a report."""
    return f"### {markdown_text(target)}\n\n**Not measured: {markdown_text(message)}**\n"


def _paragraphs(report: Report, header: RunHeader, name: str) -> Iterator[str]:
    metric, score = report.headline
    where = f"{report.dataset.name} {report.dataset.split}"
    yield f"### {markdown_text(report.target.title)} on {markdown_text(where)}"
    summary = report.summary
    if summary.successful_queries:
        answered = f"{count(summary.successful_queries)} of {count(summary.total_queries)}"
        latency = duration(report.latency_ms.p50 / 1000)
        counts = f"({answered} queries answered, median latency {latency})"
        yield f"**{metric} {with_interval(score.mean, score.low, score.high)}** {counts}"
    if report.dataset.judged_by:
        yield f"{markdown_text(report.dataset.judged_by.capitalize())}."
    if trouble := report.failure_reason:
        yield f"**{markdown_text(trouble)}**"
    for example in () if summary.successful_queries else report.failure_examples.values():
        yield f"For example {markdown_text(example)}"
    if report.gates:
        rows = [
            (
                markdown_text(gate.gate),
                "passed" if gate.passed else "**FAILED**",
                figure(gate.value),
                markdown_text("; ".join(filter(None, (gate.reason, gate.note)))),
            )
            for gate in report.gates
        ]
        yield _table(("gate", "verdict", "value", "reason"), rows)
    if summary.successful_queries:
        yield _table(("metric", "mean and 95% interval"), _scores(report))
    if report.answers and report.answers.nuggets:
        yield f"Nuggets: {markdown_text('; '.join(report.answers.nuggets.words))}."
    if report.comparison:
        yield from _comparison(report.comparison)
    elif report.config.compare_to:
        yield f"No earlier run of {markdown_text(report.config.compare_to)} to compare with."
    shown, git = printable(" ".join(name.split())).replace("`", "'"), header.repository
    words = [f"label {header.label}" if header.label else ""]
    words.append(" ".join(filter(None, (git.branch, git.short_commit))))
    words.append(f"assay {header.versions.get('agent-assay', '')}")
    yield ", ".join([f"Run `{shown}`", *map(markdown_text, filter(None, words))]) + "."


def _scores(report: Report) -> list[tuple[str, str]]:
    return [
        (str(parse_figure(name)), with_interval(row.mean, row.low, row.high))
        for name, row in report.figures.items()
    ]


def _comparison(comparison: Comparison) -> Iterator[str]:
    a, b = comparison.a, comparison.b
    # Runs of one target that nothing tells apart, such as a service before and after a deployment.
    if a == b:
        a, b = "before", "now"
    names = markdown_text(a), markdown_text(b)
    rows = [cells[:-1] for cells in comparison_rows(comparison)]
    yield _table(("metric", *names, "difference", "95% interval", "p (Holm)"), rows)
    yield markdown_text(verdict(comparison, a=a, b=b))
    for warning in comparison.warnings:
        yield f"Note: {markdown_text(warning)}"
    if comparison.worse:
        metric = parse_figure(next(iter(comparison.metrics)))
        losses = []
        for row in comparison.worse:
            text = shorten(row.query_text, 100, placeholder="…") or row.query_id
            losses.append((markdown_text(text), figure(row.a), figure(row.b)))
        yield _table((f"largest losses in {metric}", *names), losses)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
