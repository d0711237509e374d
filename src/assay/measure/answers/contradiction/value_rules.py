"""Right words around a value from the wrong place: another row of a table, half of the day, period,
date, edition, person or group.

Every word of such a sentence is in the sources, so that each rule compares where it stands: beside
what, in which row, before or after which name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from assay.measure.answers.contradiction.sentence import AnalyzedSentence
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
