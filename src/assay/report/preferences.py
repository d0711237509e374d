"""Preferences between the answers of two runs, for terminal and page: a sentence, and facts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from assay.report.console import facts_table
from assay.report.numbers import count, counted, p_value, percent, with_interval
from assay.run.answers import PreferenceReport
from assay.run.models import AnswerRow

_SHOWN = 5
_LONGEST = 600
_SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class PreferredAnswer:
    """A question with both answers, for the page."""

    query_id: str
    text: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class PreferenceView:
    """What the template `preference.html` shows; `examples` by who won, a then b."""

    report: PreferenceReport
    verdict: str
    facts: Sequence[tuple[str, str]]
    examples: Sequence[tuple[str, Sequence[PreferredAnswer]]]


def preference_verdict(found: PreferenceReport, a: str = "a", b: str = "b") -> str:
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


def preference_facts(found: PreferenceReport) -> Iterator[tuple[str, str]]:
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
        cost = f"; {spending.cost:.2f} US dollars" if spending.cost else ""
        yield "calls", f"{count(spending.calls)}, {count(spending.cached)} cached{cost}"


def render_preference(found: PreferenceReport) -> RenderableType:
    """For a terminal."""
    verdict = Text(preference_verdict(found), style="bold")
    return Group(facts_table(list(preference_facts(found))), Text(), verdict)


def preference_view(
    found: PreferenceReport,
    rows_a: Mapping[str, AnswerRow],
    rows_b: Mapping[str, AnswerRow],
    a: str,
    b: str,
) -> PreferenceView:
    """For a page; the runs are called `a` and `b`."""

    def examples(winner: str) -> list[PreferredAnswer]:
        ids = [row.query_id for row in found.rows if row.winner == winner][:_SHOWN]
        return [
            PreferredAnswer(
                each,
                rows_a[each].query_text,
                (rows_a[each].answer or "")[:_LONGEST],
                (rows_b[each].answer or "")[:_LONGEST],
            )
            for each in ids
        ]

    return PreferenceView(
        found,
        preference_verdict(found, a, b),
        list(preference_facts(found)),
        [(f"{name} is preferred", examples(winner)) for winner, name in (("a", a), ("b", b))],
    )
