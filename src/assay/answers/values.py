"""The values of a text: numbers with units, dates, times and names; and its polarity and content.

    >>> sorted(value.text for value in values("It costs Ida Solheim $1,200 a month from 3 May."))
    ['$1200 a month', '3 may', 'Ida Solheim']

What rests on values works in any language that writes digits; number words, months, names and
polarity are read in English.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from itertools import takewhile
from typing import Literal, TypeVar, cast

from assay.text import is_negation, is_stop, normalize, sentences, stem, words

ValueKind = Literal["number", "date", "time", "name"]

_SMALL = words("""one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen""")
_TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
_NUMBERS = dict(zip(_SMALL + _TENS, [*range(1, 20), *range(20, 100, 10)], strict=True))
_ORDINALS = words("""first second third fourth fifth sixth seventh eighth ninth tenth eleventh
    twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth""")
_UNIT_FORMS = """minute minutes min mins, hour hours hr hrs h, second seconds sec secs, day
    days, week weeks, month months, year years, night nights, euro euros eur €, dollar dollars
    usd $, pound pounds gbp £ lbs, krone kroner kronor kr nok sek dkk, franc francs chf, yen
    jpy ¥, zloty pln, rupee rupees inr, yuan cny, cent cents, pence p, percent %, km kilometer
    kilometers kilometre kilometres, m meter meters metre metres, m2, m3, knot knots kn, cm
    centimetre centimetres, mm, bar, kg kilo kilos kilogram kilograms, ton tons tonne tonnes t,
    g gram grams, mg, mile miles, mph, ft foot feet, inch inches, ounce ounces oz, l liter liters
    litre litres, ml, nm, kw, kwh, psi, ms millisecond milliseconds, kb kilobyte kilobytes, mb
    megabyte megabytes, gb gigabyte gigabytes, tb terabyte terabytes, kbit kbps kilobits, mbit mbps
    megabits, gbit gbps gigabits, degrees ° °c celsius, person persons people"""
_COUNTED = "minute|hour|second|day|week|month|year|night|euro|dollar|pound|percent|metre|kg|litre"
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
    "ms": (0.001, "second"),
    "pence": (0.01, "pound"),
    **{f"{prefix}b": (1_000**n, "byte") for n, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}bit": (1_000**n, "bit") for n, prefix in enumerate("kmg", start=1)},
}
_MONTHS = "january february march april may june july august september october november december"
_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(_MONTHS.split(), start=1)}
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS.split())
_BELOW_100 = rf"(?:(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(_SMALL[:9])}))?|{'|'.join(_SMALL)})"
_BELOW_1000 = rf"(?:(?:{'|'.join(_SMALL)}|a) hundred(?:(?: and)? {_BELOW_100})?|{_BELOW_100})"
_NUMBER_WORD = re.compile(
    # A lone "one" is a pronoun more often, except before what is counted.
    rf"\b(?!one\b(?! (?:hundred|thousand|million|point|and a half|{_COUNTED})\b))"
    rf"(?:{_BELOW_1000})(?: thousand(?:,?(?: and)? {_BELOW_1000})?| million)?"
    rf"(?P<decimals>(?: point(?: (?:zero|{'|'.join(_SMALL[:9])}))+)|(?P<half> and a half))?\b"
    rf"(?!-(?!{_COUNTED})[a-z])",  # "two-step" counts nothing
    re.IGNORECASE,
)
_PHRASES = {
    "per cent": "percent",
    "half an hour": "30 minutes",
    "half-day": ".5-day",
    "an hour and a half": "90 minutes",
    "a quarter of an hour": "15 minutes",
    "a fortnight": "14 days",
    "half a dozen": "6",
    "a dozen": "12",
}
_PHRASE = re.compile(rf"\b(?:{'|'.join(_PHRASES)})\b")
# "1.5 million", "£5m"; "5 m" are metres.
_SCALED = re.compile(
    r"(?P<sign>[€$£])?(?<!\d)(\d++(?:\.\d++)?)(?: ?(?P<word>thousand|million|billion)"
    r"|(?(sign) ?(?P<letter>k|m|bn)|(?!)))\b"
)
_MULTIPLES = {"t": 10**3, "k": 10**3, "m": 10**6, "b": 10**9}
# "Twenty twenty-one", and not "twenty ten-minute talks".
_FROM_10 = rf"(?:{'|'.join(_SMALL[9:] + _TENS)})(?:-(?:{'|'.join(_SMALL[:9])}))?"
_YEAR = re.compile(rf"\b(nineteen|twenty) ({_FROM_10})\b(?!-)")
_ORDINAL = re.compile(rf"\b({'|'.join(_ORDINALS)})(?= (?:of )?(?:{_MONTH})\b)")
_FRACTIONS = str.maketrans({"¼": ".25", "½": ".5", "¾": ".75"})
_PARTS = {"half": "30", "quarter": "15"}
_SPOKEN_TIME = re.compile(
    r"\b(half|quarter|\d{1,2}) past (\d{1,2})\b(?!:)|(?<![\w:.])(\d{1,2})"
    r"(?: o'clock\b|(?= (?:in the (?:morning|afternoon|evening)|at night)\b))"
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
    r"(?<![\w.,])(?P<number>(?<!\d )[1-9]\d{0,2}(?: \d{3})+(?! ?\d|[.,]\d)|\d+(?:[.,]\d+)*|\.\d+)"
    r"(?:[ -]?(?:(?:working|business|calendar) )?"
    r"(?P<unit>[%°€$£]c?|m[23]\b|(?!an?\b|per\b)[a-z]+))?"
    r"(?:(?: (?:an?|per|each|every) |/)(?P<rate>[a-z]+(?: (?:and|per) [a-z]+)?))?"
)
_VALUE = re.compile(f"{_DATE}|{_TIME}|{_QUANTITY}")
_NAME = re.compile(r"(?<!\w)[A-ZÀ-Þ][\w’'&-]*(?: [A-ZÀ-Þ][\w’'&-]*)*")
_DAYS = words("monday tuesday wednesday thursday friday saturday sunday")
_CALENDAR = {*_MONTHS.split(), *_MONTH_NUMBERS, *_DAYS, *(f"{day}s" for day in _DAYS), "am", "pm"}
# What names a place in a document is no value: "§ 4.2", "section 7".
_PLACE = re.compile(r"(?:§+|\b(?:section|article|clause|chapter|paragraph|annex)) ?\d+(?:\.\d+)*")
# Neither is "(1)" in a list, and v3.8 is version 3.8.
_NO_PART = re.compile(r"(?:^|(?<=[:;,.] ))\(?\d{1,2}\) (?=\w)|\bv(?=\d+\.\d)")
# "12 to 23 January" and "January 12-23" have two dates.
_DATES = re.compile(
    rf"\b(\d{{1,2}}) ?(to|until|and|–|-) ?(?=\d{{1,2}} (?:of )?({_MONTH})\b)"
    rf"|\b({_MONTH}) (\d{{1,2}}) ?(?:to|until|–|-) ?(?=\d{{1,2}}\b(?!:))"
)
# "No, it is open", "not only then" and "no later than" negate nothing.
_NO_NEGATION = re.compile(
    r"\b(?:no|yes)\b(?=[,.:;!–-])|\bnot (?:only|just|until|before|later|more|less)\b"
    r"|\bno (?:later|more|less|fewer) than\b|\bno\. ?(?=\d)|\bwithout\b"
)
_LEAST = words("""least minimum min above over more after exceed exceeds from since older longer
    later higher earliest""")
_MOST = words("""most maximum max upto below under less fewer until till within before younger
    earlier latest""")
_BOUNDS = dict.fromkeys(_LEAST, 1) | dict.fromkeys(_MOST, -1)
CLAUSES = re.compile(r"[,;:()–](?!\d)|[.!?](?= )| - |\n|\b(?:and|or|but|except|because)\b")
_NO_CONTENT = {*_UNITS, *_NUMBERS, *_BOUNDS, "pm", "s"}
_YEARS = range(1900, 2100)
_LONG_TEXT = 2_000
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Value:
    """One value; `key` is what is compared, `text` the words that say it.

    `bound` is 1 for the least that is allowed ("at least 5", "not before 9:00"), -1 for the most.
    """

    kind: ValueKind
    key: tuple[object, ...]
    unit: str = ""
    text: str = field(default="", compare=False)
    bound: int = field(default=0, compare=False)


def remember(read: Callable[[str], Result]) -> Callable[[str], Result]:
    """Every check reads the same sentences again; only a few of the longer texts are kept."""
    short, long = lru_cache(maxsize=20_000)(read), lru_cache(maxsize=8)(read)

    @wraps(read)
    def remembering(text: str) -> Result:
        return short(text) if len(text) <= _LONG_TEXT else long(text)

    return remembering


@remember
def values(text: str) -> frozenset[Value]:
    """The numbers, dates, times and names of a text, each in one spelling."""
    # What ends a line ends its clause.
    lines = "\n".join(map(normalize, text.translate(_FRACTIONS).split("\n")))
    plain = _PLACE.sub(" ", digits(lines))
    plain = _DATES.sub(_two_dates, plain)
    return frozenset([*_names(text), *map(_value, _VALUE.finditer(plain))])


def _two_dates(match: re.Match[str]) -> str:
    day, word, month, first, earlier = match.groups()
    return f"{day} {month} {word} " if day else f"{first} {earlier} to {first} "


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


def _bound(before: str, after: str) -> int:
    """Whether what is said around a value makes it a lower bound, 1, or an upper one, -1."""
    before = before.replace("up to", "upto").replace("limited to", "upto")
    clause, follows = CLAUSES.split(before)[-1], after[:30]
    # "from 9:00 to 17:00": the words before another value are about that one.
    said = words(clause)
    beside = takewhile(lambda place: not said[place][0].isdigit(), range(len(said) - 1, -1, -1))
    near = [place for place in beside if said[place] in _BOUNDS and place >= len(said) - 5]
    found = _BOUNDS[said[near[0]]] if near else 0
    # "5 or more", "at the latest".
    joint, *later = [word for word in words(follows)[:3] if word != "the"] or [""]
    if not found and later and joint in ("or", "and", "at"):
        found = _BOUNDS.get(later[0], 0)
    # "Must not exceed 20 kg"; but in "not taken above 20 kg at sea" the limit stays.
    place = near[0] if near else len(said)
    return -found if any(map(is_negation, said[max(0, place - 3) : place])) else found


def opposes(one: Value, other: Value) -> bool:
    """Whether one is the least and the other the most, of the same number."""
    # Not of times and years: "closed after 5 pm" is "open until 5 pm".
    is_time = one.kind != "number" or (not one.unit and one.key[0] in _YEARS)
    return not is_time and one.bound * other.bound < 0 and same(one, other)


def is_in(value: Value, others: Iterable[Value]) -> bool:
    """Whether any of the others is the same value."""
    return any(same(value, other) for other in others)


def digits(text: str) -> str:
    """Number words and spoken times of a normalized text as digits.

    >>> digits("two thousand and twenty-one"), digits("half past seven on the twelfth of may")
    ('2021', '7:30 on the 12 of may')
    """
    text = _PHRASE.sub(lambda match: _PHRASES[match[0]], _NO_PART.sub("", text))
    text = _YEAR.sub(_in_two_parts, text)
    text = _SCALED.sub(_multiplied, _NUMBER_WORD.sub(_in_digits, text))
    text = _ORDINAL.sub(lambda match: str(_ORDINALS.index(match[1]) + 1), text)
    return _SPOKEN_TIME.sub(_in_minutes, text)


def _in_minutes(match: re.Match[str]) -> str:
    past, hour, whole = match.groups()
    return f"{hour}:{_PARTS.get(past, past):0>2}" if past else f"{whole}:00"


def _in_digits(match: re.Match[str]) -> str:
    total = below = 0
    whole, _, decimals = match[0].removesuffix(match["half"] or "\0").partition(" point ")
    for word in words(whole):
        if word == "hundred":
            below = 100 * max(1, below)
        elif word in ("thousand", "million"):
            total, below = below * (1_000 if word == "thousand" else 1_000_000), 0
        else:
            below += _NUMBERS.get(word, 0)
    tail = "".join(str(_NUMBERS.get(word, 0)) for word in words(decimals))
    return f"{total + below}{'.5' if match['half'] else f'.{tail}' if tail else ''}"


def _in_two_parts(match: re.Match[str]) -> str:
    return "".join(str(sum(_NUMBERS[word] for word in words(part))) for part in match.groups())


def _multiplied(match: re.Match[str]) -> str:
    multiple = _MULTIPLES[(match["word"] or match["letter"])[0]]
    return f"{match['sign'] or ''}{float(match[2]) * multiple:.0f}"


@remember
def tokens(text: str) -> tuple[str, ...]:
    """The words of a text, with its values in one spelling.

    >>> tokens("€5, not 5%"), tokens("May 3rd at 1 pm"), tokens("It isn't.")
    (('5', 'euro', 'not', '5', 'percent'), ('3', 'may', 'at', '13:00'), ('it', 'is', 'not'))
    """
    plain = digits(normalize(text.translate(_FRACTIONS)))
    plain = _VALUE.sub(_respell, plain).replace("n't", " not")
    return tuple(_UNITS.get(word, word) for word in words(plain))


def _respell(match: re.Match[str]) -> str:
    value = _read_value(match)
    if value.kind == "number":
        unit, amount = match["unit"] or "", value.key[0]
        rest = match[0][match.end("unit" if unit else "number") - match.start() :]
        # "36.00" is "36".
        whole = isinstance(amount, float) and amount.is_integer()
        number = str(int(cast(float, amount))) if whole else str(amount)
        return " ".join([number, _UNITS.get(match["sign"], ""), _UNITS.get(unit, unit), rest])
    if value.kind == "time":
        hour, minute, half = cast(tuple[int, int, str | None], value.key)
        return f"{hour + 12 * (half == 'p') if half else hour or 12}:{minute:02}"
    year, month, day, weekday = cast(tuple[int | None, ...], value.key)
    if month and month > len(_MONTH_NUMBERS):
        return match[0]
    name = _MONTHS.split()[month - 1] if month else ""
    return " ".join(str(part) for part in (weekday, day, name, year) if part)


@remember
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
    return not any(map(is_negation, words(without_stance(sentence))))


def without_stance(sentence: str) -> str:
    """The sentence, normalized, without what looks like a negation and denies nothing."""
    return _NO_NEGATION.sub(" ", normalize(sentence))


@lru_cache(maxsize=2_000)
def denied(text: str) -> frozenset[str]:
    """The stems that negations are about, the first content word after each.

    >>> sorted(denied("Bags that are not claimed go to a shop, and dogs may not enter."))
    ['claim', 'enter']
    """
    found = set()
    for clause in CLAUSES.split(text):
        said = tokens(clause)
        for place in (n for n, word in enumerate(said) if is_negation(word)):
            found |= {*[stem(w) for w in said[place + 1 :] if stem(w) in content(clause)][:1]}
    return frozenset(found)


def _value(match: re.Match[str]) -> Value:
    text, (start, end) = match.string, match.span()
    bound = _bound(text[max(0, start - 80) : start], text[end : end + 80])
    return replace(_read_value(match), bound=bound)


def _read_value(match: re.Match[str]) -> Value:
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
    said = ["second" if word == "s" else word for word in got.get("rate", "").split()]
    rates = [_UNITS[word] for word in said if unit and word in _UNITS]
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
            # "Open My permits" begins a sentence and names "my permits".
            if kept and not (begins and kept == parts[:1]):
                key = tuple(stem(part.lower()) for part in kept)  # an Owner, two Owners
                yield Value("name", key, text=" ".join(kept))


def _is_common(word: str) -> bool:
    return is_stop(word) or word in _NO_CONTENT or word in _CALENDAR
