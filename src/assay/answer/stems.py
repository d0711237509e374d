"""The words of a text that carry meaning, reduced to their stems."""

import re

import Stemmer

_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_EMPTY_WORDS = frozenset(
    _WORD.findall(
        "a about after again all am an and any are as at be been before being between both but "
        "by can could d did do does doing done down during each few for from had has have "
        "having he her here him his how i if in into is it its just ll m many may me might mine "
        "more most much must my no nor not of off on only or other our out over own re s same "
        "shall she should so some such t than that the their them then there these they this "
        "those to too under up us ve very was we were what when where which who whom whose why "
        "will with would you your"
    )
)


class Stems:
    """A stemmer belongs to one thread, so whoever compares texts has one of these."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")

    def __call__(self, text: str) -> list[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in _EMPTY_WORDS]
        stems: list[str] = self._stemmer.stemWords(words)
        return stems
