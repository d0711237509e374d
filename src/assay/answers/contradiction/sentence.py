"""One sentence, read for what can contradict another: directions, negations, quantities, names."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from assay.answers.quantities import Quantity, quantities
from assay.text import is_negation, is_stop, stem, words

_UP = """
    increase rise rose higher high greater more elevate raise improve promote upregulate
    activate induce gain stimulate accelerate longer stronger positive positively facilitate
    expand strengthen enhance extend grow grew up better larger most above faster amplify
    augment boost drive enable cause trigger lead allow require necessary essential associate
    correlate link support prolong maintain protect effective successful sufficient contribute
    hyper over excess majority frequent common predispose worsen aggravate succeed add include
    open begin start win accept approve earlier always
"""
_DOWN = """
    decrease fall fell lower low less fewer diminish suppress inhibit impair downregulate
    repress block prevent loss lose lost lack absence deficient deficiency attenuate abolish
    shorter weaker negative negatively decline limit worse reduce reduction minimize shrink
    shrank drop down smaller least below slower weaken disrupt hinder deplete inactivate
    deactivate silence knockdown knockout eliminate remove shorten delay inhibitor antagonist
    ineffective unsuccessful insufficient hypo minority rare seldom protective unnecessary
    dispensable alleviate ameliorate avoid fail exclude close end stop reject cancel forbid
    later never
"""
_OPPOSITES = """
    increase/decrease increase/reduce higher/lower high/low more/less more/fewer greater/smaller
    rise/fall rose/fell raise/lower raise/reduce elevate/reduce elevate/decrease improve/worsen
    improve/impair activate/inhibit activate/repress activate/suppress activate/inactivate
    activate/deactivate promote/inhibit promote/suppress promote/prevent induce/inhibit
    induce/suppress enhance/reduce enhance/impair enhance/inhibit gain/loss gain/lose
    upregulate/downregulate positive/negative longer/shorter stronger/weaker large/small
    larger/smaller long/short early/late earlier/later newer/older before/after present/absent
    presence/absence major/minor majority/minority common/rare acute/chronic benign/malignant
    male/female men/women resistant/sensitive resistance/sensitivity stable/unstable
    dependent/independent sufficient/insufficient necessary/dispensable required/dispensable
    first/last proximal/distal protect/harm benefit/harm inside/outside safe/unsafe
    effective/ineffective intracellular/extracellular stimulate/inhibit stimulate/suppress
    facilitate/inhibit facilitate/impair facilitate/hinder enable/prevent enable/disable
    cause/prevent allow/prevent allow/forbid accelerate/slow accelerate/delay maximum/minimum
    best/worst better/worse always/never open/closed open/close start/end start/stop begin/end
    pass/fail succeed/fail win/lose won/lost accept/reject approve/reject buy/sell import/export
    add/remove include/exclude true/false same/different similar/different hot/cold warm/cold
    left/right north/south east/west morning/evening day/night above/below over/under up/down
    faster/slower most/least arrive/leave cheap/expensive easy/hard full/empty public/private
    paid/free weekday/weekend upstairs/downstairs increase/diminish strengthen/weaken
    expand/shrink grow/shrink grew/shrank extend/shorten alleviate/aggravate maintain/disrupt
    agonist/antagonist beneficial/harmful support/oppose
"""

_MAY_NEGATE = """
    unable fail fails failed hardly rarely independent independently unaffected unchanged unrelated
    insignificant nonsignificant irrespective regardless absence lack lacks lacking non little
"""
_NEGATING = frozenset(_MAY_NEGATE.split())

_CHANGE = "associat|affect|alter|chang|influenc|correlat|improv|reduc|increas|relat|differ"
NO_EFFECT = re.compile(
    r"\b(?:no (?:significant |statistically |clear |major |overall )?(?:differences?|effects?|"
    r"associations?|changes?|correlations?|evidence|impact|influence|benefits?|relationships?|role)|"
    rf"not (?:significant|{_CHANGE})\w*|similar|unchanged|unaffected|comparable|"
    r"independent(?:ly)? of|regardless of|irrespective|(?:did|does|do) not|failed to|"
    r"neither|nor)\b",
    re.IGNORECASE,
)
"""A finding that something made no difference."""


@cache
def directions() -> dict[str, int]:
    """1 for a stem that points upwards, -1 for one that points downwards."""
    up = {stem(word) for word in _UP.split()}
    down = {stem(word) for word in _DOWN.split()}
    return dict.fromkeys(up - down, 1) | dict.fromkeys(down - up, -1)


@cache
def opposites() -> dict[str, frozenset[str]]:
    """The stems that mean the opposite of a stem."""
    found: dict[str, set[str]] = {}
    for pair in _OPPOSITES.split():
        one, other = map(stem, pair.split("/"))
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {word: frozenset(others - {word}) for word, others in found.items()}


def opposite_words() -> list[tuple[str, str]]:
    """The pairs as they are written, for making contradictions."""
    return [(one, other) for one, _, other in (p.partition("/") for p in _OPPOSITES.split())]


# Codes such as BRCA1 or mTOR anywhere; capitalized words except at the beginning of the sentence.
_NAME = re.compile(r"\b(?:[A-Z]+[a-z]*\d+\w*|[A-Z]{2,}\w*|[a-z]+[A-Z]\w*|(?<!^)[A-Z][a-z]+)\b")
# "No, it must not be oiled": the first word answers the question, and negates nothing more.
_ANSWERED = re.compile(r"^\W*(?:no|yes)\s*[,.:;!–]\s*(?=\w)", re.IGNORECASE)
# Bounds in one spelling, so that "up to 12" and "at least 12" are opposites.
_BOUNDS = (
    (re.compile(r"\bup to(?= \d)|\b(?:no|not) more than\b", re.IGNORECASE), "at most"),
    (re.compile(r"\b(?:no|not) (?:less|fewer) than\b", re.IGNORECASE), "at least"),
)
_REACH = 4  # how far before a word its negation may be

CANDIDATES = 10
"""Source sentences that are compared closely: those that share the most words with the claim."""


@dataclass(frozen=True, slots=True)
class AnalyzedSentence:
    """A sentence and what was found in it.

    `signs` are the places of words with a direction, turned around by a negation before them.
    """

    text: str
    words: tuple[str, ...]
    stems: tuple[str, ...]
    content: frozenset[str]
    signs: tuple[tuple[int, int], ...]
    negated: tuple[int, ...]
    quantities: tuple[Quantity, ...]
    names: frozenset[str]

    @property
    def numbers(self) -> frozenset[str]:
        """The values of its quantities."""
        return frozenset(each.value for each in self.quantities)


def analyze(text: str) -> AnalyzedSentence:
    """Read one sentence."""
    bounded = text
    for phrases, spelling in _BOUNDS:
        bounded = phrases.sub(spelling, bounded)
    said = words(bounded)
    if without_yes_or_no(text) != text and any(map(may_negate, said[1:])):
        said = said[1:]
    stemmed = tuple(map(stem, said))
    negated = tuple(i for i, word in enumerate(said) if may_negate(word))
    pointing = directions()
    signs = tuple(
        (i, -pointing[each] if turned(i, negated) else pointing[each])
        for i, each in enumerate(stemmed)
        if each in pointing
    )
    content = frozenset(
        each
        for each, word in zip(stemmed, said, strict=True)
        if not is_stop(word) and not may_negate(word)
    )
    return AnalyzedSentence(
        text=text,
        words=tuple(said),
        stems=stemmed,
        content=content,
        signs=signs,
        negated=negated,
        quantities=tuple(quantities(text)),
        names=frozenset(each for each in _NAME.findall(text) if not is_stop(each.lower())),
    )


def without_yes_or_no(sentence: str) -> str:
    """The sentence without the word that answers a question before it."""
    return _ANSWERED.sub("", sentence)


def may_negate(word: str) -> bool:
    """Whether the opposite may be meant after a normalized word: the negations and more."""
    return is_negation(word) or word in _NEGATING


def turned(place: int, negated: Sequence[int]) -> bool:
    """Whether a word is a little after a negation that no second one takes back."""
    return sum(place - _REACH <= each < place for each in negated) % 2 == 1


def nearest(
    claim: AnalyzedSentence, sources: Iterable[AnalyzedSentence], limit: int = CANDIDATES
) -> list[AnalyzedSentence]:
    """The source sentences that share most words with the claim, in their order."""
    listed = list(sources)
    if len(listed) <= limit:
        return listed
    shared = [len(claim.content & each.content) for each in listed]
    kept = sorted(range(len(listed)), key=lambda i: (-shared[i], i))[:limit]
    return [listed[i] for i in sorted(kept)]


def opposed_words(claim: AnalyzedSentence, source: AnalyzedSentence) -> list[tuple[str, str]]:
    """Stems of the claim whose opposite is in the source, where neither is in both."""
    table = opposites()
    return [
        (word, other)
        for word in dict.fromkeys(claim.stems)
        if word in table and word not in source.stems
        for other in sorted(table[word])
        if other in source.stems and other not in claim.stems
    ]
