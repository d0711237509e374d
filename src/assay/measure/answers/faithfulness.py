"""Faithfulness without a model: do the words of each sentence stand in the text it rests on?"""

from collections.abc import Sequence

from assay.answer.citations import without_markers
from assay.text import sentences, stems

ENOUGH = 0.5
"""The share of a sentence's content words that its sources have to hold.

Chosen on the reference answers of the bundled notes: against the documents they rest on their mean
is 0.87, against as many of the best other documents for the same questions 0.07.
"""


def faithfulness(answer: str, sources: Sequence[str]) -> float:
    """The share of the answer's sentences that the sources, taken together, support.

    Supported means: the sources hold at least half of the sentence's content words and every
    number in it. So it finds invented figures and sentences about something else. It cannot tell a
    sentence that turns its source round ("did not rise" for "rose"), nor a figure that was
    computed or a fair paraphrase. A sentence without content words ("It was so.") does not count,
    and an answer that says nothing is not faithful: 0.
    """
    said = [each for each in sentences(without_markers(answer)) if stems(each)]
    return 1 - len(unsupported(answer, sources)) / len(said) if said else 0.0


def unsupported(answer: str, sources: Sequence[str]) -> list[str]:
    """The sentences that lower the figure, for whoever wants to look."""
    held: frozenset[str] = frozenset().union(*map(stems, sources))
    said = sentences(without_markers(answer))
    return [each for each in said if not _supported(frozenset(stems(each)), held)]


def _supported(words: frozenset[str], held: frozenset[str]) -> bool:
    figures = {word for word in words if any(map(str.isdigit, word))}
    return figures <= held and len(words & held) >= ENOUGH * len(words)
