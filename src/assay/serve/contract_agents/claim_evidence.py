"""Whether a text supports a claim: decided without a model, and left open in doubt.

A claim passes only where a sentence, or two consecutive ones, have nearly all of its words, in
about their order, all of its numbers, the same negation and direction, and no hedge of their own.
It fails where a sentence is about the same subject with another number, negation or direction.
Everything else is unclear: a paraphrase may be true, which cannot be decided here.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from assay.text import is_negation, is_stop, sentences, stem, words

ClaimVerdict = Literal["pass", "fail", "unclear"]

STRICTNESS = {"lenient": 0.7, "normal": 0.8, "strict": 1.0}
"""The share of a claim's words that its evidence must have."""

_SAME_SUBJECT = 0.75
_MIN_OVERLAP = 0.3
_IN_ORDER = 0.75
_MAX_QUOTES = 2
_CLAUSE = re.compile(
    r"[;:]\s|(?<=[.!?])\s|,\s+and\b"
    r"|\b(?:but|although|though|whereas|while|however|except|unlike)\b",
    re.IGNORECASE,
)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SMALL_NUMBERS = "two three four five six seven eight nine ten eleven twelve"
_NUMBER_WORDS = {word: str(value) for value, word in enumerate(_SMALL_NUMBERS.split(), start=2)}
# Each turns a verdict here. `contradiction.sentence.may_negate` has others ("unrelated", "little"):
# its small model has learned how much a negation weighs.
_NEGATING = _set("fail fails failed lack lacks lacked lacking absent absence unable denied")
_HEDGES = _set(
    "may might could can some sometimes few possibly perhaps probably likely unlikely suggest "
    "suggests suggested unclear unknown uncertain appear appears appeared seem seems seemed if "
    "whether hypothesis hypothesized hypothesised aim aims aimed expected planned would should "
    "potential potentially"
)
_UNIVERSAL = _set("all every always only each entire entirely completely any")
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
class Statement:
    """What a sentence says, as far as that can be read without a model.

    Parameters:
        terms: stems in order, each once, with the words of a direction under one name.
        term_set: the same, to look them up.
        directions: those of the terms that are directions, as often as they occur.
        numbers: in one spelling.
        negations: how often it negates.
        hedged: whether it limits its certainty.
        universal: whether it speaks of all cases.
    """

    terms: tuple[str, ...]
    term_set: frozenset[str]
    directions: tuple[str, ...]
    numbers: frozenset[str]
    negations: int
    hedged: bool
    universal: bool

    def negates(self, other: "Statement") -> bool:
        """Whether one of the two negates and the other does not."""
        return (self.negations - other.negations) % 2 == 1

    def opposes(self, other: "Statement") -> bool:
        """Whether both have the same axes of direction, and at least one is reversed."""
        axes = [each[:-1] for each in self.directions]
        other_axes = [each[:-1] for each in other.directions]
        return axes == other_axes and self.directions != other.directions

    def follows(self, other: "Statement") -> bool:
        """Whether its directions occur in the other, in their order."""
        theirs = iter(other.directions)
        return all(each in theirs for each in self.directions)


def read_statement(text: str) -> Statement:
    """The words, numbers, negations and directions of a text."""
    tokens = words(text)
    terms = [_term(token) for token in tokens if _has_meaning(token)]
    numbers = {_NUMBER_WORDS.get(token, token) for token in tokens}
    return Statement(
        terms=tuple(dict.fromkeys(terms)),
        term_set=frozenset(terms),
        directions=tuple(term for term in terms if _is_direction(term)),
        numbers=frozenset(_number(token) for token in numbers if token[0].isdigit()),
        negations=sum(map(_negates, tokens)),
        hedged=any(token in _HEDGES for token in tokens),
        universal=any(token in _UNIVERSAL for token in tokens),
    )


def _negates(token: str) -> bool:
    return is_negation(token) or token in _NEGATING


def _has_meaning(token: str) -> bool:
    if token[0].isdigit() or token in _NUMBER_WORDS:
        return False
    if _negates(token) or token in _HEDGES or token in _UNIVERSAL:
        return False
    return not is_stop(token) or stem(token) in _directions()


def _term(token: str) -> str:
    found = stem(token.removesuffix("'s"))
    return _directions().get(found, found)


@cache
def _directions() -> dict[str, str]:
    """Stem -> axis and sign, such as "0+"."""
    return {
        stem(word): f"{axis}{sign}"
        for axis, sides in enumerate(_DIRECTIONS)
        for sign, side in zip("+-", sides, strict=True)
        for word in side.split()
    }


def _is_direction(term: str) -> bool:
    return term.endswith(("+", "-"))


def _number(token: str) -> str:
    """12.0 and 12 are one number."""
    value = token.replace(",", ".")
    try:
        return f"{float(value):g}" if value.count(".") <= 1 and len(value) < 16 else value
    except ValueError:  # a time or a fraction
        return value


def _clauses(sentence: str) -> list[str]:
    """A negation in one clause says nothing about another."""
    return [part for part in _CLAUSE.split(sentence) if part.strip()]


@dataclass(frozen=True, slots=True)
class Evidence:
    """`quote` occurs in its chunk, letter by letter."""

    chunk_id: str
    quote: str


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """The verdict on one claim, why, and the quotes it rests on."""

    verdict: ClaimVerdict
    reason: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    """One sentence, or two consecutive ones: then `parts` are what each of them says."""

    evidence: Evidence
    statement: Statement
    clauses: tuple[Statement, ...]
    parts: tuple[Statement, ...] = ()

    @property
    def is_sentence(self) -> bool:
        return not self.parts


class EvidenceBase:
    """The sentences of the grounding, read once for all claims. `chunks` are ids and texts."""

    def __init__(self, chunks: Sequence[tuple[str, str]]) -> None:
        self._spans = [span for chunk_id, text in chunks for span in _spans(chunk_id, text)]
        self._places: dict[str, list[int]] = {}
        for place, span in enumerate(self._spans):
            for term in span.statement.terms:
                self._places.setdefault(term, []).append(place)

    def check(self, claim: str, needed: float) -> ClaimFinding:
        """The verdict on a claim; `needed` is the share of its words that evidence must have."""
        statement = read_statement(claim)
        if not statement.terms:
            return ClaimFinding("unclear", "the claim has no words to search for")
        spans = self._candidates(statement)
        supports = [span for span in spans if _supports(span, statement, needed)]
        contradicts = [
            (span, why) for span in spans if (why := _contradiction(span, statement)) is not None
        ]
        return _decide(supports, contradicts)

    def _candidates(self, claim: Statement) -> list[_Span]:
        """Sentences that share enough words with the claim to be compared with it."""
        shared = Counter(place for term in claim.terms for place in self._places.get(term, ()))
        enough = _MIN_OVERLAP * len(claim.terms)
        return [self._spans[place] for place in sorted(shared) if shared[place] >= enough]


def _spans(chunk_id: str, text: str) -> Iterator[_Span]:
    before: tuple[int, _Span] | None = None
    position = 0
    for sentence in sentences(text):
        start = text.index(sentence, position)
        position = start + len(sentence)
        span = _span(chunk_id, sentence)
        yield span
        if before is not None:
            both = _span(chunk_id, text[before[0] : position])
            yield replace(both, parts=(before[1].statement, span.statement))
        before = start, span


def _span(chunk_id: str, quote: str) -> _Span:
    clauses = tuple(read_statement(part) for part in _clauses(quote))
    return _Span(Evidence(chunk_id, quote), read_statement(quote), clauses)


def _decide(supports: Sequence[_Span], contradicts: Sequence[tuple[_Span, str]]) -> ClaimFinding:
    against = [span.evidence for span, _ in contradicts[:_MAX_QUOTES]]
    if supports and contradicts:
        both = (_shortest(supports)[0], against[0])
        return ClaimFinding("unclear", "the grounding both supports and contradicts it", both)
    if supports:
        return ClaimFinding("pass", "the grounding supports it", tuple(_shortest(supports)))
    if contradicts:
        return ClaimFinding("fail", contradicts[0][1], tuple(against))
    return ClaimFinding(
        "unclear", "nothing in the grounding supports or contradicts it in these words"
    )


def _shortest(spans: Sequence[_Span]) -> list[Evidence]:
    """One sentence is clearer evidence than two."""
    alone = [span for span in spans if span.is_sentence] or spans
    return sorted((span.evidence for span in alone), key=lambda each: len(each.quote))[:_MAX_QUOTES]


def _supports(span: _Span, claim: Statement, needed: float) -> bool:
    if _share(claim, span.statement) < needed or not claim.numbers <= span.statement.numbers:
        return False
    if any(_share(claim, part) >= needed for part in span.parts):
        return False  # one sentence has it all, so its neighbor's numbers are about something else
    clauses = _clauses_about(span, claim, needed)
    return (
        all(_agrees(clause, claim) for clause in clauses)
        and claim.follows(span.statement)
        and (not claim.universal or any(clause.universal for clause in clauses))
        and _in_order(claim.terms, span.statement.terms) >= _IN_ORDER
    )


def _agrees(clause: Statement, claim: Statement) -> bool:
    return (
        clause.negations == claim.negations
        and not claim.opposes(clause)
        and (claim.hedged or not clause.hedged)
    )


def _clauses_about(span: _Span, claim: Statement, needed: float) -> list[Statement]:
    """The clause that says it all, else all that have a part in it: where only some of them negate,
    what is negated cannot be decided by words alone."""
    whole = [clause for clause in span.clauses if _share(claim, clause) >= needed]
    return whole[:1] or [clause for clause in span.clauses if _share(claim, clause)]


def _contradiction(span: _Span, claim: Statement) -> str | None:
    """Why the span contradicts the claim: in one clause, so that what is negated is the claim."""
    if not span.is_sentence or len(_subject(claim)) < 2:
        return None
    for clause in span.clauses:
        share = 0.0 if clause.hedged else _subject_share(claim, clause)
        if share >= _SAME_SUBJECT and (why := _difference(clause, claim, share)):
            return why
    return None


def _difference(clause: Statement, claim: Statement, share: float) -> str | None:
    if claim.opposes(clause) and not claim.negates(clause):
        return "the grounding says the opposite direction"
    if claim.negates(clause) and not claim.opposes(clause):
        return "the grounding negates the claim, or the reverse"
    if share == 1 and claim.numbers and clause.numbers and not claim.numbers & clause.numbers:
        return "the grounding has different numbers"
    return None


def _share(claim: Statement, text: Statement) -> float:
    return sum(term in text.term_set for term in claim.terms) / len(claim.terms)


def _subject(claim: Statement) -> list[str]:
    """The terms without directions, which may differ."""
    return [term for term in claim.terms if not _is_direction(term)]


def _subject_share(claim: Statement, text: Statement) -> float:
    subject = _subject(claim)
    return sum(term in text.term_set for term in subject) / len(subject) if subject else 0.0


def _in_order(wanted: Sequence[str], text: Sequence[str]) -> float:
    """The longest common subsequence of the shared terms, as a share of them."""
    places = {term: place for place, term in enumerate(text)}
    shared = [places[term] for term in wanted if term in places]
    longest: list[int] = []
    for at, place in enumerate(shared):
        longest.append(1 + max((longest[i] for i in range(at) if shared[i] < place), default=0))
    return max(longest, default=0) / len(shared) if shared else 0.0
