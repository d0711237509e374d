"""From a judge's words to a verdict, strictly: one of the allowed words alone, or no verdict."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from assay.measure.graded import Floats

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(r"\A(?:answer|verdict|response|result)\s*[:=]\s*", re.IGNORECASE)
_WRAPPING = " \t\r\n.!*_`\"'“”‘’()[]"


class Vote(StrEnum):
    TRUE = "true"
    FALSE = "false"
    UNPARSEABLE = "unparseable"
    REFUSED = "refused"


def parse_word(reply: str, allowed: Sequence[str]) -> str | None:
    """The one allowed word that the reply consists of, else None.

    Case, quotes, emphasis, a final full stop and a label ("Answer:") do not matter, nor does the
    thinking that some models put first. Anything more could mean either: "not true", "TRUE or
    FALSE", "TRUE, except that ...", an essay that mentions both.
    """
    bare = _THOUGHT.sub("", reply).strip(_WRAPPING)
    word = _LABEL.sub("", bare).strip(_WRAPPING).upper()
    return word if word in allowed else None


def parse_vote(reply: str) -> Vote:
    word = parse_word(reply, ("TRUE", "FALSE"))
    return Vote.UNPARSEABLE if word is None else Vote[word]


@dataclass(frozen=True, slots=True)
class Judgment:
    """What the votes of one question come to; `by_rule` where nobody had to be asked."""

    votes: tuple[Vote, ...]
    by_rule: bool = False

    @property
    def verdict(self) -> bool | None:
        """What more than half of all votes say; None where no side has that.

        A vote that is no verdict counts against both: were it left out, one clear vote among
        five could decide.
        """
        for vote, count in Counter(self.votes).items():
            if 2 * count > len(self.votes) and vote in (Vote.TRUE, Vote.FALSE):
                return vote is Vote.TRUE
        return None

    @property
    def flipped(self) -> bool:
        """Whether the judge said both TRUE and FALSE about the same two answers."""
        return {Vote.TRUE, Vote.FALSE} <= set(self.votes)

    @property
    def unparseable(self) -> int:
        return sum(vote in (Vote.UNPARSEABLE, Vote.REFUSED) for vote in self.votes)


def correctness_values(judgments: Sequence[Judgment]) -> Floats:
    """1 for TRUE, else 0: an undecided judge makes no answer right, so tell how often it was."""
    return np.array([float(each.verdict is True) for each in judgments], dtype=np.float64)


def flip_rate(judgments: Sequence[Judgment]) -> float | None:
    """The share of questions about which the judge contradicts itself; None where none was put to
    it twice.
    """
    repeated = [each for each in judgments if len(each.votes) > 1]
    return sum(each.flipped for each in repeated) / len(repeated) if repeated else None
