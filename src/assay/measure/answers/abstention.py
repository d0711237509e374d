"""Saying "I don't know": was it said, and was that right?"""

import re

from assay.answer.passages import NOT_FOUND
from assay.measure.answers.words import fold, sentences

_SOURCES = r"(?:documents?|sources?|notes?|context|passages?|texts?|materials?|excerpts?)"
_LACKS = (
    r"(?:do(?:es)?|did) not (?:\w+ ){0,2}?"
    r"(?:answer|mention|contain|say|state|specify|provide|include|hold|tell|give|cover|address)"
)
_ABSENT = r"(?:mentioned|stated|specified|given|provided|recorded|contained|found)"
# Narrow on purpose: "no evidence of harm" and "was not found in blood" are answers.
_REFUSALS = re.compile(
    r"^(?:answer )?(?:not found|unknown|no answer|n/a)\b"
    r"|\bi (?:do not|cannot|can not|could not|am not able to|was not able to|am unable to) "
    r"(?:\w+ ){0,2}?(?:know|answer|find|tell|say|determine|help|locate)\b"
    rf"|\b{_SOURCES}\b[^.]{{0,60}}\b{_LACKS}\b"
    rf"|\b(?:is|are|was|were) not {_ABSENT} (?:in|by) (?:\w+ ){{0,2}}?{_SOURCES}\b"
    r"|\b(?:no|not enough|insufficient) (?:\w+ )?(?:information|mention)\b"
    r"|\bcannot be (?:answered|determined)\b"
)
_SHORT = (("don't", "do not"), ("doesn't", "does not"), ("didn't", "did not"), ("can't", "cannot"))
_CONTRAST = re.compile(r"\b(?:but|however|although|though|nevertheless|that said)\b")


def abstained(answer: str) -> bool:
    """Whether the answer declines, by the usual phrases in its first sentence.

    "The notes do not give the price, but the invoice says 40" answers, and so does whatever goes
    on with "however". Refusals in unusual words, or in another language, are taken for answers.
    """
    said = sentences(answer)
    if not said or answer.strip() == NOT_FOUND:
        return True
    declines = _REFUSALS.search(_long_forms(said[0]))
    return declines is not None and not _CONTRAST.search(_long_forms(" ".join(said)))


def abstention(answer: str, *, answerable: bool) -> float:
    """1 where the answer declines a question that has no answer, or tries one that has."""
    return float(abstained(answer) is not answerable)


def _long_forms(text: str) -> str:
    folded = fold(text)
    for short, long in _SHORT:
        folded = folded.replace(short, long)
    return folded
