"""Control pairs: questions to a judge whose right verdict is known without any label.

A reference answer says what it says itself, and not what the reference of another question says. A
judge that calls everything right, or everything wrong, is steady in every order and wording; only
such pairs show that its verdicts do not depend on the answers. And a reference with one number,
unit, name or negation changed (`contradict`) is wrong.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import NamedTuple

from assay.answers.abstention import abstained
from assay.answers.contradiction.sentence import opposite_words
from assay.answers.judge import Judge, Judgment, Vote
from assay.net.gather import gather
from assay.text import sentences, stems

_CANDIDATES = 200
_CONTROL_CHANGES = ("number", "unit", "name", "negation")
_UNLIKE = 0.2
_FEWEST = 2
_REMEDY = "choose another model (--judge-controls 0 asks for no control)"


class ControlPair(NamedTuple):
    """An answer and a reference; `same` is the verdict that is right."""

    question: str
    answer: str
    reference: str
    same: bool


@dataclass(frozen=True, slots=True)
class ControlResult:
    """How many of the pairs of each kind were judged rightly, and how many got no verdict."""

    same: int
    same_right: int
    different: int
    different_right: int
    mute: int = 0
    altered: int = 0
    altered_believed: int = 0
    alterable: int | None = None
    """How many references a change could be made in; None where that was not tried."""

    @property
    def asked(self) -> int:
        """Pairs of both kinds."""
        return self.same + self.different

    @property
    def right(self) -> int:
        """Pairs of both kinds that were judged rightly."""
        return self.same_right + self.different_right

    @property
    def failure(self) -> str | None:
        """Why this judge is not believed: it fails most of the pairs of one kind."""
        if 2 * self.mute > self.asked:
            return f"the judge gave no verdict for {self.mute} of {self.asked} controls; {_REMEDY}"
        if self.altered >= _FEWEST and 2 * self.altered_believed > self.altered:
            return (
                f"the judge finds {self.altered_believed} of {self.altered} references right in "
                f"which one number, unit, name or negation was changed, so that its TRUE means "
                f"little; {_REMEDY}"
            )
        return self.distrust(
            ("reject what another question's reference says", "TRUE"),
            ("find a reference right against itself", "FALSE"),
        )

    def distrust(self, different: tuple[str, str], same: tuple[str, str]) -> str | None:
        """Why its verdicts mean nothing: for each kind, what it does not do, and its verdict."""
        kinds = (
            (*different, self.different, self.different - self.different_right),
            (*same, self.same, self.same - self.same_right),
        )
        for what, verdict, asked, wrong in kinds:
            if asked >= _FEWEST and 2 * wrong > asked:
                return (
                    f"the judge does not {what} in {wrong} of {asked} controls, so that its "
                    f"{verdict} means nothing; {_REMEDY}"
                )
        return None


def control_pairs(references: Sequence[tuple[str, str]], number: int) -> list[ControlPair]:
    """At most `number` pairs of each kind, from questions with their reference answers.

    The other reference is the one that shares the fewest words; where all share some, there is none
    whose verdict would be known.
    """
    usable = _usable(references)
    if not number or len(usable) < _FEWEST:  # one pair decides nothing
        return []
    held = [frozenset(stems(said)) for _, said in usable]
    pairs = []
    for place in _spread(len(usable), number):
        question, said = usable[place]
        pairs.append(ControlPair(question, said, said, True))
        others = [each for each in _spread(len(usable), _CANDIDATES) if each != place]
        other = min(others, key=lambda each: _shared(held[each], held[place]), default=None)
        if other is not None and _shared(held[other], held[place]) <= _UNLIKE:
            pairs.append(ControlPair(question, usable[other][1], said, False))
    return pairs


def _usable(references: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(question, said) for question, said in references if said and not abstained(said)]


def support_pairs(sources: Sequence[str], number: int) -> list[ControlPair]:
    """The same where there are no references: a source's first sentence is supported by it, and
    not by a source that shares no words with it.
    """
    named = [("", first) for text in sources if (first := next(iter(sentences(text)), ""))]
    return control_pairs(named, number)


def altered_pairs(references: Sequence[tuple[str, str]], number: int) -> list[ControlPair]:
    """At most `number` references with one change each that makes them wrong.

    A judge that compares words lets these pass; it rejects the reference of another question.
    """
    usable = _usable(references)
    names, rng = names_in([said for _, said in usable[:_CANDIDATES]]), random.Random(0)
    made = (
        ControlPair(question, changed[0], said, False)
        for place in _spread(len(usable), _CANDIDATES)
        for question, said in [usable[place]]
        if (changed := contradict(said, rng, _CONTROL_CHANGES, names)) is not None
    )
    return list(islice(made, number))


async def ask_controls(
    judge: Judge, pairs: Sequence[ControlPair], altered: Sequence[ControlPair] = ()
) -> ControlResult:
    """Ask a judge about references, each in all its votes; about altered ones if it passes."""
    result = _result(pairs, await gather(judge.correctness(*pair[:3]) for pair in pairs))
    if result.failure:
        return result
    asked = await gather(judge.correctness(*pair[:3]) for pair in altered)
    believed = sum(each.verdict is True for each in asked)
    return replace(result, altered=len(altered), altered_believed=believed, alterable=len(altered))


async def ask_support_controls(judge: Judge, pairs: Sequence[ControlPair]) -> ControlResult:
    """Ask a judge whether a text supports a sentence, as it is asked about answers."""
    votes = await gather(judge.supports(pair.answer, [pair.reference]) for pair in pairs)
    return _result(pairs, [Judgment((vote,)) for vote in votes])


def _result(pairs: Sequence[ControlPair], judgments: Sequence[Judgment]) -> ControlResult:
    both = list(zip(pairs, judgments, strict=True))
    right = [pair.same for pair, judgment in both if judgment.verdict is pair.same]
    decided = (Vote.TRUE, Vote.FALSE)
    return ControlResult(
        same=sum(pair.same for pair in pairs),
        same_right=sum(right),
        different=sum(not pair.same for pair in pairs),
        different_right=len(right) - sum(right),
        mute=sum(not set(decided) & set(judgment.votes) for judgment in judgments),
    )


def _spread(count: int, number: int) -> list[int]:
    """At most `number` places of `count`, at equal distances."""
    step = max(1.0, count / number)
    return [int(place * step) for place in range(min(count, number))]


def _shared(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / max(1, min(len(a), len(b)))


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


def _negate(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
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


def _oppose(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    for match in re.finditer(r"[A-Za-z]+", sentence):
        if other := _opposite_forms().get(match[0].lower()):
            yield _replaced(sentence, match, other.capitalize() if match[0][0].isupper() else other)


def _renumber(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    for match in _NUMBER.finditer(sentence):
        value = float(match[0])
        changed = value * rng.choice((2, 3, 5)) + rng.choice((1, 2, 3))
        yield _replaced(sentence, match, f"{changed:g}" if "." in match[0] else str(int(changed)))


def _change_unit(sentence: str, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
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


_CHANGES: Mapping[str, Callable[[str, random.Random, Sequence[str]], Iterator[str]]] = {
    "negation": _negate,
    "opposite": _oppose,
    "number": _renumber,
    "unit": _change_unit,
    "name": _rename,
}
KINDS = tuple(_CHANGES)
"""What can be changed in a sentence."""


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
    made = [(kind, text) for kind in kinds for text in _CHANGES[kind](sentence, rng, names)]
    if not made:
        return None
    chosen = rng.choice(sorted({kind for kind, _ in made}))
    return rng.choice([text for kind, text in made if kind == chosen]), chosen


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
