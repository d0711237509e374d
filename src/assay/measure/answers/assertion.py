"""Whether a text asserts a wording that it contains (negation, exceptions), or abstains.

Rules over the words around a match, in one sentence. They see the common forms ("not on 3 May",
"every day except Monday", "either 7:00 or 8:00"), not meaning: irony, a denial two sentences later
and a negation inside a verb ("failed to open") pass.
"""

import re
from enum import StrEnum
from itertools import dropwhile

from assay.answer.passages import NOT_FOUND
from assay.answer.prompt import without_markers
from assay.text import normalize, sentences


class Assertion(StrEnum):
    """What a text does with a wording, best first."""

    STATED = "stated"
    HEDGED = "hedged"
    OPTION = "one of several options"
    DENIED = "denied"
    ABSENT = "absent"


_NEGATOR = (
    r"(?:not|never|no longer|neither|nor|cannot|without|rather than|instead of|\w+n't|unlike|"
    r"no)"
)
# "not only 7:00" and "not before 7:00" assert 7:00.
_NO_NEGATION = (
    r"(?:only|just|merely|simply|until|till|before|after|later|earlier|more|less|fewer|"
    r"above|below|over|under|exceed\w*|necessarily|least|sooner)"
)
_REACH = 7
_DENIED_BEFORE = re.compile(
    rf"\b{_NEGATOR}(?! {_NO_NEGATION}\b)(?: (?!but\b)[^\s,;:()]+){{0,{_REACH}}} ?[\"'(]?$"
)
# These deny the noun after them, and nothing further: "no time was lost opening at 7:00".
_NO_FURTHER = re.compile(r"\b(?:no|without|instead of|rather than|unlike)(?: [^\s,;:()]+){3,}$")
_FALSE_THAT = re.compile(
    r"\b(?:not (?:true|correct|right|the case|so)|false|untrue|incorrect|wrong|a myth|denied|"
    r"denies|deny|contrary to|no evidence|doubtful|disputed) (?:(?:to say|to claim|claims?|"
    r"statement) )?(?:that|the claim|what)\b"
)
_DENIED_AFTER = re.compile(
    r"^(?: [^\s,;:.()]+){0,3} (?:(?:is|was|are|were) (?:not (?:true|right|correct|the case|so|"
    r"it|the answer)|wrong|false|incorrect|untrue)|is a myth)\b"
    r"|^ (?:does|did|do|is|was|were|are|will|would|has|had|have|can|could) ?(?:not|never|n't)\b"
    rf"(?! {_NO_NEGATION}\b)"
    r"|^ (?:doesn't|didn't|don't|isn't|wasn't|weren't|aren't|won't|hasn't|hadn't|haven't|can't|"
    r"cannot|couldn't|never|no longer)\b"
)
_EXCEPT = re.compile(
    r"\b(?:except(?: for)?|excepting|excluding|apart from|other than|aside from|but not|"
    r"with the exception of|save for|anything but)(?: [^\s,;:()]+){0,4} ?$"
)
_HEDGE = re.compile(
    r"\b(?:perhaps|maybe|possibly|probably|presumably|apparently|supposedly|conceivably|might|"
    r"could be|could have been|could also|it is possible|it is likely|"
    r"it seems|seems to|appears to|i (?:think|believe|guess|suppose|assume)|i am not sure|"
    r"i'm not sure|not sure|not certain|not entirely sure|unsure|uncertain|"
    r"i cannot be sure|hard to say|to my knowledge|as far as i know|"
    r"if i remember|it is unclear|allegedly|or maybe|or perhaps|or possibly)\b"
)
_EITHER = re.compile(r"\beither\b")
_OR = re.compile(r"\bor\b")
_CLAUSE = re.compile(
    r"[,;:()]|\b(?:and|plus|then|but|although|though|however|while|because|since)\b"
)
_UP_TO = re.compile(r"\b(?:until|till|before|more than|later than|less than|exceed\w*) ?$")
_NUMBER = re.compile(r"\d")
_OPTION_WORDS = 3
_NEGATIVE = re.compile(rf"\b{_NEGATOR}\b|\bexcept\b")


def is_negative(text: str) -> bool:
    """Whether a normalized text has a negation, so that one in an answer denies nothing."""
    return _NEGATIVE.search(text) is not None


_TAKEN_BACK = re.compile(
    r"(?:^|[.;!,] |\b(?:but|however|although)[, ]+)(?:all of |none of )?(?:that|this|it|the above|"
    r"which|the opposite)(?: (?:answer|statement|claim))? (?:is|was) (?:in fact |actually )?"
    r"(?:wrong|false|untrue|incorrect|not (?:so|true|right|correct|the case)|the opposite|"
    r"the case instead)\b[^.;]{0,20}(?:$|[.;])"
)


def takes_back(text: str) -> bool:
    """Whether a normalized text denies what it said before: "That is wrong, however"."""
    return _TAKEN_BACK.search(text) is not None


def hedges(text: str) -> bool:
    """Whether a normalized text has a word that takes back what it says."""
    return _HEDGE.search(text) is not None


def assertion_at(
    sentence: str, start: int, end: int, *, options: bool = True, negative: bool = False
) -> Assertion:
    """What a normalized sentence does with the wording at `start` to `end`.

    `options` is False where the fact itself names alternatives, `negative` is True where the fact
    itself says what is not so: then only "it is not true that" denies it.
    """
    before, after = sentence[:start], sentence[end:]
    if _FALSE_THAT.search(before) or (not negative and _is_denied(before, after)):
        return Assertion.DENIED
    if options and _is_option(sentence, start, end):
        return Assertion.OPTION
    part = before.rpartition(";")[2] + sentence[start:end] + after.partition(";")[0]
    return Assertion.HEDGED if _HEDGE.search(part) else Assertion.STATED


def _is_denied(before: str, after: str) -> bool:
    if _EXCEPT.search(before) or _DENIED_AFTER.match(after):
        return True
    clause = _CLAUSE.split(before)[-1]
    if _NO_FURTHER.search(clause) or _UP_TO.search(clause):
        return False
    return _DENIED_BEFORE.search(clause) is not None


def _is_option(sentence: str, start: int, end: int) -> bool:
    """Whether the wording is one of several that are offered: "7:00 or 8:00", "either A or B"."""
    wording = sentence[start:end]
    if _OR.search(wording):
        return False
    before, after = sentence[:start], sentence[end:]
    either = _EITHER.search(before)
    if either and _OR.search(sentence[either.end() :]):
        return True
    wants_number = _NUMBER.search(wording) is not None
    ahead, behind = _OR.search(after), [*_OR.finditer(before)]
    if ahead and _are_options(after[: ahead.start()], after[ahead.end() :], wants_number):
        return True
    if not behind:
        return False
    return _are_options(before[behind[-1].end() :], before[: behind[-1].start()], wants_number, -1)


def _are_options(between: str, beyond: str, number: bool, side: int = 1) -> bool:
    """Whether only short items of a list are `between`, and another option is `beyond` the "or"."""
    items = [item.split() for item in between.split(",")]
    if any(len(item) > _OPTION_WORDS for item in items) or re.search(r"[;()]|: ", between):
        return False
    near = beyond.split()[:_OPTION_WORDS] if side > 0 else beyond.split()[-_OPTION_WORDS:]
    if not near or near[0] in ("so", "more", "less", "later", "earlier", "not"):
        return False
    listed = number or len(items) > 1 or any("," in word for word in near)
    return listed and (not number or any(_NUMBER.search(word) for word in near))


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
