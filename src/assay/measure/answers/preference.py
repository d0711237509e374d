"""Which of two answers a judge prefers: asked in both orders, and a win must hold in each.

Judges prefer a place: many choose what stands first (Zheng et al. 2023, "Judging LLM-as-a-judge").
Asked once, such a preference is a win; asked in both orders it is a flip, which wins nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay.answer.prompt import delimited, delimiter_code, load_prompt
from assay.measure.answers.judge import Judge
from assay.measure.answers.judge_controls import control_pairs
from assay.net.gather import gather
from assay.text import normalize

CHOICES = ("FIRST", "SECOND", "TIE")
BETTER = (
    "It says what the reference says, where there is one, and what the question asks for, "
    "completely and with nothing that is wrong. Where both do, the plainer one is better."
)
"""What is preferred where the user gives no criterion."""


class AnswerPair(NamedTuple):
    """Two answers to one question; None where an agent gave none."""

    query_id: str
    question: str
    a: str | None
    b: str | None
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Preference:
    """The choices about one pair: `votes` are `a`, `b`, `tie` or None, every second one with B
    first. `by_rule` where no model had to be asked.
    """

    query_id: str
    votes: tuple[str | None, ...]
    by_rule: bool = False

    @property
    def winner(self) -> str:
        """`a` or `b` where every vote, so both orders, says so; else `tie`."""
        said = set(self.votes)
        return said.pop() or "tie" if len(said) == 1 else "tie"

    @property
    def flipped(self) -> bool:
        """Whether both answers were preferred, each in one of the orders."""
        return {"a", "b"} <= set(self.votes)

    @property
    def mute(self) -> bool:
        """Whether a reply was none of the choices."""
        return None in self.votes


async def prefer(judge: Judge, pair: AnswerPair, criterion: str = BETTER) -> Preference:
    """Ask about one pair. The same text twice is a tie, and a missing answer loses, by rule."""
    if pair.a is None or pair.b is None:
        winner = "tie" if pair.a is pair.b else "b" if pair.a is None else "a"
        return Preference(pair.query_id, (winner,), by_rule=True)
    if normalize(pair.a) == normalize(pair.b):
        return Preference(pair.query_id, ("tie",), by_rule=True)
    prompts = [preference_prompt(pair, criterion, vote) for vote in range(judge.votes)]
    words = await gather(judge.choose(each, CHOICES) for each in prompts)
    votes = (_choice(word, reverse=place % 2 == 1) for place, word in enumerate(words))
    return Preference(pair.query_id, tuple(votes))


def _choice(word: str | None, *, reverse: bool) -> str | None:
    if word in (None, "TIE"):
        return word and "tie"
    return "b" if (word == "FIRST") is reverse else "a"


def preference_prompt(pair: AnswerPair, criterion: str = BETTER, vote: int = 0) -> str:
    """Asks for the better one; B is first in every second vote."""
    a, b = pair.a or "", pair.b or ""
    code = delimiter_code(pair.question, a, b, pair.reference, criterion, str(vote))
    first, second = (b, a) if vote % 2 else (a, b)
    shown = f"Reference:\n{delimited('answer', code, pair.reference)}" if pair.reference else ""
    return load_prompt("judge_preference").fill(
        code=code,
        question=delimited("question", code, pair.question),
        reference=shown,
        first=delimited("answer", code, first),
        second=delimited("answer", code, second),
        criterion=criterion,
    )


def preference_controls(pairs: Sequence[AnswerPair], number: int) -> list[AnswerPair]:
    """Pairs whose better answer, A, is known: a reference against another question's reference."""
    known = [(pair.question, pair.reference) for pair in pairs]
    return [
        AnswerPair("", each.question, each.reference, each.answer, each.reference)
        for each in control_pairs(known, number)
        if not each.same
    ]


def control_failure(asked: Sequence[Preference]) -> str | None:
    """Why a judge is not believed that does not prefer the reference in most controls."""
    wrong = sum(each.winner != "a" for each in asked)
    if len(asked) < 2 or 2 * wrong <= len(asked):
        return None
    return (
        f"the judge does not prefer a reference to another question's in {wrong} of {len(asked)} "
        "controls; choose another model (--judge-controls 0 asks for no control)"
    )


def unreliable_preferences(found: Sequence[Preference], max_flips: float) -> str | None:
    """Why these choices are worth nothing, in words; None if nothing speaks against them."""
    asked = [each for each in found if not each.by_rule]
    mute, flips = sum(each.mute for each in asked), sum(each.flipped for each in asked)
    if 2 * mute > len(asked):
        return (
            f"the judge made no choice for {mute} of {len(asked)} pairs; choose another model, or "
            "allow it more tokens"
        )
    if asked and flips > max_flips * len(asked):
        return (
            f"the judge preferred the other answer in {flips} of {len(asked)} pairs "
            f"({100 * flips / len(asked):.0f}%) when their order changed; at most "
            f"{100 * max_flips:g}% are accepted (--judge-max-flips); choose another model"
        )
    return None


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of so unequal a number of wins if both were as likely (exact)."""
    n, most = wins + losses, max(wins, losses)
    tail = sum(math.comb(n, each) for each in range(most, n + 1))
    return min(1.0, 2 * tail / (1 << n))
