"""Abstention: whether an answer declines."""

import re
from itertools import dropwhile

from assay.answer.passages import NOT_FOUND
from assay.answer.prompt import without_markers
from assay.text import normalize, sentences

_SOURCES = r"(?:documents?|sources?|notes?|context|passages?|texts?|materials?|excerpts?|content)"
# What may be between the sources and their verb: "the notes about it", not "the context menu".
_MORE = (
    r"(?: (?:i|you|we|that|which|in|of|on|about|from|for|here|above|provided|given|available|"
    r"supplied|retrieved|found|at hand)\b[^.;]{0,60})?"
)
_TELL = (
    r"(?:answer|mention|contain|say|state|specify|provide|include|hold|tell|give|cover|address|"
    r"discuss|describe|indicate|explain|reveal)"
)
_ABSENT = r"(?:mentioned|stated|specified|given|provided|recorded|contained|found)"
_KNOWLEDGE = r"(?:information|details?|data|context|knowledge|answer|mention)"
_ABOUT = (
    r"(?= (?:about|on|regarding|concerning|of|in|to|for|that|here|available|provided|given|found)\b"
    r"| (?:is|was) (?:available|provided|given|found)(?: (?:in|by|here)\b|\W*$)|\W*$|[,;:)])"
)
# Narrow on purpose: "no evidence of harm" and "was not found in blood" are answers.
_REFUSAL = re.compile(
    r"^\W*(?:answer\W+)?(?:not found|unknown|no answer|n/a)(?: - |[:;,.!(*\"]|\W*$)"
    r"|\bi (?:do not|cannot|can not|could not|did not|(?:am|was) (?:not able|unable) to) "
    r"(?:\w+ ){0,2}?(?:know|answer|find|tell|say|determine|help|locate)\b"
    rf"|\bi (?:do|did) not (?:\w+ )?have (?:\w+ ){{0,3}}?{_KNOWLEDGE}\b"
    rf"|\b{_SOURCES}{_MORE} (?:do(?:es)?|did) not (?:\w+ ){{0,2}}?{_TELL}\b"
    rf"|\b(?:none of|nothing in) (?:\w+ ){{0,3}}?{_SOURCES} (?:\w+ ){{0,2}}?{_TELL}s?\b"
    rf"|(?:^|\b(?:is|are|was|were) )not {_ABSENT} (?:in|by) (?:\w+ ){{0,2}}?{_SOURCES}\b"
    rf"|^no (?:relevant|matching|related|suitable) (?:{_SOURCES}|results?|information)\b"
    rf"|^no (?:{_SOURCES}|results?) (?:(?:was|were|could be) )?found\W*$"
    rf"|\b(?:no (?:\w+ )?(?:information|mention)|"
    rf"(?:not enough|insufficient) (?:\w+ )?{_KNOWLEDGE}){_ABOUT}"
    rf"|\bno answer (?:(?:is|was) (?:given |found )?)?in (?:\w+ ){{0,2}}?{_SOURCES}\b"
    rf"|\b(?:is|are|was|were) not (?:in|part of|covered by) (?:\w+ ){{0,2}}?{_SOURCES}\W*$"
    r"|\b(?:cannot|can not|could not) be (?:answered|determined)\b"
)
_APOLOGY = re.compile(
    r"\W*(?:(?:i am )?(?:very |so |really )?sorry|unfortunately|(?:my )?apologies|i apologi[sz]e)"
    r"(?: (?:about|for) (?:that|this|it|the \w+))?\W*"
)
_OFFER = re.compile(
    r"\b(?:please|let me know|feel free|if you (?:provide|share|give|have|tell)|happy to|"
    r"i can (?:help|look|search|try))\b"
)
_CONTRAST = re.compile(r"\b(?:but|however|although|though|nevertheless|that said)\b")
_DOUBT = re.compile(
    r"\b(?:not|no|none|nothing|cannot|unable|unknown|unclear|sorry|unfortunately|lacks?|missing)\b"
)
_SHORT = ((r"\bcan't\b", "cannot"), (r"n't\b", " not"), (r"\bi'm\b", "i am"), (r"'ve\b", " have"))


def abstained(answer: str) -> bool:
    """Whether the answer declines, by the usual phrases in its first sentence after an apology.

    "The notes do not give the price, but the invoice says 40" answers, as does anything else after
    "but" or "however" that does not decline again. Refusals in unusual words, or in another
    language, are taken for answers.
    """
    clauses = _clauses(answer)
    if not clauses or answer.strip() == NOT_FOUND:
        return True
    (first, _), *others = clauses
    if not _REFUSAL.search(first):
        return False
    return all(_adds_nothing(clause) for clause, contrasted in others if contrasted)


def clearly_abstained(answer: str) -> bool:
    """Whether the answer does nothing but decline, so that no judge has to be asked.

    Not if it names a number: "I could not find the note, the calendar says 3 May".
    """
    clauses = [clause for clause, _ in _clauses(answer)]
    bare = not any(map(str.isdigit, "".join(clauses)))
    return abstained(answer) and bare and all(map(_adds_nothing, clauses))


def may_decline(answer: str) -> bool:
    """Whether the wording is ambiguous between declining and answering."""
    return any(_DOUBT.search(clause) for clause, _ in _clauses(answer))


def _clauses(answer: str) -> list[tuple[str, bool]]:
    """Sentences cut at "but", each part with whether a "but" is before it.

    Apologies at the beginning are left out. Empty for an answer without words.
    """
    parts = (
        (part.strip(), place > 0)
        for sentence in sentences(without_markers(answer))
        for place, part in enumerate(_CONTRAST.split(_long_forms(sentence)))
    )
    said = [(part, after) for part, after in parts if any(map(str.isalnum, part))]
    return list(dropwhile(lambda each: _APOLOGY.fullmatch(each[0]), said)) or said


def _adds_nothing(clause: str) -> bool:
    declines = _REFUSAL.search(clause) or _OFFER.search(clause) or _APOLOGY.fullmatch(clause)
    return declines is not None


def _long_forms(text: str) -> str:
    folded = normalize(text)
    for short, long in _SHORT:
        folded = re.sub(short, long, folded)
    return folded
