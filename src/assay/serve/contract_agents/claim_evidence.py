"""What a sentence says, as far as that can be told without a model: its words, its numbers,
whether it denies, which way it points, and how sure it is."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

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
