"""Key facts, faithfulness and relevance by the words of an answer alone, without a model."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from assay.answers.abstention import abstained
from assay.answers.assertion import (
    Assertion,
    assertion_at,
    hedges,
    is_negative,
    long_forms,
    takes_back,
)
from assay.answers.contradiction.rules import ContradictionChecker
from assay.answers.framing import bare_text, contents, without_emphasis
from assay.answers.quantities import bare_number, canonical, numbers
from assay.data.dataset import Fact
from assay.text import normalize, sentences, stems

SUPPORTED_SHARE = 0.5
"""The share of a sentence's content words that its sources must contain.

Chosen on the reference answers of the bundled notes: against the documents they rest on their mean
is 0.87, against as many of the best other documents for the same questions 0.04.
"""

# A number goes on across these: 7 is not stated by 7.5, 7:00 not by 17:00 or 7:00:30.
_JOINS = r"[.,:/^]"
# A minus belongs to its number, a dash between two numbers or words does not.
_UNSIGNED = r"(?<!^-)(?<!\W-)"
_LAST_WORD = re.compile(r"(?:(?P<number>\d ?)|(?<![^\W\d_]))(?P<word>[^\W\d_]++)$")
# "12%" and "40min" are also written with a blank.
_UNIT = re.compile(r"(?<=\d) ?(?=[^\W\d_]{2}|[%‰°€$£])|(?<=[€$£]) ?(?=\d)")
_STEM, _SHORT_STEM = 4, 3
_EITHER = re.compile(r"\b(?:either|one of)\b")
_SHORT_UNITS = frozenset({"min", "sec"})


def states(text: str, fact: Fact) -> bool:
    """Whether the text asserts the fact by any accepted wording, also if it hedges."""
    return fact_assertion(text, fact) in (Assertion.STATED, Assertion.HEDGED)


def fact_assertion(text: str, fact: Fact) -> Assertion:
    """What the text does with the fact, by its accepted wordings; the best of all occurrences.

    A wording counts at the boundaries of words and numbers, whether numbers are digits or words
    and however units are written. One that is denied ("not on 3 May"), excepted ("every day except
    Monday") or one of several options ("either 7:00 or 8:00") does not state the fact. A correct
    answer in unforeseen words states nothing. Where the fact is about "−1.75" and the wording is
    "1.75", the minus is optional.
    """
    found = fact_occurrences(text, fact)
    return next((each for each in Assertion if each in found), Assertion.ABSENT)


def fact_occurrences(text: str, fact: Fact) -> set[Assertion]:
    """What the text does with each occurrence of an accepted wording of the fact."""
    about = normalize(fact.text)
    signed = (minus for each in fact.accept if (minus := f"-{normalize(each)}") in about)
    phrases = [normalize(each) for each in (*fact.accept, *signed)]
    options = not re.search(r"\bor\b", about)
    bare = bare_text(text)
    said = [normalize(sentence) for sentence in sentences(bare)]
    found = {
        assertion
        for phrase in phrases
        for negative in [is_negative(about) or is_negative(phrase)]
        for sentence in said
        for assertion in _assertions(sentence, phrase, options, negative)
    }
    taken_back = found and takes_back(normalize(bare))
    return {Assertion.DENIED} if taken_back else found


def _assertions(sentence: str, phrase: str, options: bool, negative: bool) -> Iterator[Assertion]:
    places = list(_places(sentence, phrase))
    if not places:
        sentence, wording = canonical(long_forms(sentence)), canonical(long_forms(phrase))
        places = list(_places(sentence, wording)) or list(_bare(sentence, phrase))
    for start, end in places:
        yield assertion_at(sentence, start, end, options=options, negative=negative)


def _places(sentence: str, phrase: str) -> Iterator[tuple[int, int]]:
    pattern = _pattern(phrase)
    return (match.span() for match in pattern.finditer(sentence)) if pattern else iter(())


def _bare(sentence: str, phrase: str) -> Iterator[tuple[int, int]]:
    """ "22." answers "how many minutes", where nothing else is counted by the number."""
    number = bare_number(phrase)
    if number is None:
        return
    alone = re.compile(rf"(?<![\w.,:/$£€¥-]){re.escape(number)}(?=\W*$|[,;)] )")
    yield from (match.span() for match in alone.finditer(sentence))


def contains_any(text: str, phrases: Sequence[str]) -> bool:
    """Whether the text contains any of the phrases; citation markers are ignored."""
    folded = normalize(bare_text(text))
    return any((pattern := _pattern(each)) and pattern.search(folded) for each in phrases)


def fact_places(text: str, facts: Sequence[Fact]) -> list[int]:
    """Where the text has each of the facts that it has, in their order."""
    folded = normalize(bare_text(text))
    found = (
        [start for each in fact.accept for start, _ in _places(folded, normalize(each))]
        for fact in facts
    )
    return [min(places) for places in found if places]


def fact_recall(text: str, facts: Sequence[Fact]) -> float:
    """The share of the facts that are stated; 0 where there are none to state."""
    return len(stated_facts(text, facts)) / len(facts) if facts else 0.0


def stated_facts(text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Those of the facts that are stated. "A, B or C" states all three where these are all facts
    that there are; not "either A or B", not with a hedge, and not numbers, of which one may be
    right.
    """
    found = [(fact, fact_assertion(text, fact)) for fact in facts]
    options = [fact for fact, each in found if each is Assertion.OPTION]
    stated = [fact for fact, each in found if each in (Assertion.STATED, Assertion.HEDGED)]
    if len(options) < 2 or len(stated) + len(options) < len(facts):
        return stated
    plain = normalize(text)
    open_ended = hedges(plain) or _EITHER.search(plain)
    if open_ended or any(numbers(wording) for fact in options for wording in fact.accept):
        return stated
    return list(facts)


@lru_cache(maxsize=4096)
def _pattern(phrase: str) -> re.Pattern[str] | None:
    folded = normalize(without_emphasis(phrase))
    if not folded:
        return None
    wording = " ?".join(re.escape(part) for part in _UNIT.split(folded))
    return re.compile(_left(folded) + wording + _right(folded))


def _left(phrase: str) -> str:
    """A phrase that begins with a sign, such as "€ 5", is its own boundary."""
    if not phrase[0].isalnum():
        return ""
    return rf"(?<!\w)(?<!\d{_JOINS}){_UNSIGNED}" if phrase[0].isdigit() else r"(?<!\w)"


def _right(phrase: str) -> str:
    """Reference files shorten words to cover their forms: "40 min" and "sync" stand for "40
    minutes" and "syncs". A word of three letters begins too many others for that, except as the
    unit of a number ("three min" too): "cat" stands for "cats" alone. A number, or a shorter word,
    ends where it ends.
    """
    if phrase[-1].isdigit():
        return rf"(?!\w)(?!{_JOINS}\d)"
    if not phrase[-1].isalpha():
        return ""
    last = _LAST_WORD.search(phrase)
    length = len(last["word"]) if last else 0
    unit = last and length == _SHORT_STEM and (last["number"] or last["word"] in _SHORT_UNITS)
    if length >= _STEM or unit:
        return ""
    return r"(?:e?s|ed|ing)?(?!\w)" if length == _SHORT_STEM else r"(?!\w)"


def faithfulness(answer: str, sources: Sequence[str]) -> float:
    """The share of the answer's sentences that the sources, taken together, support.

    Supported means: the sources hold at least half of the sentence's content words and every
    number in it, and no rule shows that a source denies it (`contradiction.rules`: a negation, an
    opposite, another number, unit or name in nearly the same words). So it finds invented figures,
    sentences about something else and plain reversals. It cannot detect a reversal in other words,
    nor a figure that was computed or a fair paraphrase. A sentence without content words ("It was
    so.") does not count, and an answer that says nothing is not faithful: 0.
    """
    said = contents(answer)
    return 1 - len(unsupported(answer, sources)) / len(said) if said else 0.0


def unsupported(answer: str, sources: Sequence[str], *, by_rules: bool = True) -> list[str]:
    """The sentences that lower `faithfulness`; without `by_rules`, by their words alone."""
    held = held_words(sources)
    found = ContradictionChecker().find(answer, sources) if by_rules else []
    denied = {each.sentence for each in found}
    return [
        each for each, said in contents(answer) if each in denied or not is_supported(said, held)
    ]


def held_words(sources: Iterable[str]) -> frozenset[str]:
    """The stems of all sources, and their numbers as digits too: "nine" supports "9"."""
    texts = list(sources)
    return frozenset().union(*map(stems, texts), *map(numbers, texts))


def is_supported(words: frozenset[str], held: frozenset[str]) -> bool:
    """Whether sources with the stems `held` support a sentence with the stems `words`."""
    figures = {word for word in words if any(map(str.isdigit, word))}
    return figures <= held and len(words & held) >= SUPPORTED_SHARE * len(words)


def answer_relevance(question: str, answer: str) -> float:
    """The share of the question's content words that occur in the answer; 0 for one that declines.

    Only a hint: a terse right answer ("42.") scores 0, and one that repeats
    the question scores 1. Compare it between agents, on the same questions.
    """
    wanted = set(stems(question))
    if not wanted or abstained(answer):
        return 0.0
    return len(wanted.intersection(stems(answer))) / len(wanted)


# Not "No-shows are charged", "No. 5", "non-members pay" or "SIM cards".
_ALONE = r"\b(?!\. ?\d)(?=\s*(?:[,.:;!]|-+\s)|\W*$)"
_YES = re.compile(rf"\W*(?:(?:yes|yeah|yep)\b(?!-\w)|(?:ja|oui|sí|sim){_ALONE})")
_NO = re.compile(rf"\W*(?:no|nope|nein|non|nee|não){_ALONE}")
_LONG_DASH = re.compile(r"(?<!\s)\s*[–—]\s*")


def yes_or_no(answer: str) -> str:
    """The "yes" or "no" that an answer begins with, in a few languages; else nothing."""
    said = normalize(_LONG_DASH.sub(", ", answer))
    if _YES.match(said):
        return "yes"
    return "no" if _NO.match(said) else ""
