"""How a question ended: right, incomplete, wrong, declined, failed or undecided.

A judge's verdict decides if there is one; else the key facts of the reference; else its numbers,
dates and names; else nothing does, and the answer is undecided.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from assay.answers.case import AnswerCase, once
from assay.answers.statements import CLAUSE, statements
from assay.answers.values import (
    Value,
    content,
    digits,
    is_in,
    opposes,
    polarity,
    remember,
    same_unit,
    tokens,
    values,
)
from assay.data.dataset import Fact
from assay.text import normalize, sentences, stem, words


class Outcome(StrEnum):
    """How a question ended: an answer that is wrong is worse than none."""

    RIGHT = "right"
    INCOMPLETE = "incomplete"
    WRONG = "wrong"
    DECLINED = "declined"
    FAILED = "failed"
    UNDECIDED = "undecided"

    @property
    def is_wrong(self) -> bool:
        """Whether an answer was given that is not right."""
        return self in (Outcome.WRONG, Outcome.INCOMPLETE)


BY_FACTS = "every key fact stated by an accepted wording; declined if there is no answer"
BY_VALUES = "the numbers, dates and names of the reference stated; declined if there is no answer"
BY_DECLINING = "declined if there is no answer; no other answer is decided"

# "7:00 or 8:00" and "either A or B" state neither.
_OPTIONS = re.compile(
    r"\beither\b|\bor (?:maybe|perhaps|possibly)\b|(?<![\w:.])\d[\w:.]{0,20}(?: [a-z]{1,20})? or \d"
)
_TAKEN_BACK = re.compile(
    r"\b(?:that|this|it|the above|which) (?:is|was) (?:wrong|false|untrue|incorrect|"
    r"not (?:true|right|correct|the case|so))\b"
)
_WHY = re.compile(r"\b(?:because|since|so that)\b")
EXCEPTING = frozenset(words("except unless only apart excluding"))  # "not except" is "only"
_SIMILAR_SHARE = 0.75


@once
def outcome(case: AnswerCase) -> Outcome:
    """How a question ended.

    >>> from assay.data.dataset import ReferenceAnswer
    >>> reference = ReferenceAnswer("q1", "It weighs 84 kg.")
    >>> str(outcome(AnswerCase("q1", "What does it weigh?", reference, answer="46 kg.")))
    'wrong'
    """
    if not (case.answer or "").strip():
        return Outcome.FAILED
    if case.verdict in ("right", "undecided"):
        return Outcome(case.verdict)
    if not case.answerable:
        return Outcome.RIGHT if case.declined else Outcome.WRONG
    if case.declined:
        known = case.reference.answer or case.reference.facts or case.verdict
        return Outcome.DECLINED if known else Outcome.UNDECIDED
    stated = _stated(case)
    if case.verdict == "wrong":
        return Outcome.INCOMPLETE if any(stated) and not all(stated) else Outcome.WRONG
    if not stated:
        return Outcome.UNDECIDED
    if all(stated):
        return Outcome.RIGHT
    return Outcome.INCOMPLETE if any(stated) else Outcome.WRONG


def is_decidable(case: AnswerCase) -> bool:
    """Whether the reference has something that decides about an answer without a judge."""
    return not case.answerable or bool(case.reference.facts or _expected(case))


def correct(case: AnswerCase) -> bool | None:
    """Whether the answer is right; None if nothing decides."""
    ended = outcome(case)
    return None if ended is Outcome.UNDECIDED else ended is Outcome.RIGHT


@once
def _expected(case: AnswerCase) -> list[Value]:
    """The values of the reference's first sentence with any that the question does not state.

    What is in brackets or after "because" explains, and an abbreviation may be written out: neither
    has to be stated beside other values.
    """
    asked, reference = values(case.question), case.reference.answer or ""
    bare = "".join(part.rpartition(")")[2] for part in reference.split("("))
    texts = [*sentences(bare), *sentences(reference)]
    for text in (_WHY.split(each)[0] or each for each in texts):
        new = [value for value in values(text) if not is_in(value, asked)]
        # Elsewhere other words than names have capitals: "fünf Tage" has the name of "drei Tage".
        new = [value for value in new if value.kind != "name" or case.is_english]
        # "Nobody may, not even Ida Solheim": whom a denial names need not be named again.
        if all(value.kind == "name" for value in new) and not polarity(text):
            new = []
        # Beside "£3.20", a number that counts something is about when that holds.
        if any(value.kind != "name" and (value.kind != "number" or value.unit) for value in new):
            new = [value for value in new if value.kind != "number" or value.unit]
        if new:
            return [value for value in new if not value.text.isupper()] or new
    return []


def _stated(case: AnswerCase) -> list[bool]:
    """For each thing that is expected, whether the answer states it; empty if nothing decides."""
    reference = case.reference.answer or ""
    stances = _stance(case.said), _stance(reference)
    if exchanged(case.said, reference) or (None not in stances and stances[0] != stances[1]):
        return [False]
    if case.reference.facts:
        stated = stated_facts(case.answer or "", case.reference.facts, case.sources)
        return [fact in stated for fact in case.reference.facts]
    if expected := _expected(case):
        given = [_gives(case.said, value) for value in expected]
        # An answer in the reference's words, and with no other value, may leave it out.
        if any(given) or _says_otherwise(case, expected):
            return given
    if not reference or not case.is_english:  # what negates is known in English alone
        return []
    wanted = content(reference) - content(case.question)
    if not case.statements or len(wanted & content(case.said)) < _SIMILAR_SHARE * len(wanted):
        return []
    near = max(case.statements, key=lambda each: len(wanted & content(each)))
    if not EXCEPTING.isdisjoint([*words(near), *words(reference)]):
        return []  # "only then" is "not except then"
    if None not in stances:
        return [True]
    if stances != (None, None):
        return []
    if not polarity(reference):  # "Nobody can. This holds for the owner, too."
        return [not all(map(polarity, case.statements))]
    return [polarity(near)]


def _says_otherwise(case: AnswerCase, expected: Sequence[Value]) -> bool:
    """Whether an answer has other values than those expected, or says something else."""
    known = values(f"{case.question}\n{case.reference.answer}")
    others = {a: near for a, near in beside_values(case.said).items() if not is_in(a, known)}
    # "Twelve visits" is no other value for "5 days"; "12" alone is.
    if any(
        a.kind == b.kind
        and same_unit(a.unit, b.unit)
        and (not others[a] or a.kind != "number" or bool(a.unit) == bool(b.unit))
        for a in others
        for b in expected
    ):
        return True
    held, asked = content(case.reference.answer or ""), content(case.question)
    said = [content(each) - asked for each in case.statements]
    return not any(2 * len(each & held) >= len(each) > 0 for each in said)


def _gives(text: str, value: Value) -> bool:
    """Whether a text has the value, and not as the most where it is the least."""
    found = [each for each in values(text) if is_in(value, [each])]
    # A name at the start of a sentence cannot be told from any other word.
    named = value.kind == "name" and {*map(str, value.key)} <= {*map(stem, words(text))}
    return named or (bool(found) and not all(opposes(value, each) for each in found))


def exchanged(said: str, reference: str) -> tuple[Value, Value] | None:
    """Two values, each with the words that the reference has beside the other.

    >>> found = exchanged("It opens at 9 and closes at 5.", "It opens at 5 and closes at 9.")
    >>> sorted(value.text for value in found or ())
    ['5', '9']
    """
    ours, theirs = beside_values(said), beside_values(reference)
    both = [value for value in theirs if value in ours]
    for first, second in ((a, b) for a in both for b in both if a.kind == b.kind and a != b):
        # What both values have beside them tells them apart in neither text.
        mine, its = ours[first] - ours[second], ours[second] - ours[first]
        one, other = theirs[first] - theirs[second], theirs[second] - theirs[first]
        if mine & other and its & one and not (mine & one or its & other):
            return first, second
    return None


@remember
def beside_values(text: str) -> dict[Value, set[str]]:
    """The stems beside each value, in the clauses that have it."""
    found: dict[Value, set[str]] = {}
    for sentence in sentences(digits(text)):  # "one hundred and forty" is one value
        for clause in CLAUSE.split(sentence):
            for value in values(clause):
                named = {stem(word) for word in words(value.text)}
                found.setdefault(value, set()).update(content(clause) - named)
    return found


def states_expected(claim: str, case: AnswerCase) -> bool:
    """Whether a sentence has a key fact, or else a value, of the reference."""
    if case.reference.facts:
        return any(has(claim, each) for fact in case.reference.facts for each in fact.accept)
    said = values(claim)
    return any(is_in(value, said) for value in _expected(case))


def _stance(text: str) -> str | None:
    first = words(text[:40])[:1]
    return first[0] if first and first[0] in ("yes", "no") else None


@once
def evidence(case: AnswerCase) -> float:
    """The share of the key facts, or of the reference's values, that what was shown has."""
    share = _share_held(case, "\n".join(case.shown.values()))
    return float(case.needed <= {*case.seen_ids}) if share is None else share


@once
def lacks_part(case: AnswerCase) -> str | None:
    """A needed document of which only another part was shown, without what the reference says."""
    for doc_id in sorted(case.needed & {*case.seen_ids}) if case.contexts else ():
        document = case.documents.get(doc_id)
        if document is not None and len(case.shown.get(doc_id, "")) < len(document.text):
            whole = _share_held(case, "\n".join([*case.shown.values(), document.text]))
            if whole is not None and whole > evidence(case):
                return doc_id
    return None


def _share_held(case: AnswerCase, text: str) -> float | None:
    found = [any(has(text, each) for each in fact.accept) for fact in case.reference.facts]
    if not found:
        held = values(text)
        found = [is_in(value, held) for value in values(case.reference.answer or "")]
    return sum(found) / len(found) if found else None


def stated_facts(text: str, facts: Sequence[Fact], sources: Sequence[str] = ()) -> list[Fact]:
    """The facts that the text asserts by an accepted wording: not denied, not one of options.

    `sources` show which of them are negative.

    >>> facts = [Fact("7:00", ("7:00",))]
    >>> stated_facts("It does not open at 7:00.", facts)
    []
    """
    said = statements(text)
    if taken_back(said):
        return []
    return [
        fact for fact in facts if any(_asserts(said, fact, each, sources) for each in fact.accept)
    ]


def taken_back(said: Sequence[str]) -> str | None:
    """The sentence that denies those before it: "That is not true"."""
    return next((each for each in said[1:] if _TAKEN_BACK.search(normalize(each))), None)


def _asserts(said: Sequence[str], fact: Fact, wording: str, sources: Sequence[str]) -> bool:
    having = [each for each in said if has(each, wording) or _has_value(each, wording)]
    if not having:
        return False
    optional = " or " in f" {normalize(fact.text)} {normalize(wording)} "
    negative = not polarity(wording) or not polarity(fact.text)
    return any(
        (optional or not _is_option(normalize(sentence), wording))
        and (negative or not _is_denied(sentence, wording, sources))
        for sentence in having
    )


def _is_option(sentence: str, wording: str) -> bool:
    # What stands before "either" is none of the options.
    before, either, _ = sentence.partition("either ")
    return bool(_OPTIONS.search(sentence)) and not (either and has(before, wording))


def _is_denied(sentence: str, wording: str, sources: Sequence[str]) -> bool:
    """Whether every clause with the wording has a negation before it or right after its verb."""
    clauses = [part for part in CLAUSE.split(sentence) if has(part, wording)] or [sentence]
    for said in map(tokens, clauses):
        end = next(_ends(said, wording), len(said))
        # A denial right after it is about it: "Marta does not", but not "at £20 you cannot".
        after = ({"cannot"} & {*said[end + 1 : end + 2]}) | ({"not"} & {*said[end + 2 : end + 3]})
        if polarity(" ".join([*said[: end + 1], *after])):
            return False
    # "Not after 9:00" states a limit. What a source denies as well is not turned around.
    if "than" in tokens(sentence) or any(value.bound for value in values(sentence)):
        return False
    rows = (row for text in sources for row in sentences(text) if has(row, wording))
    return all(map(polarity, rows))


def has(text: str, wording: str) -> bool:
    """Whether a text has a wording in whole words and numbers; a last word of four letters or more
    may go on, so that "sync" covers "syncs".

    >>> has("It takes 40 minutes.", "40 min"), has("It takes 7.5 hours.", "7")
    (True, False)
    """
    return next(_ends(tokens(text), wording), None) is not None


def _ends(said: Sequence[str], wording: str) -> Iterator[int]:
    *wanted, last = tokens(wording) or ("",)
    grows = len(last) > 3 and last.isalpha()
    for end, word in enumerate(said):
        if word == last or (grows and word.startswith(last)):
            start = end - len(wanted)
            if start >= 0 and [*said[start:end]] == wanted:
                yield end


def _has_value(sentence: str, wording: str) -> bool:
    """Whether a sentence has the one value that a wording is, in whatever unit: 60 months for
    "5 years"; or its number alone, if that counts nothing else.
    """
    wanted = [*values(wording)]
    if len(wanted) != 1 or wanted[0].kind != "number" or content(wording):
        return False
    number, *_ = tokens(wording)
    bare = re.search(rf"(?<![\w.,:/-]){re.escape(number)}(?=\W*$|[,;)] )", normalize(sentence))
    return any(
        is_in(wanted[0], [each]) and (each.unit or not wanted[0].unit or bool(bare))
        for each in values(sentence)
    )
