"""The values of a text: numbers with units, dates, times and names; and its polarity and content.

    >>> sorted(value.text for value in values("It costs Ida Solheim $1,200 a month from 3 May."))
    ['$1200 a month', '3 may', 'Ida Solheim']

What rests on values works in any language that writes digits; number words, months, names and
polarity are read in English.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Literal, TypeVar, cast

from assay.text import is_negation, is_stop, normalize, sentences, stem, words

ValueKind = Literal["number", "date", "time", "name"]

_SMALL = words("""one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen""")
_TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
_NUMBERS = dict(zip(_SMALL + _TENS, [*range(1, 20), *range(20, 100, 10)], strict=True))
_UNIT_FORMS = """minute minutes min mins, hour hours hr hrs h, second seconds sec secs, day
    days, week weeks, month months, year years, night nights, euro euros eur €, dollar dollars
    usd $, pound pounds gbp £ lbs, krone kroner kronor kr nok sek dkk, franc francs chf, yen
    jpy ¥, zloty pln, rupee rupees inr, yuan cny, cent cents, pence p, percent %, km kilometer
    kilometers kilometre kilometres, m meter meters metre metres, m2, m3, knot knots kn, cm
    centimetre centimetres, mm, bar, kg kilo kilos kilogram kilograms, ton tons tonne tonnes t,
    g gram grams, mg, mile miles, ft foot feet, inch inches, ounce ounces oz, l liter liters
    litre litres, ml, nm, kw, kwh, mb, gb, mbit, degrees ° °c celsius, person persons people"""
_UNITS = {form: forms.split()[0] for forms in _UNIT_FORMS.split(",") for form in forms.split()}
# 48 hours are 2 days, and 25 tonnes are 25,000 kg.
_SCALES = {
    "minute": (60, "second"),
    "hour": (3_600, "second"),
    "day": (86_400, "second"),
    "week": (604_800, "second"),
    "year": (12, "month"),
    "km": (1_000, "m"),
    "cm": (0.01, "m"),
    "mm": (0.001, "m"),
    "ton": (1_000_000, "g"),
    "kg": (1_000, "g"),
    "mg": (0.001, "g"),
    "ml": (0.001, "l"),
    "m3": (1_000, "l"),
}
_MONTHS = "january february march april may june july august september october november december"
_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(_MONTHS.split(), start=1)}
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS.split())
# "one hundred" and "twelve hundred" are left as words, and a lone "one" is a pronoun more often.
_NUMBER_WORD = re.compile(
    rf"(?<!hundred )(?<!hundred and )\b(?!one\b)(?:({'|'.join(_TENS)})-)?"
    rf"({'|'.join(_NUMBERS)})\b(?! hundred)"
)
_WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_DATE = (
    rf"\b(?:(?P<w1>{_WEEKDAY}),? (?:the )?)?(?P<d1>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?"
    rf"(?P<m1>{_MONTH})\b(?:,? (?P<y1>\d{{4}})\b)?"
    rf"|\b(?:(?P<w2>{_WEEKDAY}),? )?(?P<m2>{_MONTH}) (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)"
    rf"(?:,? (?P<y2>\d{{4}})\b)?"
    r"|\b(?P<y3>\d{4})-(?P<m3>\d\d)-(?P<d3>\d\d)\b"
    r"|\b(?P<d4>\d{1,2})[./](?P<m4>\d{1,2})[./](?P<y4>\d{4})\b"
    # "May" and "march" alone are verbs more often.
    rf"|\b(?!may\b|mar)(?P<m5>{_MONTH})\b(?: (?P<y5>\d{{4}})\b)?"
    rf"|\b(?P<w3>{_WEEKDAY})s?\b"
)
_TIME = (
    r"\b(?P<hour1>\d{1,2})(?:[:.](?P<minute1>\d\d))? ?(?P<half>[ap])\.?m\b\.?"
    r"|\b(?P<hour2>\d{1,2}):(?P<minute2>\d\d)\b"
    r"(?: (?:in the|at) (?P<part>morning|\w+noon|evening|night)\b)?"
)
_QUANTITY = (
    r"(?:(?P<sign>[€$£]|\b(?:eur|usd|gbp|chf|nok|sek|dkk)\b) ?)?"
    r"(?<![\w.,])(?P<number>(?<!\d )[1-9]\d{0,2}(?: \d{3})+(?! ?\d|[.,]\d)|\d+(?:[.,]\d+)*)"
    r"(?:[ -]?(?P<unit>[%°€$£]c?|m[23]\b|(?!an?\b|per\b)[a-z]+))?"
    r"(?:(?: (?:an?|per|each|every) |/)(?P<rate>[a-z]+(?: (?:and|per) [a-z]+)?))?"
)
_VALUE = re.compile(f"{_DATE}|{_TIME}|{_QUANTITY}")
_NAME = re.compile(r"(?<!\w)[A-ZÀ-Þ][\w’'&-]*(?: [A-ZÀ-Þ][\w’'&-]*)*")
_CALENDAR = re.compile(rf"(?:{_MONTH}|{_WEEKDAY}s?|am|pm)")
# What names a place in a document is no value: "§ 4.2", "section 7".
_PLACE = re.compile(r"(?:§+|\b(?:section|article|clause|chapter|paragraph|annex)) ?\d+(?:\.\d+)*")
# "12 to 23 January" and "January 12-23" have two dates.
_DATES = re.compile(rf"\b(\d{{1,2}}) ?(to|until|and|–|-) ?(?=\d{{1,2}} (?:of )?({_MONTH})\b)")
_SAME_MONTH = re.compile(rf"\b({_MONTH}) (\d{{1,2}}) ?(?:to|until|–|-) ?(?=\d{{1,2}}\b(?!:))")
# "No, it is open", "not only then" and "no later than" negate nothing.
_NO_NEGATION = re.compile(
    r"\b(?:no|yes)\b(?=[,.:;!–-])|\bnot (?:only|just|until|before|later|more|less)\b"
    r"|\bno (?:later|more|less|fewer) than\b|\bno\. ?(?=\d)|\bwithout\b"
)
_NO_CONTENT = {*_UNITS, *_NUMBERS, "pm"}
_LONG_TEXT = 2_000
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Value:
    """One value; `key` is what is compared, `text` the words that say it."""

    kind: ValueKind
    key: tuple[object, ...]
    unit: str = ""
    text: str = field(default="", compare=False)


def _remember(read: Callable[[str], Result]) -> Callable[[str], Result]:
    """Every check reads the same sentences again; only a few of the longer texts are kept."""
    short, long = lru_cache(maxsize=20_000)(read), lru_cache(maxsize=8)(read)

    @wraps(read)
    def remembering(text: str) -> Result:
        return short(text) if len(text) <= _LONG_TEXT else long(text)

    return remembering


@_remember
def values(text: str) -> frozenset[Value]:
    """The numbers, dates, times and names of a text, each in one spelling."""
    plain = _PLACE.sub(" ", digits(normalize(text)))
    plain = _SAME_MONTH.sub(r"\1 \2 to \1 ", _DATES.sub(r"\1 \3 \2 ", plain))
    return frozenset([*_names(text), *map(_value, _VALUE.finditer(plain))])


def same(one: Value, other: Value) -> bool:
    """Whether two values agree; what only one of them says (a year, a unit) is no difference.

    >>> same(Value("name", ("ida", "solheim")), Value("name", ("solheim",)))
    True
    """
    if one.kind != other.kind:
        return False
    if one.kind == "name":
        return {*one.key} <= {*other.key} or {*other.key} <= {*one.key}
    if one.kind == "number":
        amounts = (
            (_amount(one), _amount(other)) if one.unit and other.unit else (one.key, other.key)
        )
        return amounts[0] == amounts[1] and same_unit(one.unit, other.unit)
    known = [pair for pair in zip(one.key, other.key, strict=True) if None not in pair]
    return bool(known) and all(mine == its for mine, its in known)


def same_unit(one: str, other: str) -> bool:
    """Whether units measure the same where both are said: hours are days, not euros.

    >>> same_unit("euro", "euro/day"), same_unit("euro/week", "euro/day"), same_unit("hour", "day")
    (True, False, True)
    """
    (mine, *rates), (its, *its_rates) = one.split("/"), other.split("/")
    alike = not mine or not its or _SCALES.get(mine, (1, mine))[1] == _SCALES.get(its, (1, its))[1]
    return alike and (not rates or not its_rates or not {*rates}.isdisjoint(its_rates))


def _amount(value: Value) -> object:
    factor, _ = _SCALES.get(value.unit.split("/")[0], (1, ""))
    return round(value.key[0] * factor, 6) if isinstance(value.key[0], float) else value.key[0]


def is_in(value: Value, others: Iterable[Value]) -> bool:
    """Whether any of the others is the same value."""
    return any(same(value, other) for other in others)


def digits(text: str) -> str:
    """Number words of a normalized text as digits: "twenty-one" is "21"."""
    return _NUMBER_WORD.sub(lambda match: str(_NUMBERS.get(match[1], 0) + _NUMBERS[match[2]]), text)


@_remember
def tokens(text: str) -> tuple[str, ...]:
    """The words of a text, with its values in one spelling.

    >>> tokens("€5, not 5%"), tokens("May 3rd at 1 pm"), tokens("It isn't.")
    (('5', 'euro', 'not', '5', 'percent'), ('3', 'may', 'at', '13:00'), ('it', 'is', 'not'))
    """
    plain = _VALUE.sub(_respell, digits(normalize(text))).replace("n't", " not")
    return tuple(_UNITS.get(word, word) for word in words(plain))


def _respell(match: re.Match[str]) -> str:
    value = _value(match)
    if value.kind == "number":
        unit = match["unit"] or ""
        rest = match[0][match.end("unit" if unit else "number") - match.start() :]
        return " ".join(
            [
                match["number"].replace(" ", ""),
                _UNITS.get(match["sign"], ""),
                _UNITS.get(unit, unit),
                rest,
            ]
        )
    if value.kind == "time":
        hour, minute, half = cast(tuple[int, int, str | None], value.key)
        return f"{hour + 12 * (half == 'p') if half else hour or 12}:{minute:02}"
    year, month, day, weekday = cast(tuple[int | None, ...], value.key)
    if month and month > len(_MONTH_NUMBERS):
        return match[0]
    name = _MONTHS.split()[month - 1] if month else ""
    return " ".join(str(part) for part in (weekday, day, name, year) if part)


@_remember
def content(text: str) -> frozenset[str]:
    """The stems that carry the meaning of a text; numbers and units are values instead."""
    return frozenset(
        stem(word)
        for word in {*words(text)}
        if word[0].isalpha() and not (is_stop(word) or word in _NO_CONTENT)
    )


def polarity(sentence: str) -> bool:
    """False for a negated sentence, in English.

    >>> polarity("It must not be oiled."), polarity("No, it is open."), polarity("Not only then.")
    (False, True, True)
    """
    return not any(map(is_negation, words(_NO_NEGATION.sub(" ", normalize(sentence)))))


def _value(match: re.Match[str]) -> Value:
    got = {name.rstrip("12345"): part for name, part in match.groupdict().items() if part}
    if "number" in got:
        return _number(got, match[0].strip())
    if "hour" in got:
        hour, part = int(got["hour"]), got.get("part")
        half = got.get("half") or (part and ("a" if part == "morning" else "p"))
        key = (hour % 12, int(got.get("minute", 0)), "p" if hour > 12 else half)
        return Value("time", key, text=match[0])
    month = got.get("m", "")
    number = _MONTH_NUMBERS.get(month[:3]) or (int(month) if month else None)
    year, day = (int(got[part]) if part in got else None for part in "yd")
    return Value("date", (year, number, day, got.get("w")), text=match[0])


def _number(got: dict[str, str], text: str) -> Value:
    unit = _UNITS.get(got.get("sign") or got.get("unit", ""), "")
    rates = [_UNITS[word] for word in got.get("rate", "").split() if unit and word in _UNITS]
    plain = got["number"].replace(" ", "")
    if "," in plain and "." in plain:  # 1.200,50: only the last of the two starts the decimals
        plain = plain.replace(min(",.", key=plain.rindex), "")
    plain = plain.replace(",", ".")
    key = float(plain) if plain.count(".") < 2 else plain
    return Value("number", (key,), "/".join([unit, *rates]), text if unit else got["number"])


def _names(text: str) -> Iterator[Value]:
    """Capitalized runs; the first word of a sentence only within a run."""
    for sentence in sentences(text):
        for match in _NAME.finditer(sentence):
            parts = [part.removesuffix("'s").removesuffix("’s") for part in match[0].split()]
            before = sentence[: match.start()].rstrip(" \"“'(")
            begins = not any(map(str.isalnum, before)) or before[-1] in ":.!?"
            if len(parts) == 1 and (begins or len(parts[0]) == 1):
                continue
            kept = [part for part in parts if not _is_common(part.lower())]
            if kept:
                yield Value("name", tuple(map(str.lower, kept)), text=" ".join(kept))


def _is_common(word: str) -> bool:
    return is_stop(word) or word in _NO_CONTENT or bool(_CALENDAR.fullmatch(word))
