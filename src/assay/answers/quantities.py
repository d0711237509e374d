"""Numbers, units and dates in one spelling ("twenty-one minutes" is "21 min"), and negations."""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from assay.text import normalize, remember_short, words

_NEGATIONS = {
    "german": "nicht kein keine keinen keinem keiner keines nie niemals weder ohne",
    "french": "pas jamais aucun aucune sans ni",
    "spanish": "no nunca jamás ningún ninguna sin tampoco",
    "italian": "non mai nessun nessuno nessuna senza né",
    "dutch": "niet geen nooit zonder",
    "portuguese": "não nunca jamais nenhum nenhuma sem",
}


def negations_of(language: str | None) -> frozenset[str]:
    """The plain negations of a language other than English; none where it is not known."""
    return frozenset(_NEGATIONS.get(language or "", "").split())


_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_DECADES = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES = {word: value for value, word in enumerate(words(_SMALL))}
_TENS = {word: 10 * value for value, word in enumerate(words(_DECADES), start=2)}
# Of other languages those that are no word of English ("due", "once", "elf").
_ELSEWHERE = {
    2: "zwei deux twee dois", 3: "drei trois tres drie três", 4: "vier quatre cuatro quattro",
    5: "fünf cinq cinco cinque vijf", 6: "sechs zes", 7: "sieben sept siete sette zeven sete",
    8: "acht huit ocho oito", 9: "neun neuf nueve negen nove", 10: "zehn diez dieci tien dez",
    12: "zwölf douze doce dodici twaalf doze",
}  # fmt: skip
_ONES |= {word: value for value, listed in _ELSEWHERE.items() for word in listed.split()}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000}
_UNITS = {
    "min": r"minutes?|mins?\.?",
    "h": r"hours?|hrs?\.?",
    "sec": r"seconds?|secs?\.?",
    "day": r"days?",
    "week": r"weeks?",
    "month": r"months?",
    "year": r"years?|yrs?\.?",
    "eur": r"euros?|€|eur\b",
    "ct": r"cents?\b|¢",
    "usd": r"dollars?|usd\b",
    "‰": r"per ?mille?|‰",
    "%": r"per ?cent|percent|%",
    "km": r"kilomet(?:er|re)s?|kms?\b",
    "cm": r"centimet(?:er|re)s?",
    "mm": r"millimet(?:er|re)s?",
    "m": r"met(?:er|re)s?",
    "kg": r"kilo(?:gram(?:me)?)?s?|kgs?\b",
    "mg": r"milligrams?",
    "g": r"gram(?:me)?s?",
    "pound": r"pounds sterling|pounds?\b|lbs?\b|gbp\b|£",  # of money or of weight: nobody says
    "oz": r"ounces?\b",
    "mi": r"miles?\b",
    "ft": r"feet\b|foot\b",
    "ml": r"millilit(?:er|re)s?",
    "l": r"lit(?:er|re)s?",
    "mb": r"megabytes?",
    "gb": r"gigabytes?",
    "person": r"people|persons?",
    "°c": r"degrees?(?: celsius| c\b)?|°(?: ?c\b)?",
}
_WORD = "|".join((*_ONES, *_TENS, *_SCALES))
# A lone "one" is more often a pronoun than a number.
_NUMBER_WORDS = re.compile(rf"\b(?:(?:{_WORD})(?:[ -](?:and )?|\b))+(?<![ -])")
_LONE = frozenset({"one", "hundred", "thousand", "million", "billion", "second"})
_AFTER = re.compile(
    r"(?P<number>\d[\d.,:]{0,30}+) ?(?:"
    + "|".join(f"(?P<u{place}>{forms})" for place, forms in enumerate(_UNITS.values()))
    + r")(?![\w])"
)
# "28 or 31 days" are 28 days or 31 days.
_EITHER_NUMBER = re.compile(r"(?<![\w.,:/-])(\d[\d.,:]*) or (\d[\d.,:]*) ([^\W\d_]+)")
# "40-90", "from 40 to 90" and "between 40 and 90" are 40 to 90; not "2026-11-04" or "555-0102-7".
_RANGE = re.compile(
    r"(?<![\w.,:/-])(?:between (\d[\d.,:]*) and|(?:from )?(\d[\d.,:]*) ?(-|bis|to)) ?"
    r"(?=(\d[\d.,:]*)(?![\w-]))"
)
_CURRENCY = re.compile(r"(?:€|\beur|(?P<pound>£|\bgbp)) ?(?P<number>\d[\d.,]*)")
_SCALED = re.compile(r"(?<![\w.,:/])(\d+(?:\.\d+)?) (thousand|million|billion)\b")
_NAMES = tuple(_UNITS)
_DOLLARS = re.compile(r"\$ ?(\d[\d.,]*\d|\d)")
_ANY_QUANTITY = re.compile(
    r"(?<!\w)(?P<number>\d[\d.,:/]*)(?: ?(?P<unit>"
    + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True))
    + r")(?!\w))?"
)
_QUANTITY = re.compile(
    r"(?P<number>-?\d[\d.,:]{0,30}+) (?P<unit>"
    + "|".join(map(re.escape, _NAMES))
    + r")(?:s|ute.*)?"
)


MONTHS = words(
    "january february march april may june july august september october november december"
)
_MONTH = rf"(?P<{{}}>{'|'.join(MONTHS)}|januar|februar|märz|mai|juni|juli|oktober|dezember)"
# "4th of November", "November 4, 2026", "2026-11-04"; not "in May 20 people", "you may 4".
_DATE = re.compile(
    rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?{_MONTH.format('month')}\b"
    rf"|\b{_MONTH.format('first')} (?P<second>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?=\d{{4}}\b))?"
    r"(?! (?!at\b|and\b|to\b|until\b|from\b|in\b|on\b|each\b|every\b|of\b|is\b|because\b)[^\W\d_])"
    r"|\b(?P<year>\d{4})-(?P<iso>0[1-9]|1[0-2])-(?P<last>[0-3]\d)\b"
)


def _date(match: re.Match[str]) -> str:
    if match["year"]:
        return f"{int(match['last'])} {MONTHS[int(match['iso']) - 1]} {match['year']}"
    blank = " " if match[0].endswith(" ") else ""
    return f"{match['day'] or match['second']} {match['month'] or match['first']}{blank}"


@remember_short
def canonical(text: str) -> str:
    """A normalized text with number words as digits, units and dates in one spelling."""
    digits = _EITHER_NUMBER.sub(r"\1 \3 or \2 \3", _NUMBER_WORDS.sub(_digits, text))
    digits = _RANGE.sub(_range, _DATE.sub(_date, digits))
    amounts = _CURRENCY.sub(_amount, _SCALED.sub(_scaled, digits))
    return _AFTER.sub(_unit, amounts)


def _range(match: re.Match[str]) -> str:
    """With a hyphen only what rises: not "555-0102" (a telephone), "3-1" or "2026-11"."""
    first, last = match[1] or match[2], match[4].rstrip(".,:")
    if match[3] == "-":
        plain = first.isdigit() and last.isdigit()
        if plain and (int(first) >= int(last) or any(e[0] == "0" < e[1:] for e in (first, last))):
            return match[0]
    return f"{first} to "


def _amount(match: re.Match[str]) -> str:
    return f"{match['number'].rstrip('.,')} {'pound' if match['pound'] else 'eur'}"


def _scaled(match: re.Match[str]) -> str:
    """ "2.5 million" in digits, as far as they come out even."""
    value = Decimal(match[1]) * _SCALES[match[2]]
    return str(int(value)) if value == int(value) else match[0]


def numbers(text: str) -> set[str]:
    """The numbers of a text as digits, whether they are written so or as words."""
    return {word for word in words(canonical(normalize(text))) if word[0].isdigit()}


# How many of the one unit are one of the other.
_FACTORS = {
    frozenset(pair.split()): factors
    for pair, factors in {
        "sec min": (60,), "min h": (60,), "h day": (24,), "day week": (7,), "day month": (30,),
        "day year": (365,), "week year": (52,), "month year": (12,), "mm m": (1000,),
        "m km": (1000,), "mg g": (1000,), "g kg": (1000,), "ml l": (1000,), "kb mb": (1000, 1024),
        "mb gb": (1000, 1024), "gb tb": (1000, 1024),
    }.items()
}  # fmt: skip
_UNIT_NAMES = {
    form: unit
    for unit, forms in {
        "sec": "second seconds", "min": "minute minutes", "h": "hour hours hourly",
        "day": "days daily", "week": "weeks weekly", "month": "months monthly",
        "year": "years yearly annual annually annum",
    }.items()
    for form in forms.split()
} | {unit: unit for pair in _FACTORS for unit in pair}  # fmt: skip


def is_converted(number: str, others: Iterable[str], said: str, known: Sequence[str]) -> bool:
    """Whether a number that is said is another in a larger or smaller unit of time or size, which
    is beside both: 228 a year for 19 a month. That of the other one may be in what is known.
    """
    value, own = _decimal(number), _units_beside(number, [said])
    if not (value and own):
        return False
    return any(
        any(pair - {mine} <= beside for mine in own & pair)
        for other in others
        if (each := _decimal(other))
        for pair, factors in _FACTORS.items()
        if any(value in (each * by, each / by) for by in factors)
        for beside in [_units_beside(other, [said, *known])]
    )


def _units_beside(number: str, texts: Iterable[str]) -> set[str]:
    """The units of time and size in the four words after a number: "7 pounds a month"."""
    after = re.compile(
        rf"(?<![\w.,:/]){re.escape(number)}(?![.,:/]?\d)((?:[^\w.;]*[^\W\d_]+){{0,4}})"
    )
    plain = (canonical(normalize(text)) for text in texts if text)
    near = (word for text in plain for found in after.findall(text) for word in words(found))
    return {unit for word in near if (unit := _UNIT_NAMES.get(word))}


def _decimal(number: str) -> Decimal:
    return Decimal(number) if re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", number) else Decimal(0)


class Quantity(NamedTuple):
    """A number as it is written ("3", "17:00"), and the name of its unit if that is known."""

    value: str
    unit: str


def quantities(text: str) -> Iterator[Quantity]:
    """The numbers of a text with their units, in their order."""
    dollars = _DOLLARS.sub(r"\1 usd", normalize(text))
    for match in _ANY_QUANTITY.finditer(canonical(dollars)):
        yield Quantity(plain_number(match["number"].rstrip(".,:/")), match["unit"] or "")


def plain_number(number: str) -> str:
    """A number in one spelling: "1.50" is "1.5", "007" is "7"."""
    if re.fullmatch(r"\d+\.\d+", number):
        number = number.rstrip("0").rstrip(".")
    return number.lstrip("0") or "0" if number.isdigit() else number


def spellings_of(unit: str) -> list[str]:
    """The words that a unit is written with, as far as they are words: "eur" is "euro"."""
    return [
        each
        for form in _UNITS.get(unit, "").split("|")
        if (each := form.rstrip("s?\\b.")).isalpha()
    ]


def bare_number(phrase: str) -> str | None:
    """The number of a phrase that is a number with its unit, "22 min" or "30 eur", else None."""
    match = _QUANTITY.fullmatch(canonical(phrase))
    return match["number"] if match else None


def _unit(match: re.Match[str]) -> str:
    name = _NAMES[int(str(match.lastgroup).removeprefix("u"))]
    return f"{match['number'].rstrip('.,:')} {name}"


def _digits(match: re.Match[str]) -> str:
    found = match[0]
    parts = [part for part in re.findall(r"[^\W\d_]+", found) if part != "and"]
    if len(parts) == 1 and parts[0] in _LONE:
        return found
    value = _value(parts)
    return found if value is None else str(value) + (" " if found.endswith(" ") else "")


def _value(parts: list[str]) -> int | None:
    total, part = 0, 0
    last = 0
    for word in parts:
        if word in _SCALES:
            part = max(part, 1) * _SCALES[word]
            if _SCALES[word] > 100:
                total, part = total + part, 0
            last = 0
        elif word in _TENS:
            if last:
                return None
            part, last = part + _TENS[word], 10
        else:
            if last not in (0, 10) or (last == 10 and _ONES[word] > 9):
                return None  # "two three" are two numbers
            part, last = part + _ONES[word], 1
    return total + part
