"""Faithfulness by words and values: which sentences of an answer its sources support.

    >>> unsupported("A locker costs 3 euros. It is blue.", ["A locker costs 3 euros."])
    ['It is blue.']

It finds invented figures, sentences about something else and plain reversals. It cannot detect a
reversal in other words, nor tell a fair paraphrase or a computed figure from an invented one.
"""

from collections.abc import Collection, Iterable, Sequence

from assay.answers.case import MAX_SHOWN
from assay.answers.differences import SentenceIndex
from assay.answers.statements import TALK, abstained, claims, statements
from assay.answers.values import Value, content, is_in, values
from assay.text import stems, words

# The share of a sentence's content words that its sources must contain. Chosen on the reference
# answers of the bundled notes: against the documents they rest on their mean is 0.87, against as
# many of the best other documents for the same questions 0.04.
SUPPORTED_SHARE = 0.5
_MAX_OPERANDS = 12


def faithfulness(answer: str, sources: Sequence[str], names: Collection[str] = ()) -> float:
    """The share of the answer's claims that the sources, taken together, support.

    Supported means: the sources have at least half of the claim's content words and all of its
    numbers, dates and times, and the nearest sentence does not say otherwise. An answer that
    claims nothing is not faithful: 0. `names` are ids and titles, which claim nothing in brackets.
    """
    said = claims(statements(answer, names))
    return 1 - len(unsupported(answer, sources, names)) / len(said) if said else 0.0


def unsupported(answer: str, sources: Sequence[str], names: Collection[str] = ()) -> list[str]:
    """The claims that lower `faithfulness`."""
    share = MAX_SHOWN // max(1, len(sources))
    texts = [text[:share] for text in sources]
    index = SentenceIndex(dict.fromkeys(texts, "the source"))
    held = Held(texts)
    return [
        claim
        for claim in claims(statements(answer, names))
        if not held.supports(claim) or index.differences(claim)
    ]


class Held:
    """`Held(texts).supports(sentence)`: what texts have, read once for many sentences."""

    def __init__(self, texts: Iterable[str]) -> None:
        whole = "\n".join(texts)
        self.stems, self.values, self.words = content(whole), values(whole), {*words(whole)}

    def supports(self, sentence: str, operands: Collection[Value] = ()) -> bool:
        """Whether these have half of a sentence's content words and all of its figures."""
        said = content(sentence) - TALK
        if self.words.issuperset(words(sentence)):
            return True
        if self.foreign(sentence, operands):
            return False
        figures = sum(map(_is_figure, values(sentence)))  # all of them known
        return len(said & self.stems) + figures >= SUPPORTED_SHARE * (len(said) + figures)

    def foreign(self, sentence: str, operands: Collection[Value] = ()) -> list[Value]:
        """The numbers, dates and times of a sentence that these do not have.

        What is computed from its own figures or from `operands`, those of the answer, is not one.
        """
        figures = [value for value in values(sentence) if _is_figure(value)]
        unknown = [value for value in figures if not is_in(value, self.values)]
        unknown = [value for value in unknown if not self.words.issuperset(words(value.text))]
        known = [value for value in {*figures, *operands} if is_in(value, self.values)]
        return [value for value in unknown if not _is_computed(value, known)]


def _is_figure(value: Value) -> bool:
    # Months and weekdays alone often come from the date of a document.
    return value.kind in ("number", "time") or (value.kind == "date" and value.key[2] is not None)


def _is_computed(value: Value, known: Sequence[Value]) -> bool:
    """Whether a number is the sum, the difference or the product of two others."""
    numbers = [each.key[0] for each in known if each.kind == "number"]
    floats = [number for number in numbers if isinstance(number, float)][:_MAX_OPERANDS]
    pairs = [(a, b) for a in floats for b in floats]
    results = {round(result, 6) for a, b in pairs for result in (a + b, a - b, a * b)}
    return value.kind == "number" and value.key[0] in results


def answer_relevance(question: str, answer: str) -> float:
    """The share of the question's content words that occur in the answer; 0 for one that declines.

    Only a hint: a terse right answer ("42.") scores 0, and one that repeats
    the question scores 1. Compare it between agents, on the same questions.
    """
    wanted = set(stems(question))
    if not wanted or abstained(answer):
        return 0.0
    return len(wanted.intersection(stems(answer))) / len(wanted)
