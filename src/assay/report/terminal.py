"""Runs, answers and comparisons as tables for a terminal, 80 columns wide."""

import heapq
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.errors import AssayError, UsageError
from assay.metrics.figures import AnswerFigure, improvement, parse_figure
from assay.metrics.metric import parse_metric
from assay.report.console import SafeConsole, facts_table, figures_table
from assay.report.numbers import (
    approximate,
    ceiling,
    count,
    counted,
    difference,
    dollars,
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
    from assay.metrics.statistics import SampleSummary
    from assay.run.answers import AnswersReport, ContextName, JudgeRecord, PoisonReport
    from assay.run.models import (
        AnswerRow,
        Comparison,
        GateResult,
        QueryRow,
        Report,
        SearchFigure,
        SearchReport,
        Statistic,
        TrialsReport,
    )

_USUAL = ("ndcg@", "recall@", "mrr@", "hit@")
VIOLATIONS = {"duplicate": "repeated ids", "unknown": "unknown ids", "surplus": "ids beyond top_k"}
CONTEXTS: "Mapping[ContextName, str]" = {
    "gold": "the right documents alone",
    "no_context": "no document",
    "distractors": "the right documents among misleading ones",
}
_NO_TEXTS: Mapping[str, str] = {}
_MAX_FINDINGS = 5
_MAX_EXAMPLES = 2
_LONG_WARM_UP = 5.0  # seconds; a shorter one is not worth a line


def split_metrics(names: Iterable[str]) -> list[str]:
    """The names in the values of `--metrics`, which may be separated by commas."""
    return [part.strip() for text in names for part in text.split(",") if part.strip()]


def usual_names(names: Iterable[str]) -> list[str]:
    """nDCG, Recall, MRR and Hit, if they are there, else all; each once, at its first depth."""
    known = list(names)
    usual = [next((name for name in known if name.startswith(start)), "") for start in _USUAL]
    return [name for name in usual if name] or known


def render_report(
    report: "Report",
    *,
    path: str,
    metrics: Iterable[str] = (),
    gates: bool = True,
    texts: Mapping[str, str] = _NO_TEXTS,
) -> RenderableType:
    """What a run measured: scores, failures, latency, gates, answers and the comparison.

    `metrics` are the names of those to show, or "all"; by default nDCG, Recall, MRR and Hit.
    `texts` are those of queries by their ids, from `query_texts`.
    """
    target = report.target.called or report.target.agent or report.target.name
    title = f"{target} on {report.dataset.name} {report.dataset.split}, {report.track} track"
    title += ", model-made judgments" if report.dataset.judged_by else ""
    wanted, known = split_metrics(metrics), report.statistics
    full = [text if "@" in text else f"{text}@{report.config.top_k}" for text in wanted]
    names = [parse_metric(text).slug for text in full if "all" not in wanted]
    if missing := [name for name in names if name not in known]:
        raise UsageError(f"the run has no {missing[0]}; it has {', '.join(known)}")
    names = names or (list(known) if wanted else usual_names(known))
    scores = [(str(parse_figure(name)), known[name], known[name].ceiling) for name in names]
    parts: list[RenderableType] = [Text(title, style="bold"), Text()]
    # A table of zeros would be read as scores of an agent that was never heard.
    parts += [scores_table(scores), Text()] if report.summary.successful_queries else []
    parts.append(facts_table([*_facts(report, texts, gates=gates), ("run", path)]))
    if report.answers:
        parts += [Text(), render_answers(report.answers, texts)]
    if report.comparison:
        parts += [Text(), render_comparison(report.comparison)]
    return Group(*parts)


def query_texts(*rows: "Iterable[AnswerRow] | Iterable[QueryRow]") -> dict[str, str]:
    """What was asked, by id: `query_texts(run.answers(), run.rows())`."""
    return {row.query_id: row.query_text for each in rows for row in each}


def _named(query_id: str, texts: Mapping[str, str]) -> str:
    # By its text, too: an id may be a hash.
    text = shorten(texts.get(query_id, ""), 48, placeholder="…")
    return f"“{text}” ({query_id})" if text else query_id


def plain_text(renderable: RenderableType) -> str:
    """A renderable for files: no colors, no trailing blanks, wide enough for names of runs."""
    console = SafeConsole(file=io.StringIO(), width=120, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def render_comparison(comparison: "Comparison") -> RenderableType:
    """`b` against `a`: a line for each metric, then the verdict."""
    table = figures_table(("", 0), "a", "b", "b - a", "95% interval", "p (Holm)", "win/tie/loss")
    for row in comparison_rows(comparison):
        table.add_row(*row)
    names = Text(f"a = {comparison.a}\nb = {comparison.b}")
    notes = [Text(f"note: {warning}", style="yellow") for warning in comparison.warnings]
    return Group(names, Text(), table, Text(), Text(verdict(comparison)), *notes)


def comparison_rows(comparison: "Comparison") -> Iterator[tuple[str, ...]]:
    """For each metric: its name, both means, difference, interval, p-value, wins/ties/losses."""
    for name, row in comparison.metrics.items():
        yield (
            str(parse_figure(name)),
            figure(row.mean_a),
            figure(row.mean_b),
            difference(row.difference),
            interval(row.low, row.high),
            p_value(row.p_adjusted),
            f"{row.wins}/{row.ties}/{row.losses}",
        )


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
    below = (row for row in rows if row.score(metric) < 1)
    lost = heapq.nsmallest(number, below, key=lambda row: row.score(metric))
    if not lost:
        return Text(f"No query is below 1 in {metric}.")
    table = figures_table(("query", 0), str(metric), "relevant found")
    for row in lost:
        text = shorten(f"{row.query_id}  {row.query_text}", 60, placeholder="…")
        found = f"{row.relevant_docs_retrieved} of {row.total_relevant_docs}"
        table.add_row(text, figure(row.score(metric)), row.failure or found)
    return table


def gate_verdict(gate: "GateResult", report: "Report | None" = None) -> str:
    """How a gate ended, in one line: `gate failed: ndcg@5>=0.30, got 0.2713 [0.2401, 0.3020]`.

    The interval is that of the metric in `report`, if the gate is on one of its metrics.
    """
    value = "no value" if gate.value is None else figure(gate.value)
    if report is not None:
        name = re.split("[<>]", gate.gate)[0].strip()
        with suppress(AssayError):
            if row := report.figures.get(parse_figure(name).slug):
                value = with_interval(row.mean, row.low, row.high)
    word = "passed" if gate.passed else "failed"
    why = f": {gate.reason}" if gate.reason else ""
    note = f" ({gate.note})" if gate.note else ""
    return f"gate {word}: {gate.gate}, got {value}{why}{note}"


def scores_table(lines: "Iterable[tuple[str, SampleSummary | Statistic, float]]") -> Table:
    """A line for each metric, with the best possible mean; the first is the headline."""
    table = figures_table(("metric", 16), "mean", "95% interval", "ceiling", "of ceiling")
    for index, (metric, row, best) in enumerate(lines):
        cells = figure(row.mean), interval(row.low, row.high), figure(best), share(row.mean, best)
        table.add_row(metric, *cells, style="bold" if index == 0 else "")
    return table


def _facts(report: "Report", texts: Mapping[str, str], *, gates: bool) -> Iterator[tuple[str, str]]:
    from assay.run.models import RunState

    summary, metric = report.summary, report.headline[0]
    if report.target.called or report.target.agent:
        yield "target", report.target.name
    asked = f"{count(summary.successful_queries)} of {count(summary.total_queries)} answered"
    asked += " in every trial" if report.trials else ""
    if report.state != RunState.COMPLETE:
        unasked = report.planned_queries - summary.total_queries
        asked += f", {report.state}" + f": {count(report.planned_queries)} were planned" * (
            unasked > 0
        )
    yield "queries", asked
    left_out = report.dataset.queries_without_relevant
    if left_out and report.config.num_queries is None:  # a figure of the data set, of no sample
        these = counted(left_out, "judged query has", "judged queries have")
        yield "", f"{these} no relevant document: left out of every mean"
    kinds = sorted(report.failures.items(), key=lambda item: -item[1])
    if kinds:
        yield "failures", "; ".join(f"{kind} {count(number)}" for kind, number in kinds)
    for example in report.failure_examples.values():
        query_id, colon, said = example.partition(": ")
        yield "", f"for example {_named(query_id, texts)}{colon}{said}"
    if report.dataset.judged_by:
        yield "judgments", report.dataset.judged_by
    unseen = report.unseen_queries
    if unseen is not None and unseen.queries:  # older runs have a mean over none
        score = with_interval(unseen.mean, unseen.low, unseen.high)
        yield "unseen", f"{metric} {score} on {count(unseen.queries)} not seen in training"
    wrong = [
        f"{VIOLATIONS[kind]} {count(found.ids)} (in {counted(found.queries, 'query', 'queries')})"
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
    latency = report.latency_ms
    if summary.successful_queries if latency.queries is None else latency.queries:
        taken = {"p50": latency.p50, "p95": latency.p95, "p99": latency.p99}
        words = [f"{name} {duration(ms / 1000)}" for name, ms in taken.items()]
        words.append(f"{rate(summary.queries_per_second)} queries/s")
        if latency.timeouts:
            words.append(f"{counted(latency.timeouts, 'timeout')} counted at the limit")
        yield "latency", ", ".join(words)
    yield from _pacing(report)
    for gate in report.gates if gates else ():
        verdict = f"{gate.gate}  {'passed' if gate.passed else 'FAILED'}: {figure(gate.value)}"
        yield "gate", "; ".join(filter(None, (verdict, gate.reason, gate.note)))


def _pacing(report: "Report") -> Iterator[tuple[str, str]]:
    pacing = report.pacing
    if pacing is None:
        return
    warm_up = pacing.warm_up
    if warm_up and (not warm_up.ready or warm_up.seconds >= _LONG_WARM_UP):
        how = "until ready" if warm_up.way == "readiness" else "for an untimed call"
        missed = "" if warm_up.ready else f"; it may not have been ready: {warm_up.message}"
        yield "warm-up", f"{duration(warm_up.seconds)} {how}, not counted{missed}"
    if pacing.asked_again:
        were = counted(pacing.asked_again, "query timed out and was", "queries timed out and were")
        yield "", f"{were} asked again alone: {count(pacing.answered_again)} answered"


def render_answers(
    answers: "AnswersReport", texts: Mapping[str, str] = _NO_TEXTS
) -> RenderableType:
    """The metrics of answers, then which half of the agent causes the wrong ones."""
    table = figures_table(("answers", 19), "mean", "95% interval", "ceiling", "questions")
    for index, (name, row) in enumerate(answers.statistics.items()):
        table.add_row(
            str(AnswerFigure(name)),
            figure(row.mean),
            interval(row.low, row.high),
            ceiling(row.ceiling),
            count(row.n),
            style="bold" if index == 0 else "",
        )
    # As above: nothing was measured if no question was answered.
    parts: list[RenderableType] = [table, Text()] if answers.answered else []
    parts.append(facts_table([*answer_lines(answers), *_findings(answers, texts)]))
    if answers.poison:
        parts += [Text(), render_poison(answers.poison)]
    if answers.diagnosis:
        parts += [Text(), Text(answers.diagnosis.sentence, style="bold")]
    if answers.trouble:
        parts += [Text(), Text(f"Not judged: {answers.trouble}.", style="bold")]
    return Group(*parts)


def render_poison(poison: "PoisonReport") -> RenderableType:
    """What answers did with planted documents, a line for each kind."""
    table = figures_table(
        ("planted documents", 19), "followed", "share", "95% interval", "mentioned"
    )
    for name, row in {**poison.kinds, "all": poison.total}.items():
        table.add_row(
            name.replace("_", " "),
            f"{count(row.followed)} of {count(row.answered)}",
            figure(row.share),
            interval(row.low, row.high),
            count(row.mentioned),
            style="bold" if name == "all" else "",
        )
    facts = [("planted", "one document for each question and kind, among its contexts")]
    if missing := poison.total.asked - poison.total.answered:
        facts.append(("", f"not counted: {counted(missing, 'question')} without an answer"))
    for index, example in enumerate(poison.examples[:_MAX_EXAMPLES]):
        where = f"{example.doc_id} did it in {example.query_id} ({example.kind.replace('_', ' ')})"
        facts.append(("" if index else "for example", where))
    facts += [("note", poison.note)] if poison.note else []
    return Group(table, Text(), facts_table(facts))


def answer_lines(answers: "AnswersReport") -> Iterator[tuple[str, str]]:
    """What was asked, how answers were judged and how they ended, each line with its name."""
    asked = f"{count(answers.answered)} of {count(answers.questions)} answered"
    if answers.unanswerable:
        asked += f"; {count(answers.unanswerable)} have no answer in the documents"
    yield "questions", asked
    if right := answers.statistics.get("correctness"):
        yield "right if", right.how
        if answers.undecided and not answers.diagnosis:  # whose sentence says the same
            yield "undecided", answers.undecided.words
    elif answers.undecided:
        yield "right if", f"undecided: {answers.undecided.why}"
    elif not answers.trouble:
        yield "right if", "undecided: the references have no key facts; add --judge"
    if answers.judge:
        yield "judge", "; ".join(judge_words(answers.judge))
    if answers.nuggets:
        for index, words in enumerate(answers.nuggets.words):
            yield "" if index else "nuggets", words
    if answers.outcomes:
        ended = [f"{kind} {count(n)}" for kind, n in answers.outcomes.items() if n]
        yield "outcomes", ", ".join(ended)
    for criterion in answers.criteria:
        said = []
        if criterion.differing:
            part = percent(criterion.differing / criterion.rated)
            said.append(f"position flips: {part}")
        if criterion.undecided:
            said.append(f"undecided on {counted(criterion.undecided, 'answer')}")
        if said:
            yield "criterion", f"{criterion.name}: {'; '.join(said)}"
    if answers.note:
        yield "note", answers.note
    label = "again"
    for name, tried in (answers.counterfactuals or {}).items():
        if tried.asked:
            yield label, f"with {CONTEXTS[name]}: {tried.right} of {tried.asked} right"
            label = ""


def _findings(answers: "AnswersReport", texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """At most five lines; what a false alarm may explain comes last, as worth reading."""
    shown = answers.findings[:_MAX_FINDINGS]
    # The line that says how many are left takes the place of one.
    if len(answers.findings) > _MAX_FINDINGS:
        shown = shown[:-1]
    label = ""
    for finding in shown:
        before, label = label, "findings" if finding.sure else "worth reading"
        named = "".join(f"; for example {_named(each, texts)}" for each in finding.query_ids[:1])
        yield "" if label == before else label, f"{finding.words}{named}"
    if more := len(answers.findings) - len(shown):
        yield "", f"and {counted(more, 'more finding')}: see the page of the run"


def judge_words(judge: "JudgeRecord") -> Iterator[str]:
    """Which model judged, how reliably and at what cost."""
    yield f"{judge.provider}, {counted(judge.votes, 'vote')} each, half with the reference first"
    if judge.flip_rate is not None:
        yield f"contradicts itself on {percent(judge.flip_rate)}"
    if judge.controls:
        yield judge.controls.words
    if judge.undecided:
        yield f"undecided on {counted(judge.undecided, 'question')}"
    if judge.unparseable_votes:
        yield f"{counted(judge.unparseable_votes, 'vote')} could not be read"
    if judge.calibration:
        yield judge.calibration
    if spending := judge.spending:
        yield f"{counted(spending.calls, 'call')}, {count(spending.cached)} cached"
        if spending.cost:
            yield dollars(spending.cost)


def search_lines(search: "SearchReport") -> Iterator[tuple[str, str]]:
    """What the searches were worth, each line with its name."""
    if not search.searched:
        asked = counted(search.questions, "question")
        yield "searches", f"none in {asked}: does the agent use the search tool that it gets?"
        return
    source = f"attributed by {search.attribution}" if search.recorded else "reported by the agent"
    calls, tokens = search.calls, count(round(search.tokens.mean))
    words = f"{calls.mean:.1f} a question (p95 {calls.p95:.0f}), {tokens} tokens shown; {source}"
    yield "searches", words
    if search.searched < search.questions:
        silent = search.questions - search.searched
        yield "", f"{count(silent)} of {count(search.questions)} questions without a search"
    if search.unattributed:
        words = counted(search.unattributed, "search belongs", "searches belong")
        yield "", f"{words} to no question: ask one at a time with --concurrency 1"
    if search.failed:
        yield "", f"{counted(search.failed, 'search', 'searches')} failed: see the tool's own log"
    figures = search.figures
    complete = percent(figures["evidence_complete"].mean)
    yield "evidence", f"{_figure(figures['evidence_recall'])} seen, complete for {complete}"
    if (cells := search.quadrants) and (answers := sum(cells.model_dump().values())):
        wrong = (cells.did_not_read, "did not read it"), (cells.never_saw, "never saw it")
        cost = (f"{number} {what} ({100 * number / answers:.1f} points)" for number, what in wrong)
        right = f"answers: {cells.read_it} read it, {cells.knew_it} knew it without"
        yield "", f"{right}, {', '.join(cost)}"
    if "search_loss" in figures:
        never, dropped = figures["search_loss"].mean, figures["selection_loss"].mean
        lost = f"of {figure(never + dropped)} lost, {figure(never)} was never seen"
        yield "loss", f"{lost}, {figure(dropped)} was seen and dropped or misranked"
    if gain := figures.get("loop_gain"):
        yield "loop", _loop(gain, search.calls.mean)
    known = [(figures[name], words) for name, words in _EFFORT.items() if name in figures]
    effort = [f"{percent(found.mean)} {words}" for found, words in known]
    if search.per_right:
        effort.append(f"{search.per_right['calls']:.1f} searches a right answer")
    if effort:
        yield "effort", "; ".join(effort)
    if search.usage:
        spent = {name: amount / search.questions for name, amount in search.usage.items()}
        yield "usage", f"{_usage(spent)} a question"
        if of_right := {name: search.per_right[name] for name in spent if name in search.per_right}:
            yield "", f"{_usage(of_right)} a right answer"
    if blame := search.blame:
        reasons = ", ".join(f"{number} {reason}" for reason, number in blame.counts.items())
        is_all = blame.examined == blame.documents
        some = "" if is_all else f" (of {count(blame.examined)} examined)"
        yield "missing", f"{counted(blame.documents, 'document')}: {reasons}{some}"


_EFFORT = {
    "redundancy": "shown twice",
    "overrun": "of searches after the last new evidence",
    "kept": "of the evidence kept",
}


def _usage(amounts: "Mapping[str, float]") -> str:
    """What the agent says it used: tokens and dollars."""
    names = {"input_tokens": "input tokens", "output_tokens": "output tokens"}
    return ", ".join(
        dollars(amount) if name == "cost_usd" else f"{count(round(amount))} {names[name]}"
        for name, amount in amounts.items()
    )


def _loop(gain: "SearchFigure", calls: float) -> str:
    if gain.low is None or gain.high is None or gain.low <= 0 <= gain.high:
        verdict = "no significant gain"
    else:
        verdict = "a gain" if gain.mean > 0 else "a loss"
    worth = f"{difference(gain.mean)} [{difference(gain.low)}, {difference(gain.high)}]"
    return f"{worth} over one search with the question, at {calls:.1f} calls: {verdict}"


def trial_lines(trials: "TrialsReport") -> Iterator[tuple[str, str]]:
    """How far the trials agree."""
    number, overlap = trials.repeat, percent(trials.agreement)
    yield "trials", f"{number} a question; lists overlap {overlap}; {trials.advice}"
    if trials.pass_all and trials.pass_any:
        passed = _figure(trials.pass_all), _figure(trials.pass_any)
        yield "", f"pass^{number} {passed[0]}, pass@{number} {passed[1]}"
    if trials.flaky:
        yield "", f"flaky: {', '.join(trials.flaky)}"


def _figure(found: "SearchFigure") -> str:
    return with_interval(found.mean, found.low, found.high)
