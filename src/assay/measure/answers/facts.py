"""Key facts: which of the things that a right answer must say does this one say?"""

import re
from collections.abc import Sequence
from functools import lru_cache

from assay.data.dataset import Fact
from assay.measure.answers.words import fold

# A number goes on across these: 7 is not stated by 7.5, 7:00 not by 17:00 or 7:00:30.
_JOINS = r"[.,:/]"
_LAST_WORD = re.compile(r"[^\W\d_]+$")
_STEM = 3


def states(text: str, fact: Fact) -> bool:
    """Whether any accepted wording stands in the text, at the boundaries of words and numbers.

    Cannot see meaning: "not before 1 September" states "1 September", and a right answer in words
    that nobody foresaw states nothing.
    """
    return contains_any(text, fact.accept)


def contains_any(text: str, phrases: Sequence[str]) -> bool:
    folded = fold(text)
    return any((pattern := _pattern(each)) and pattern.search(folded) for each in phrases)


def fact_recall(text: str, facts: Sequence[Fact]) -> float:
    """The share of the facts that are stated; 0 where there are none to state."""
    return sum(states(text, fact) for fact in facts) / len(facts) if facts else 0.0


@lru_cache(maxsize=4096)
def _pattern(phrase: str) -> re.Pattern[str] | None:
    folded = fold(phrase)
    if not folded:
        return None
    return re.compile(_left(folded) + re.escape(folded) + _right(folded))


def _left(phrase: str) -> str:
    """A phrase that begins with a sign, such as "€ 5", is its own boundary."""
    if not phrase[0].isalnum():
        return ""
    return rf"(?<!\w)(?<!\d{_JOINS})" if phrase[0].isdigit() else r"(?<!\w)"


def _right(phrase: str) -> str:
    """Reference files shorten words to cover their forms: "40 min" and "sync" stand for "40
    minutes" and "syncs". A number, or a word too short to be a stem, ends where it ends.
    """
    if phrase[-1].isdigit():
        return rf"(?!\w)(?!{_JOINS}\d)"
    if not phrase[-1].isalpha():
        return ""
    last = _LAST_WORD.search(phrase)
    return "" if last and len(last[0]) >= _STEM else r"(?!\w)"
