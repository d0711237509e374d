"""Does a text say what a claim says? Without a model, and without giving it the benefit of doubt.

A claim passes only where a sentence, or two that follow each other, holds nearly all of its words,
in about their order, all of its numbers, the same denial and direction, and no hedge of its own.
It fails where a sentence speaks of the same thing with another number, denial or direction.
Everything else is unclear: a paraphrase in other words may be true, and cannot be told here.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay.serve.contract_agents.claim_words import WordReader, Words, clauses_of, is_direction

Verdict = Literal["pass", "fail", "unclear"]

STRICTNESS = {"lenient": 0.7, "normal": 0.8, "strict": 1.0}
"""The share of a claim's words that its evidence must hold."""

_SAME_SUBJECT = 0.75
_WORTH_A_LOOK = 0.3
_IN_ORDER = 0.75
_QUOTES = 2
_BOUNDARY = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """`quote` stands in its chunk, letter by letter."""

    chunk_id: str
    quote: str


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    reason: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    """One sentence, or two that follow each other: then `parts` are what each of them says."""

    evidence: Evidence
    words: Words
    clauses: tuple[Words, ...]
    parts: tuple[Words, ...] = ()

    @property
    def is_sentence(self) -> bool:
        return not self.parts


class EvidenceBase:
    """The sentences of the grounding, read once for all claims."""

    def __init__(self, chunks: Sequence[tuple[str, str]]) -> None:
        self._reader = WordReader()
        self._spans = [span for chunk_id, text in chunks for span in self._read(chunk_id, text)]
        self._places: dict[str, list[int]] = {}
        for place, span in enumerate(self._spans):
            for term in span.words.terms:
                self._places.setdefault(term, []).append(place)

    def check(self, claim: str, needed: float) -> Finding:
        words = self._reader.read(claim)
        if not words.terms:
            return Finding("unclear", "the claim holds no words that could be looked for")
        spans = self._about(words)
        supports = [span for span in spans if _supports(span, words, needed)]
        contradicts = [
            (span, why) for span in spans if (why := _contradiction(span, words)) is not None
        ]
        return _weighed(supports, contradicts)

    def _about(self, claim: Words) -> list[_Span]:
        """Those that share enough words with the claim to be worth a closer look."""
        shared = Counter(place for term in claim.terms for place in self._places.get(term, ()))
        enough = _WORTH_A_LOOK * len(claim.terms)
        return [self._spans[place] for place in sorted(shared) if shared[place] >= enough]

    def _read(self, chunk_id: str, text: str) -> Iterator[_Span]:
        before: tuple[int, _Span] | None = None
        for start, end in _sentence_spans(text):
            span = self._span(chunk_id, text[start:end])
            yield span
            if before is not None:
                both = self._span(chunk_id, text[before[0] : end])
                yield replace(both, parts=(before[1].words, span.words))
            before = start, span

    def _span(self, chunk_id: str, quote: str) -> _Span:
        clauses = tuple(self._reader.read(part) for part in clauses_of(quote))
        return _Span(Evidence(chunk_id, quote), self._reader.read(quote), clauses)


def _weighed(supports: Sequence[_Span], contradicts: Sequence[tuple[_Span, str]]) -> Finding:
    against = [span.evidence for span, _ in contradicts[:_QUOTES]]
    if supports and contradicts:
        both = (_shortest(supports)[0], against[0])
        return Finding("unclear", "the grounding says it and contradicts it", both)
    if supports:
        return Finding("pass", "the grounding says it", tuple(_shortest(supports)))
    if contradicts:
        return Finding("fail", contradicts[0][1], tuple(against))
    return Finding("unclear", "nothing in the grounding says or contradicts it in these words")


def _shortest(spans: Sequence[_Span]) -> list[Evidence]:
    """One sentence says more clearly than two what bears a claim out."""
    alone = [span for span in spans if span.is_sentence] or spans
    return sorted((span.evidence for span in alone), key=lambda each: len(each.quote))[:_QUOTES]


def _supports(span: _Span, claim: Words, needed: float) -> bool:
    if _share(claim, span.words) < needed or not claim.numbers <= span.words.numbers:
        return False
    if any(_share(claim, part) >= needed for part in span.parts):
        return False  # one sentence speaks of it all, so its neighbour's numbers are about others
    clauses = _clauses_about(span, claim, needed)
    return (
        all(_agrees(clause, claim) for clause in clauses)
        and claim.follows(span.words)
        and (not claim.universal or any(clause.universal for clause in clauses))
        and _in_order(claim.terms, span.words.terms) >= _IN_ORDER
    )


def _agrees(clause: Words, claim: Words) -> bool:
    return (
        clause.denials == claim.denials
        and not claim.opposes(clause)
        and (claim.hedged or not clause.hedged)
    )


def _clauses_about(span: _Span, claim: Words, needed: float) -> list[Words]:
    """The clause that says it all, else all those that have a part in it: where only some of them
    deny, nobody knows without understanding what is denied."""
    whole = [clause for clause in span.clauses if _share(claim, clause) >= needed]
    return whole[:1] or [clause for clause in span.clauses if _share(claim, clause)]


def _contradiction(span: _Span, claim: Words) -> str | None:
    """In one clause, so that what is denied, or points the other way, is what is claimed."""
    if not span.is_sentence or len(_subject(claim)) < 2:
        return None
    for clause in span.clauses:
        share = 0.0 if clause.hedged else _subject_share(claim, clause)
        if share >= _SAME_SUBJECT and (why := _difference(clause, claim, share)):
            return why
    return None


def _difference(clause: Words, claim: Words, share: float) -> str | None:
    if claim.opposes(clause) and not claim.denies(clause):
        return "the grounding says the opposite direction"
    if claim.denies(clause) and not claim.opposes(clause):
        return "the grounding denies what is claimed, or the reverse"
    if share == 1 and claim.numbers and clause.numbers and not claim.numbers & clause.numbers:
        return "the grounding has other numbers"
    return None


def _share(claim: Words, text: Words) -> float:
    return sum(term in text.terms for term in claim.terms) / len(claim.terms)


def _subject(claim: Words) -> list[str]:
    """Without directions: they are what may differ."""
    return [term for term in claim.terms if not is_direction(term)]


def _subject_share(claim: Words, text: Words) -> float:
    subject = _subject(claim)
    return sum(term in text.terms for term in subject) / len(subject) if subject else 0.0


def _in_order(wanted: Sequence[str], text: Sequence[str]) -> float:
    """The longest run of shared terms that stand in the same order, as a share of the shared."""
    places = {term: place for place, term in enumerate(text)}
    shared = [places[term] for term in wanted if term in places]
    longest: list[int] = []
    for at, place in enumerate(shared):
        longest.append(1 + max((longest[i] for i in range(at) if shared[i] < place), default=0))
    return max(longest, default=0) / len(shared) if shared else 0.0


def _sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for boundary in [*(match.span() for match in _BOUNDARY.finditer(text)), (len(text), len(text))]:
        if text[start : boundary[0]].strip():
            yield start, boundary[0]
        start = boundary[1]
