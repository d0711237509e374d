"""The answers of a run, for a terminal."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.metrics.figures import AnswerFigure
from assay.report.console import facts_table, figures_table
from assay.report.numbers import (
    ceiling,
    count,
    counted,
    dollars,
    figure,
    interval,
    percent,
)

if TYPE_CHECKING:  # `assay score` prints a table and needs no models of runs
    from assay.run.answers import (
        AnswersReport,
        ContextName,
        CriterionRecord,
        JudgeRecord,
        PoisonReport,
    )

_WORDINGS = 3
_MAX_FINDINGS = 5
_EXAMPLES = 2
_CONTEXTS: "Mapping[ContextName, str]" = {
    "gold": "the right documents",
    "no_context": "no document",
    "distractors": "distractors",
}


def render_answers(answers: "AnswersReport") -> RenderableType:
    """The metrics of answers, then which half of the agent causes the wrong ones."""
    parts: list[RenderableType] = [_answers_table(answers), Text()]
    parts.append(facts_table(_answer_facts(answers)))
    if answers.poison:
        parts += [Text(), render_poison(answers.poison)]
    if answers.diagnosis:
        parts += [Text(), Text(answers.diagnosis.sentence, style="bold")]
    if answers.trouble:
        parts += [Text(), Text(f"Not judged: {answers.trouble}.", style="bold")]
    return Group(*parts)


def render_poison(poison: "PoisonReport") -> RenderableType:
    """What answers did with planted documents, a line for each kind, then the worst wordings."""
    table = figures_table(
        ("planted documents", 19), "followed", "share", "95% interval", "repeated"
    )
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
    yield "planted", "one document for each question and kind, among its contexts"
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


def _answers_table(answers: "AnswersReport") -> Table:
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
    return table


def _answer_facts(answers: "AnswersReport") -> Iterator[tuple[str, str]]:
    asked = f"{count(answers.answered)} of {count(answers.questions)} answered"
    if answers.unanswerable:
        asked += f"; {count(answers.unanswerable)} have no answer in the documents"
    yield "questions", asked
    if answers.not_asked:
        yield "", answers.not_asked
    if right := answers.statistics.get("correctness"):
        yield "right if", right.how
        if answers.undecided and not answers.diagnosis:  # whose sentence says the same
            yield "undecided", answers.undecided.words
    elif answers.undecided:
        yield "right if", f"undecided: {answers.undecided.why}"
    elif not answers.trouble:
        yield "right if", "undecided: the references have no key facts; add --judge"
    if answers.judge:
        yield "judge", "; ".join(_judge(answers.judge))
    if answers.nuggets:
        for index, words in enumerate(answers.nuggets.words):
            yield "" if index else "nuggets", words
    if answers.outcomes:
        ended = [f"{kind} {count(n)}" for kind, n in answers.outcomes.items() if n]
        yield "outcomes", ", ".join(ended)
    yield from _findings(answers)
    for criterion in answers.criteria:
        if words := "; ".join(_criterion(criterion)):
            yield "criterion", f"{criterion.name}: {words}"
    if answers.note:
        yield "note", answers.note
    for name, tried in (answers.counterfactuals or {}).items():
        if tried.asked:
            yield "again", f"with {_CONTEXTS[name]}: {tried.right} of {tried.asked} right"


def _findings(answers: "AnswersReport") -> Iterator[tuple[str, str]]:
    """At most five lines; what a false alarm may explain comes last, as worth reading."""
    shown = answers.findings[:_MAX_FINDINGS]
    if len(answers.findings) > _MAX_FINDINGS:
        shown = shown[:-1]
    label = ""
    for finding in shown:
        before, label = label, "findings" if finding.sure else "worth reading"
        ids = ", ".join(finding.query_ids[:_EXAMPLES])
        yield "" if label == before else label, f"{finding.words} ({ids})" if ids else finding.words
    if more := len(answers.findings) - len(shown):
        yield "", f"and {counted(more, 'more finding')}: see the page of the run"


def _criterion(record: "CriterionRecord") -> Iterator[str]:
    """What the mean does not say."""
    if level := record.one_level:
        yield f"every answer got {level}, which does not distinguish them"
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
        if judge.controls.untested:
            yield judge.controls.untested
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
