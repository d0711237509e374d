"""Contradictions made from true sentences, for training and for tests.

Each way to contradict gives the place of one change. A sentence that is negated becomes plain as
often as the other way round, so that being negated does not give a contradiction away.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from assay.measure.answers.contradiction.sentence import opposite_words

KINDS = ("negation", "opposite", "number", "unit", "name")
"""What can be changed in a sentence."""

_IRREGULAR = {
    "rise": ("rises", "rose", "rising"),
    "fall": ("falls", "fell", "falling"),
    "grow": ("grows", "grew", "growing"),
    "shrink": ("shrinks", "shrank", "shrinking"),
    "begin": ("begins", "began", "beginning"),
    "win": ("wins", "won", "winning"),
    "lose": ("loses", "lost", "losing"),
    "leave": ("leaves", "left", "leaving"),
    "buy": ("buys", "bought", "buying"),
    "sell": ("sells", "sold", "selling"),
    "stop": ("stops", "stopped", "stopping"),
    "forbid": ("forbids", "forbade", "forbidding"),
}
_VERB_LIST = """
    increase decrease promote inhibit enhance impair activate suppress induce improve worsen
    raise lower elevate reduce stimulate upregulate downregulate accelerate facilitate hinder
    strengthen weaken expand shrink cause prevent extend shorten support oppose enable disable
    protect harm repress allow forbid maintain disrupt rise fall grow succeed fail accept reject
    approve open close begin end start stop win lose gain add remove include exclude arrive
    leave pass buy sell import export alleviate aggravate diminish delay
"""
_VERBS = frozenset(_VERB_LIST.split())
_AUXILIARY = "is|are|was|were|can|could|will|would|has|have|had|should|may|might|must"
_NEGATED = re.compile(
    rf"\b(?:(does|do|did) not|(does|do|did)n't) (\w+)|\b({_AUXILIARY})(?: not|n't)\b",
    re.IGNORECASE,
)
_PLAIN = re.compile(rf"\b({_AUXILIARY})\b(?! not|n't)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:\.\d+)?(?![\w:/-]|[.,]\d)")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")
_SWAPPED_UNITS = {
    "seconds": "minutes", "minutes": "hours", "minute": "hour", "min": "hours", "hours": "minutes",
    "hour": "minute", "days": "weeks", "day": "week", "weeks": "months", "months": "weeks",
    "years": "months", "mm": "cm", "cm": "mm", "m": "km", "km": "m", "mg": "g", "g": "kg",
    "kg": "g", "ml": "liters", "mb": "GB", "gb": "MB", "euros": "dollars", "dollars": "euros",
}  # fmt: skip


def contradict(
    sentence: str, rng: random.Random, kinds: Sequence[str] = KINDS, names: Sequence[str] = ()
) -> tuple[str, str] | None:
    """The sentence with one change that contradicts it, and the kind of change.

    Parameters:
        sentence: a true sentence.
        rng: chooses among the possible changes.
        kinds: the kinds of change to choose from.
        names: other names that may stand in place of one in the sentence.
    """
    made = [(kind, text) for kind in kinds for text in _changes(kind, sentence, rng, names)]
    if not made:
        return None
    chosen = rng.choice(sorted({kind for kind, _ in made}))
    return rng.choice([text for kind, text in made if kind == chosen]), chosen


def _changes(kind: str, sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    if kind == "name":
        yield from _rename(sentence, rng, names)
    else:
        yield from _CHANGES[kind](sentence, rng)


def _negate(sentence: str, rng: random.Random) -> Iterator[str]:
    negated = _NEGATED.search(sentence)
    if negated is not None:
        yield _replaced(sentence, negated, _affirmed(negated))
        return
    plain = _PLAIN.search(sentence)
    if plain is not None:
        yield sentence[: plain.end()] + " not" + sentence[plain.end() :]
        return
    for match in re.finditer(r"\b[a-z]+s\b", sentence):
        if verb := _third_person().get(match[0]):
            yield _replaced(sentence, match, f"does not {verb}")
            return


def _affirmed(match: re.Match[str]) -> str:
    if match[4]:
        return match[4]
    auxiliary, verb = (match[1] or match[2]).lower(), match[3]
    if auxiliary == "do":
        return verb
    _, third, past, _ = _forms(verb)
    return third if auxiliary == "does" else past


def _oppose(sentence: str, rng: random.Random) -> Iterator[str]:
    for match in re.finditer(r"[A-Za-z]+", sentence):
        if other := _opposite_forms().get(match[0].lower()):
            yield _replaced(sentence, match, other.capitalize() if match[0][0].isupper() else other)


def _renumber(sentence: str, rng: random.Random) -> Iterator[str]:
    for match in _NUMBER.finditer(sentence):
        value = float(match[0])
        changed = value * rng.choice((2, 3, 5)) + rng.choice((1, 2, 3))
        yield _replaced(sentence, match, f"{changed:g}" if "." in match[0] else str(int(changed)))


def _change_unit(sentence: str, rng: random.Random) -> Iterator[str]:
    for match in re.finditer(r"(?<=\d)( ?)([A-Za-z]+)\b", sentence):
        if other := _SWAPPED_UNITS.get(match[2].lower()):
            yield _replaced(sentence, match, f" {other}")


def _rename(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    for match in _NAME.finditer(sentence):
        others = [name for name in names if name not in sentence]
        if others:
            yield _replaced(sentence, match, rng.choice(others))


def _replaced(sentence: str, match: re.Match[str], text: str) -> str:
    return sentence[: match.start()] + text + sentence[match.end() :]


_CHANGES: dict[str, Callable[[str, random.Random], Iterator[str]]] = {
    "negation": _negate,
    "opposite": _oppose,
    "number": _renumber,
    "unit": _change_unit,
}


@cache
def _opposite_forms() -> dict[str, str]:
    """Every form of a word that has an opposite, with the same form of that."""
    found: dict[str, str] = {}
    for one, other in opposite_words():
        verbs = one in _VERBS and other in _VERBS
        pairs = zip(_forms(one), _forms(other), strict=True) if verbs else [(one, other)]
        for a, b in pairs:
            found.setdefault(a, b)
            found.setdefault(b, a)
    return found


@cache
def _third_person() -> dict[str, str]:
    return {_forms(verb)[1]: verb for verb in sorted(_VERBS)}


def _forms(verb: str) -> tuple[str, str, str, str]:
    """A verb, "increases", "increased", "increasing"; regular ones by rule."""
    if verb in _IRREGULAR:
        return (verb, *_IRREGULAR[verb])
    root = verb.removesuffix("e")
    third = verb + ("es" if re.search(r"(?:s|sh|ch|x|o)$", verb) else "s")
    return verb, third, f"{root}ed", f"{root}ing"


def names_in(texts: Sequence[str]) -> list[str]:
    """The names in some texts, each once, in alphabetical order."""
    return sorted({name for text in texts for name in _NAME.findall(text)})
