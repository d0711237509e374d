"""What a sentence says, as far as that can be told without a model: its words, its numbers,
whether it denies, which way it points, and how sure it is."""

import re
from dataclasses import dataclass

import Stemmer

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*")
_CLAUSE = re.compile(
    r"[;:]\s|(?<=[.!?])\s|,\s+and\b"
    r"|\b(?:but|although|though|whereas|while|however|except|unlike)\b",
    re.IGNORECASE,
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NUMBER_WORDS = {
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "eleven": "11",
    "twelve": "12",
}
_NEGATIONS = _set(
    "no not never none neither nor without cannot nobody nothing fail fails failed lack lacks "
    "lacked lacking absent absence unable denied"
)
_HEDGES = _set(
    "may might could can some sometimes few possibly perhaps probably likely unlikely suggest "
    "suggests suggested unclear unknown uncertain appear appears appeared seem seems seemed if "
    "whether hypothesis hypothesized hypothesised aim aims aimed expected planned would should "
    "potential potentially"
)
_UNIVERSAL = _set("all every always only each entire entirely completely any")
_EMPTY = _set(
    "a an and are as at be been being by did do does doing for from had has have having he her his "
    "i in into is it its of on or our she so such than that the their them then there these they "
    "this those to too was we were what when where which who whom whose will with you your also "
    "more most very"
)
_UP = "increase raise rise rose risen high higher highest elevate elevated grow grew gain greater"
_DOWN = "decrease reduce lower low lowest fall fell fallen decline drop diminish less fewer lose"
_DIRECTIONS = (
    (_UP, _DOWN),
    ("improve better benefit beneficial", "worsen worse harm harmful"),
    ("positive", "negative"),
    ("before", "after"),
    ("effective", "ineffective"),
    ("safe", "unsafe dangerous"),
    ("alive survive survived", "dead die died"),
)


@dataclass(frozen=True, slots=True)
class Words:
    """`terms` in order, each once: stems, with the words of a direction under one name. `turns`
    are the directions in order, each as often as it comes; `denials` is how often it denies."""

    terms: tuple[str, ...]
    turns: tuple[str, ...]
    numbers: frozenset[str]
    denials: int
    hedged: bool
    universal: bool

    def denies(self, other: "Words") -> bool:
        return (self.denials - other.denials) % 2 == 1

    def opposes(self, other: "Words") -> bool:
        """Whether it speaks of the same directions, and at least one is turned round."""
        axes = [turn[:-1] for turn in self.turns]
        return axes == [turn[:-1] for turn in other.turns] and self.turns != other.turns

    def follows(self, other: "Words") -> bool:
        """Whether its directions are found in the other, in their order."""
        theirs = iter(other.turns)
        return all(turn in theirs for turn in self.turns)


class WordReader:
    """Not for several threads at once: the stemmer is not."""

    def __init__(self) -> None:
        self._stem = Stemmer.Stemmer("english").stemWord
        self._direction = {
            self._stem(word): f"{place}{sign}"
            for place, sides in enumerate(_DIRECTIONS)
            for sign, words in zip("+-", sides, strict=True)
            for word in words.split()
        }

    def read(self, text: str) -> Words:
        tokens = [token.lower().replace("’", "'") for token in _TOKEN.findall(text)]
        plain = {_NUMBER_WORDS.get(token, token) for token in tokens}
        terms = [self._term(token) for token in tokens if self._carries_meaning(token)]
        return Words(
            terms=tuple(dict.fromkeys(terms)),
            turns=tuple(term for term in terms if is_direction(term)),
            numbers=frozenset(_number(token) for token in plain if token[0].isdigit()),
            denials=sum(token in _NEGATIONS or token.endswith("n't") for token in tokens),
            hedged=any(token in _HEDGES for token in tokens),
            universal=any(token in _UNIVERSAL for token in tokens),
        )

    def _carries_meaning(self, token: str) -> bool:
        if token[0].isdigit() or token in _NUMBER_WORDS or token.endswith("n't"):
            return False
        return not (token in _EMPTY or token in _NEGATIONS or token in _HEDGES | _UNIVERSAL)

    def _term(self, token: str) -> str:
        stem = str(self._stem(token.removesuffix("'s")))
        return self._direction.get(stem, stem)


def is_direction(term: str) -> bool:
    return term.endswith(("+", "-"))


def clauses_of(sentence: str) -> list[str]:
    """A denial in one clause says nothing about another."""
    return [part for part in _CLAUSE.split(sentence) if part.strip()]


def _number(token: str) -> str:
    """1,200 and 1200 are one number, and so are 12.0 and 12."""
    digits = token.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", token) else token
    value = digits.replace(",", ".")
    try:
        return f"{float(value):g}" if value.count(".") <= 1 and len(value) < 16 else value
    except ValueError:
        return value
