"""Whether a text asserts a wording that it contains: negation, exceptions, options, hedges.

Rules over the words around a match, in one sentence. They see the common forms ("not on 3 May",
"every day except Monday", "either 7:00 or 8:00"), not meaning: irony, a denial two sentences later
and a negation inside a verb ("failed to open") pass.
"""

import re
from enum import StrEnum

from assay.answers.framing import is_question
from assay.text import normalize, remember_short


class Assertion(StrEnum):
    """What a text does with a wording, best first."""

    STATED = "stated"
    HEDGED = "hedged"
    OPTION = "one of several options"
    DENIED = "denied"
    ABSENT = "absent"


_NEGATOR = (
    r"(?:not|never|no longer|neither|nor|cannot|without|rather than|instead of|\w+n't|unlike|"
    r"no|nicht|keine?[mnrs]?|nie|niemals|weder|pas|jamais|nunca|non|niet|geen|nooit|não)"
)
# "not only 7:00" and "not before 7:00" assert 7:00.
_NO_NEGATION = (
    r"(?:only|just|merely|simply|until|till|before|after|later|earlier|more|less|fewer|"
    r"above|below|over|under|exceed\w*|necessarily|least|sooner|"
    r"nur|bloß|vor|nach|erst|mehr|weniger|länger|später|früher|seulement|avant|après|plus|moins|"
    r"sólo|solo|antes|después|más|menos|soltanto|prima|dopo|più|meno|alleen|voor|meer|minder|"
    r"só|apenas|depois|mais)"
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
    r"could (?:well |also |possibly )?be|could have been|could also|it is possible|it is likely|"
    r"it seems|seems to|appears to|(?:i|we) (?:would )?(?:think|believe|guess|suppose|assume)|"
    r"not (?:\w+ly )?(?:sure|certain)|unsure|uncertain|hard to say|it is unclear|allegedly|"
    r"(?:to (?:the best of )?my|to our) knowledge|"
    r"as far as (?:i|we) (?:know|can (?:tell|see|say)|am aware|remember|understand)|"
    r"if (?:i|memory) (?:am not mistaken|remember|recall|understand|serves)|"
    r"(?:i|we) (?:cannot|can't) (?:guarantee|confirm|verify|vouch|promise|be (?:sure|certain))|"
    r"(?:do not|don't) (?:rely on|trust|take) (?:this|that|it|me|my)|(?:do not|don't) quote me|"
    r"may (?:well )?(?:be|have become) (?:wrong|outdated|out of date|inaccurate|incorrect)|"
    r"or maybe|or perhaps|or possibly|"
    r"vielleicht|möglicherweise|vermutlich|wahrscheinlich|eventuell|ich (?:glaube|denke|vermute)|"
    r"nicht (?:ganz |völlig )?sicher|peut-être|probablement|je (?:crois|pense)|quizás?|tal vez|"
    r"probablemente|creo que|forse|probabilmente|credo che|misschien|waarschijnlijk|ik denk|"
    r"talvez|provavelmente|acho que)\b"
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
    return Assertion.HEDGED if is_question(sentence) or _HEDGE.search(part) else Assertion.STATED


def _is_denied(before: str, after: str) -> bool:
    if _DENIED_AFTER.match(after):
        return True
    if excepted := _EXCEPT.search(before):  # "No dogs, except guide dogs" speaks of guide dogs
        return not is_negative(_CLAUSE.split(before[: excepted.start()].rstrip(" ,"))[-1])
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


_SHORT = ((r"\bcan't\b", "cannot"), (r"n't\b", " not"), (r"\bi'm\b", "i am"), (r"'ve\b", " have"))


@remember_short
def long_forms(text: str) -> str:
    """A text, normalized, with "cannot" for "can't"."""
    folded = normalize(text)
    for short, long in _SHORT if "'" in folded else ():
        folded = re.sub(short, long, folded)
    return folded
