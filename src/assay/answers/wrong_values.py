"""How a wrong answer differs from what was expected: another number, unit, date or name.

The reference says which value was wanted. A value of the same kind in the place of it is what the
answer says instead, and what was shown says where that comes from: another line of the right
document, another document, or nowhere.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from assay.answers.lexical import contains_any
from assay.answers.quantities import MONTHS, Quantity, canonical, quantities
from assay.data.dataset import Fact
from assay.text import is_stop, normalize, sentences, stems, words


class ValueKind(StrEnum):
    """What sort of value an answer has in the place of the right one."""

    NUMBER = "number"
    UNIT = "unit"
    DATE = "date or time"
    NAME = "name"


class Origin(StrEnum):
    """Where a wrong value comes from, in words that go on after "3 of these values"."""

    RIGHT = "from elsewhere in the right document"
    OTHER = "from another document that was shown"
    NOWHERE = "in nothing that was shown"


class WrongValue(NamedTuple):
    """`said` stands in the place of `expected`, both as they are written; `origin` is None where
    nobody knows what was shown, or which of it is right.
    """

    kind: ValueKind
    expected: str
    said: str
    origin: Origin | None


class _Value(NamedTuple):
    """`unit` is that of a number, or the sort of a date; `near` the words beside a number, each
    marked by its side.
    """

    kind: ValueKind
    key: str
    unit: str
    written: str
    near: frozenset[str] = frozenset()

    def is_like(self, other: "_Value") -> bool:
        """Whether this one may stand in the place of the other; money for nothing else."""
        if self.unit in _MONEY and not other.unit:
            return False
        return self.kind is other.kind and (
            not (self.unit and other.unit) or self.unit == other.unit
        )


_MONEY = ("usd", "eur", "pound", "ct")
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_DATES = re.compile(
    rf"\b(?P<date>\d{{1,2}} (?:{'|'.join(MONTHS)}))\b(?: (?P<year>\d{{4}})\b)?"
    r"|\b(?P<figures>\d{1,2}[./]\d{1,2}[./]\d{2,4})\b"
    r"|\b(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))? ?(?P<half>[ap])\.?m\b"
    r"|\b(?P<clock>\d{1,2}:\d\d)\b"
    # "may" and "march" are also verbs.
    rf"|\b(?P<name>{'|'.join(each for each in MONTHS if each not in ('may', 'march'))})\b"
    rf"|\b(?P<day>{'|'.join(_DAYS.split())})s?\b"
)
_RANGE = re.compile(r"\d(?: ?[^\W\d_]+)? to \d")
_NUMBER = re.compile(r"(?<![\w.,:/-])\d[\d.,:/]*")
_NAME = re.compile(
    r"\b[^\W\d_a-zß-ÿ][\w'’-]*(?:(?: (?:of|the|de|van|von|and))? [^\W\d_a-zß-ÿ][\w'’-]+)*"
)
_AFTERNOON = 12
_SHORT, _MOST_VALUES = 25, 6
_UNIT = 12  # characters after a number in which its unit is


def find_wrong_value(
    answer: str,
    question: str,
    reference: str,
    missing: Sequence[Fact],
    needed: Sequence[str],
    others: Sequence[str],
) -> WrongValue | None:
    """The value that an answer has in the place of an expected one; None where it has none.

    Parameters:
        answer: what was answered.
        question: what was asked; a value that it names is nobody's answer.
        reference: the reference answer.
        missing: the key facts that the answer does not state; where there are none, every value
            of the reference is expected.
        needed: the texts that hold the right value.
        others: what else was shown.
    """
    known = [question, reference, *(each for fact in missing for each in fact.accept)]
    for wordings in [fact.accept for fact in missing] or [(reference,)]:
        holding = [
            each for text in needed for each in sentences(text) if contains_any(each, wordings)
        ]
        about = {word for each in (question, reference, *holding) for word in stems(each)}
        short = len(words(answer)) <= _SHORT
        said = " ".join(each for each in sentences(answer) if short or _is_about(each, about))
        found = _other_value(said, wordings, known, needed, short)
        if found is None:
            found = _other_name(said, wordings, known)
        if found is None:
            continue
        kind, expected, said = found
        if not needed:
            return WrongValue(kind, expected, said, None)
        in_needed = any(_holds(text, said, kind) for text in needed)
        in_others = any(_holds(text, said, kind) for text in others)
        origin = Origin.RIGHT if in_needed else Origin.OTHER if in_others else Origin.NOWHERE
        return WrongValue(kind, expected, said, origin)
    return None


def _is_about(sentence: str, about: set[str]) -> bool:
    """Whether a sentence says what was asked, and is not merely quoted beside it."""
    said = {word for word in stems(sentence) if not word[0].isdigit()}
    return bool(said) and 2 * len(said & about) >= len(said)


def _holds(text: str, said: str, kind: ValueKind) -> bool:
    if kind is ValueKind.NAME:
        return set(words(said)) <= set(words(text))
    said_values, held = _values(said), _values(text)
    if kind is ValueKind.UNIT:
        return any(each[:3] == value[:3] for value in said_values for each in held)
    # A figure of the wrong line may have been given the unit of the right one.
    keys = {each.key for each in said_values}
    return bool(keys) and keys <= {each.key for each in held}


def _other_value(
    answer: str, wordings: Sequence[str], known: Sequence[str], needed: Sequence[str], short: bool
) -> tuple[ValueKind, str, str] | None:
    """A number, unit or date of the answer that nobody expects, in the place of one that is."""
    said = _values(answer)
    if sum(each.unit != "year" for each in said) > _MOST_VALUES:
        return None  # a long quotation: nothing in it stands in the place of anything
    known_values = [value for each in known for value in _values(each)]
    keys = {each.key for each in known_values}
    free = [each for each in said if each.key not in keys]
    present = False
    for value in (value for each in wordings for value in _values(each)):
        # A reference has the unit that an accepted wording may leave out.
        alike = [each for each in known_values if each.key == value.key and each.unit]
        wanted = alike[0] if alike and not value.unit else value
        same = [each for each in said if each.key == wanted.key and each.kind is wanted.kind]
        if same and any(each.is_like(wanted) for each in same):
            present = True  # of a range or a date with its year, the rest may be another
            continue
        if same:
            return ValueKind.UNIT, wanted.written, same[0].written
        places = [*known_values, *(value for text in needed for value in _values(text))]
        near = frozenset[str]().union(*(each.near for each in places if each.key == wanted.key))
        found = [each for each in free if each.is_like(wanted) and not _same_day(each, wanted)]
        if not short:
            found = [each for each in found if each.unit == wanted.unit != "" or each.near & near]
        found.sort(key=lambda each: -2 * (each.unit == wanted.unit) - len(each.near & near))
        # "915 pm" for "9:15 pm" is no time any more.
        bare = [each for each in free if each.kind is ValueKind.NUMBER and not each.unit]
        if not found and wanted.kind is ValueKind.DATE and len(bare) == 1:
            found = bare
        if found and (not present or wanted.unit == "year"):
            return wanted.kind, wanted.written, found[0].written
    return _end_of_range(said, wordings)


def _end_of_range(
    said: Sequence[_Value], wordings: Sequence[str]
) -> tuple[ValueKind, str, str] | None:
    """One end of a range for the whole of it: "90" for "40 to 90"."""
    for wording in wordings:
        ends = {each.key for each in _values(wording)}
        found = [each for each in said if each.key in ends]
        if _RANGE.search(canonical(normalize(wording))) and len(ends) == 2 and len(found) == 1:
            return found[0].kind, wording, found[0].written
    return None


def _same_day(one: _Value, other: _Value) -> bool:
    """Whether "04/11/2026" may be 4 November."""
    day, _, month = other.key.partition(" ")
    if ("/" not in one.key and "." not in one.key) or month not in MONTHS:
        return False
    figures = {int(each) for each in re.findall(r"\d+", one.key)[:2]}
    return figures == {int(day), MONTHS.index(month) + 1}


def _values(text: str) -> list[_Value]:
    """The dates, times and numbers of a text, in their order."""
    simple = normalize(text)
    plain = canonical(simple)
    found: list[tuple[int, _Value]] = []
    for match in _DATES.finditer(plain):
        key, sort = _date_key(match)
        written = key.title() if sort != "time" else match[0]
        found.append((match.start(), _Value(ValueKind.DATE, key, sort, written)))
        if year := match["year"]:
            written = f"{written} {year}"
            found.append((match.end(), _Value(ValueKind.DATE, year, "year", written)))
    rest = _DATES.sub(lambda match: "_" * len(match[0]), plain)
    for match in _NUMBER.finditer(rest):
        before, after = rest[: match.start()].split()[-1:], rest[match.end() :].split()[:1]
        near = frozenset([*(f"{each}<" for each in before), *(f"{each}>" for each in after)])
        begin = match.start() - rest.endswith("$", 0, match.start())
        read = next(quantities(rest[begin : match.end() + _UNIT]), None)
        if read is not None:
            value = _Value(ValueKind.NUMBER, read.value, read.unit, _written(read, simple), near)
            found.append((match.start(), value))
    return [value for _, value in sorted(found, key=lambda each: each[0])]


def _written(read: Quantity, text: str) -> str:
    """A number with its unit as it is written, if that is in digits: "84 pounds"."""
    unit = r"(?: ?[^\W\d_]+| ?[%‰°€$£]| ?per ?cent)" if read.unit else ""
    zeros = "0*" if "." in read.value else ""
    number = rf"(?<![\w.,:]){re.escape(read.value)}{zeros}"
    match = re.search(rf"[€$£] ?{number}|{number}{unit}", text)
    return match[0].strip() if match else f"{read.value} {read.unit}".strip()


def _date_key(match: re.Match[str]) -> tuple[str, str]:
    """One spelling of a date or time, and its sort."""
    if match["hour"]:
        hour = int(match["hour"]) % _AFTERNOON + _AFTERNOON * (match["half"] == "p")
        return f"{hour}:{match['minute'] or '00'}", "time"
    if match["clock"]:
        return match["clock"].removeprefix("0"), "time"
    if match["day"]:
        return match["day"], "weekday"
    return (match["date"] or match["figures"] or match["name"]).removeprefix("0"), "day"


def _other_name(
    answer: str, wordings: Sequence[str], known: Sequence[str]
) -> tuple[ValueKind, str, str] | None:
    """A name that nobody expects, where a name was expected that the answer does not have."""
    expected = next((each for each in wordings if any(_names(f"x {each}"))), None)
    if expected is None or any(map(str.isdigit, expected)):
        return None
    heard = {word for each in known for word in words(each)}
    for name in _names(answer):
        parts = [each for each in words(name) if not is_stop(each)]
        # "Ada Moos" for "Ada Moss"
        if heard.isdisjoint(parts) or (len(parts) > 1 and parts[-1] not in heard):
            return ValueKind.NAME, expected, name
    return None


def _names(text: str) -> Iterator[str]:
    """What is written with a capital; at the beginning of a sentence only two such words."""
    for match in _NAME.finditer(text):
        begins = not text[: match.start()].strip() or text[: match.start()].rstrip()[-1] in '.!?:"“'
        first, _, rest = match[0].partition(" ")
        name = rest if begins and is_stop(first.lower()) else match[0]
        if name and (not begins or " " in match[0]) and not _DATES.fullmatch(name.lower()):
            yield name
