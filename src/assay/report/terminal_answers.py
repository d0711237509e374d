"""The answers of a run, and which of two runs' answers a judge prefers, for a terminal."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.answers.figures import AnswerFigure
from assay.report.console import facts_table, figures_table
from assay.report.numbers import (
    ceiling,
    count,
    counted,
    dollars,
    figure,
    interval,
    p_value,
    percent,
    with_interval,
)

if TYPE_CHECKING:  # `assay score` prints a table and needs no models of runs
    from assay.run.answers import (
        AnswersReport,
        ContextName,
        CriterionRecord,
        JudgeRecord,
        PoisonReport,
        PreferenceReport,
    )

_WORDINGS = 3
_MAX_FINDINGS = 5
_EXAMPLES = 2
_SIGNIFICANT = 0.05
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


def preference_verdict(found: "PreferenceReport", a: str = "a", b: str = "b") -> str:
    """Which run's answers are preferred, and whether chance could do the same, in one sentence."""
    if found.trouble or found.wins_a is None or found.wins_b is None or found.p_value is None:
        return f"Not judged: {found.trouble}."
    better, worse = (b, a) if found.wins_b > found.wins_a else (a, b)
    won, lost = max(found.wins_a, found.wins_b), min(found.wins_a, found.wins_b)
    score = f"{count(won)} to {count(lost)}, {counted(found.ties or 0, 'tie')}"
    p = p_value(found.p_value)
    if not won:
        return f"No answer of {a} or {b} is preferred in both orders: {score}."
    if found.p_value < _SIGNIFICANT:
        return f"The answers of {better} are preferred to those of {worse}: {score} ({p})."
    return f"Neither {a} nor {b} is preferred significantly: {score} ({p})."


def preference_facts(found: "PreferenceReport") -> Iterator[tuple[str, str]]:
    """Labels and values: counts, rates, the judge and what it cost."""
    if found.wins_a is not None and found.win_rate_b is not None:
        won = f"a {count(found.wins_a)}, b {count(found.wins_b or 0)}"
        ties = f"ties {count(found.ties or 0)} of {counted(found.pairs, 'question')}"
        yield "preferred", f"{won}, {ties}"
        rate = with_interval(found.win_rate_b, found.low, found.high)
        yield "b wins", f"{rate}, ties as half"
        yield "sign test", p_value(found.p_value or 0.0)
    elif found.trouble:
        yield "not judged", found.trouble
    if found.decided_by_rule:
        yield "by rule", f"{counted(found.decided_by_rule, 'pair')}: the same text, or no answer"
    asked = found.pairs - found.decided_by_rule
    if asked:
        flips = f"{count(found.flips)} of {count(asked)} ({percent(found.flips / asked)})"
        yield "flips", f"{flips}: each answer was preferred once, which wins nothing"
    if found.undecided:
        yield "undecided", counted(found.undecided, "pair")
    judge = f"{found.judge}, {counted(found.votes, 'vote')} each, half with b first"
    if found.controls:
        judge += f"; {count(found.controls_right)} of {count(found.controls)} controls right"
    yield "judge", judge
    if spending := found.spending:
        cost = f"; {dollars(spending.cost)}" if spending.cost else ""
        yield "calls", f"{count(spending.calls)}, {count(spending.cached)} cached{cost}"


def render_preference(found: "PreferenceReport") -> RenderableType:
    """For a terminal."""
    verdict = Text(preference_verdict(found), style="bold")
    return Group(facts_table(list(preference_facts(found))), Text(), verdict)
