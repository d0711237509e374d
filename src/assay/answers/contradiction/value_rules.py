"""Contradiction rules for values: a number, unit, date or name that no source has, or one from the
wrong place, such as another row of a table, half of the day, period or person.

Of the latter every word is in the sources, so that each rule compares where it stands: beside what,
in which row, before or after which name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from assay.answers.contradiction.sentence import AnalyzedSentence, directions
from assay.answers.quantities import Quantity, plain_number
from assay.text import is_stop, normalize, stem, stems

Difference = tuple[str, str]
"""What the sentence says, and what the source has."""

_TIME = re.compile(
    r"\b(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))? ?(?:o'clock )?"
    r"(?P<part>[ap]\.?m\b|(?:in the |at |this |every )?(?:morning|noon|afternoon|evening|night)\b)"
)
_RATE = re.compile(
    r"(?P<sign>[€$£] ?)?(?P<value>\d(?:[\d.,]{0,30}\d)?+)(?P<unit> ?[^\W\d_]+| ?[%€$£])?"
    r" ?(?:per|/) ?(?P<per>[^\W\d_]+)"
    r"|(?P<sign2>[€$£] ?)?(?P<value2>\d(?:[\d.,]{0,30}\d)?+)(?P<unit2> ?[^\W\d_]+| ?[%€$£])?"
    r" (?:a|an|each|every) "
    r"(?P<per2>second|minute|hour|day|night|week|weekend|month|quarter|season|year|person|head|piece)\b"
)
_DATE = re.compile(r"\b(?:\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d\d)|\d{4}-\d\d-\d\d)\b")
# The last two of several, which may begin with a title: "Captain Ida Solheim".
_FULL_NAME = re.compile(
    r"(?:\b[A-ZÀ-Þ][\w'’-]{1,40}+ ){0,5}"
    r"\b([A-ZÀ-Þ][\w'’-]{1,40}+) ([A-ZÀ-Þ][\w'’-]{1,40}+)(?! [A-ZÀ-Þ])"
)
_OUTDATED = re.compile(
    r"^(?:[\w'’-]+:? ){0,3}?(?:until|till|formerly|previously|in the past)\b", re.I
)
# After these a person or a group is named; "in glioma" may be "in glioblastoma" in other words.
_PREPOSITIONS = frozenset({"for", "to", "by", "with", "from"})
_BEFORE, _AFTER = 3, 20
_AFTERNOON = 12
_NAMES_SHARED = 0.7
_ALL_BUT_NAMES = 0.9
# "may" and "march" are also verbs: they are months beside a number only.
_MONTH = re.compile(
    r"\b(January|February|April|June|July|August|September|October|November|December|"
    r"(?<=\d )(?:March|May)|(?:March|May)(?= \d))\b"
)
_WEEKDAY = re.compile(r"\b((?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)s?\b")
_MIN_SHARED = 2


def shared(sentence: AnalyzedSentence, source: AnalyzedSentence) -> float:
    """The share of the content words, numbers and directions aside, that the source has."""
    return _shared_words(sentence, source, frozenset())


def _shared_words(
    sentence: AnalyzedSentence, source: AnalyzedSentence, left_out: frozenset[str]
) -> float:
    wanted = {
        word
        for word in sentence.content - left_out
        if word not in directions() and not any(map(str.isdigit, word))
    }
    held = wanted & source.content
    return len(held) / len(wanted) if len(held) >= _MIN_SHARED else 0.0


def speaks_of_the_past(text: str) -> bool:
    """Whether a sentence says what held once: "Until April the limit was 20 kg"."""
    return _OUTDATED.search(text) is not None


def half_of_day(
    sentence: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[AnalyzedSentence, Difference]]:
    """The same time in the other half of the day, and never in this one."""
    said = dict(_times(sentence.text))
    held = [(each, dict(_times(each.text))) for each in sources] if said else []
    for (clock, half), ours in said.items():
        if any((clock, half) in times for _, times in held):
            continue
        for source, times in held:
            theirs = times.get((clock, 1 - half))
            if theirs and sentence.content & source.content:
                yield source, (ours, theirs)


def _times(text: str) -> Iterator[tuple[tuple[str, int], str]]:
    for found in _TIME.finditer(normalize(text)):
        hour, part = int(found["hour"]), found["part"].rpartition(" ")[2]
        if hour > _AFTERNOON:
            continue
        late = part[0] == "p" or part in ("afternoon", "evening")
        late = late or (part == "night" and 5 < hour < _AFTERNOON) or part == "noon"
        yield (f"{hour}:{found['minute'] or '00'}", int(late)), found[0]


def other_rate(
    sentence: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[AnalyzedSentence, Difference]]:
    """The same amount for another period or thing: "85 euros per year" for "per month"."""
    said = list(_rates(sentence.text))
    held = [(each, *rate) for each in sources for rate in _rates(each.text)] if said else []
    for amount, per, ours in said:
        others = [each for each in held if each[1] == amount]
        if any(each[2] == per for each in others):
            continue
        for source, _, _, theirs in others:
            if sentence.content & source.content - {stem(word) for word in amount.split()}:
                yield source, (ours, theirs)


def _rates(text: str) -> Iterator[tuple[str, str, str]]:
    """The amount with its unit, what it is for, and both as they are written."""
    for found in _RATE.finditer(normalize(text)):
        value, per = found["value"] or found["value2"], found["per"] or found["per2"]
        units = (found[name] for name in ("unit", "unit2", "sign", "sign2"))
        if unit := next(filter(None, units), "").strip():
            yield f"{value} {stem(unit)}", stem(per), found[0]


def other_date(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[Difference]:
    """A date in figures that no source has, where the source has one that the sentence has not."""
    said, theirs = _DATE.findall(sentence.text), _DATE.findall(source.text)
    known = {each for other in sources for each in _DATE.findall(other.text)}
    foreign = [each for each in said if each not in known]
    free = [each for each in theirs if each not in said]
    if foreign and free:
        yield foreign[0], free[0]


def merged_names(
    sentence: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[Difference]:
    """The first name of one and the last name of another, each known with its own alone."""
    pairs = {pair for each in sources for pair in _FULL_NAME.findall(each.text)}
    firsts, lasts = {first for first, _ in pairs}, {last for _, last in pairs}
    for first, last in _FULL_NAME.findall(sentence.text):
        own = next((pair for pair in sorted(pairs) if pair[0] == first), None)
        if (first, last) in pairs or own is None or last not in lasts or is_stop(first.lower()):
            continue
        if first not in lasts and last not in firsts:  # "Zink" may be a first and a last name
            yield f"{first} {last}", " ".join(own)


def other_group(
    sentence: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[AnalyzedSentence, Difference]]:
    """The same words up to a preposition, and then something else that other sentences are about:
    "free for adults", where children are free and adults pay.
    """
    held = {word for each in sources for word in each.stems}
    known = defaultdict(list)
    for each in sources:
        for before, theirs in _groups(each):
            known[before].append((each, theirs))
    for before, ours in _groups(sentence):
        said = known[before]
        if stem(ours) not in held or ours[0].isdigit():
            continue
        if any(stem(ours) in each.stems for each, _ in said):
            continue
        for source, theirs in said:
            if stem(theirs) not in sentence.stems and not theirs.endswith("ing"):
                yield source, (f"{before[-1]} {ours}", f"{before[-1]} {theirs}")


def _groups(sentence: AnalyzedSentence) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each preposition with the words before it, and the next word after it that says something."""
    words = sentence.words
    for place in range(_BEFORE, len(words) - 1):
        if words[place] in _PREPOSITIONS:
            after = words[place + 1 : place + 1 + _AFTER]
            if content := next((each for each in after if not is_stop(each)), ""):
                yield words[place - _BEFORE : place + 1], content


def other_row(
    sentence: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[AnalyzedSentence, Difference]]:
    """A number of another row than the one whose label the sentence names, in the same column."""
    rows = [each for each in sources if each.text.count("|") > 1 and each.numbers]
    cells = {
        each.text: [cell.strip() for cell in each.text.strip("| ").split("|")] for each in rows
    }
    said = set(sentence.stems)
    named = [each for each in rows if any(_labels(cell, said) for cell in cells[each.text])]
    if len(named) != 1:
        return
    (row,) = named
    for quantity in sentence.quantities:
        if quantity.value in row.numbers:
            continue
        for other in rows:
            columns = zip(cells[other.text], cells[row.text], strict=False)
            for theirs, ours in columns:
                if other is not row and quantity.value in re.findall(r"\d[\d.]*", theirs):
                    yield row, (theirs, ours)
                    return


def _labels(cell: str, said: set[str]) -> bool:
    """Whether a cell without figures is named in a sentence."""
    return not any(map(str.isdigit, cell)) and bool(stems(cell)) and set(stems(cell)) <= said


def other_unit(sentence: AnalyzedSentence, source: AnalyzedSentence) -> Iterator[tuple[str, str]]:
    """The same number with another unit, and never with this one."""
    for ours in sentence.quantities:
        others = [each for each in source.quantities if each.value == ours.value]
        units = {each.unit for each in others}
        if ours.unit and units and "" not in units and ours.unit not in units:
            yield f"{ours.value} {ours.unit}", f"{others[0].value} {others[0].unit}"


def other_number(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[str, str]]:
    """A number that no source has, where the source has another one of the same unit or beside the
    same word.
    """
    now = [
        each
        for each in sources
        if not speaks_of_the_past(each.text) or speaks_of_the_past(sentence.text)
    ]
    known = frozenset().union(*(each.numbers for each in now))
    for ours in sentence.quantities:
        if ours.value in known:
            continue
        for theirs in source.quantities:
            alike = ours.unit == theirs.unit if ours.unit or theirs.unit else False
            free = theirs.value not in sentence.numbers and not _abbreviated(ours, theirs)
            beside = _beside(sentence, ours.value) & _beside(source, theirs.value)
            if free and (alike or beside or _are_years_apart(sentence, ours, source, theirs)):
                yield ours.value, theirs.value


def _are_years_apart(
    sentence: AnalyzedSentence, ours: Quantity, source: AnalyzedSentence, theirs: Quantity
) -> bool:
    """Two years after the same word ("in 2018", "in 2019"), in sentences that say the same."""
    years = all(re.fullmatch(r"1\d{3}|20\d\d", each.value) for each in (ours, theirs))
    near = years and _company(sentence, ours.value) & _company(source, theirs.value)
    return bool(near) and shared(sentence, source) >= _NAMES_SHARED


def _abbreviated(ours: Quantity, theirs: Quantity) -> bool:
    """2026 is also written 26."""
    return ours.value.endswith(theirs.value) or theirs.value.endswith(ours.value)


def _beside(sentence: AnalyzedSentence, value: str) -> set[str]:
    """The content words next to a number."""
    places = [i for i, word in enumerate(sentence.words) if plain_number(word) == value]
    near = {
        sentence.stems[j] for i in places for j in (i - 1, i + 1) if 0 <= j < len(sentence.stems)
    }
    return near & sentence.content


def other_month(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[str, str]]:
    """A month or a weekday that no source has, in place of one that the source has."""
    for named in (_MONTH, _WEEKDAY):
        said = named.findall(sentence.text)
        known = {each for other in sources for each in named.findall(other.text)}
        theirs = [each for each in named.findall(source.text) if each not in said]
        ours = [each for each in said if each not in known]
        if ours and theirs:
            yield ours[0], theirs[0]


def swapped_numbers(
    sentence: AnalyzedSentence, source: AnalyzedSentence
) -> Iterator[tuple[str, str]]:
    """The same words in the same order, maybe after a title, with the same numbers in another."""
    ours, theirs = ([each.value for each in side.quantities] for side in (sentence, source))
    if len(ours) < 2 or ours == theirs or sorted(ours) != sorted(theirs):
        return
    if _without_numbers(source).endswith(_without_numbers(sentence)):
        yield " … ".join(ours), " … ".join(theirs)


def _without_numbers(sentence: AnalyzedSentence) -> str:
    return " ".join(word for word in sentence.words if not word[0].isdigit())


def other_name(
    sentence: AnalyzedSentence, source: AnalyzedSentence, sources: Sequence[AnalyzedSentence]
) -> Iterator[tuple[str, str]]:
    """A name that no source has, where the source has another one in the same company."""
    held = {word for each in sources for word in each.words}
    foreign = frozenset(stem(name.lower()) for name in sentence.names if name.lower() not in held)
    alike = _shared_words(sentence, source, foreign) >= _ALL_BUT_NAMES
    if shared(sentence, source) < _NAMES_SHARED and not alike:
        return
    for name in sorted(sentence.names):
        if name.lower() in held:
            continue
        for other in sorted(source.names - sentence.names):
            if _company(sentence, name) & _company(source, other):
                yield name, other


def _company(sentence: AnalyzedSentence, name: str) -> set[str]:
    """The words before and after a name, those without meaning included."""
    places = [i for i, word in enumerate(sentence.words) if word == name.lower()]
    return {
        sentence.words[i + side] + ("<" if side < 0 else ">")
        for i in places
        for side in (-1, 1)
        if 0 <= i + side < len(sentence.words)
    }
