"""Answers without a model: the sentences that share most with the question, quoted and cited.

It cannot invent, since every word is a document's. It does not understand either: it abstains when
the documents are about something else, not when they are about the right thing and lack the one
fact that was asked for. `benchmarks/extractive_answers.py` has the figures, and chose the constants
on one half of the questions to report them on the other.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from assay.answer.citations import without_markers
from assay.answer.passages import Answer, Passage, not_found
from assay.text import sentences, stems

EXTRACTIVE = "extractive"
"""The name of the answerer that needs no model."""

# An answer goes on while there is room, and while a sentence is worth half of the best one.
_LONGEST = 400
_WORTH = 0.5
_CHARACTERS_PER_TOKEN = 4

# What the place that is quoted must hold of the question: a share of its words, less where several
# of them occur in the document, since that several meet by chance is rare. Chosen so that of the
# questions about one corpus that are put to another about nine in ten are turned down.
_ENOUGH, _EACH_WORD = 0.74, 0.1

# A long word says more than a short one, up to this many letters.
_LONG_WORD = 8

# What a sentence loses by the rank of its document, and gains by holding a number that is wanted.
_RANK, _FIGURE = 0.02, 0.5
_LATE = 0.5

# Written for whoever answers, not about the subject: never worth a quote.
_ORDER = re.compile(
    r"\b(ignore|disregard|forget)\b.*\b(question|instructions?|prompt|above|previous|answer)\b"
    r"|\b(answer|reply|respond) (with |only )*(true|false|yes|no)\b|\bsay (true|false)\b"
    r"|^\W*(answer\W+)?(true|false|yes|no)\W*$"
    r"|\b(say|print|output|write|return|emit|reply|respond|response|answer|verdict)\b[^.]{0,30}"
    r"((?-i:\bTRUE\b|\bFALSE\b)|['\"“‘](true|false|yes|no)['\"”’.])"
    r"|^\W*(?-i:SYSTEM|ASSISTANT|USER)\W*:.*"
    r"\b(must|always|never|ignore|say|print|output|answer|reply|respond|write)\b",
    re.IGNORECASE,
)
_ASKS_FOR_FIGURE = re.compile(
    r"\b(how (many|much|long|often|old|far|big)|number|code|costs?|price|when|dates?|what time|"
    r"amount|fee|percent|percentage|year|dose)\b",
    re.IGNORECASE,
)
# Stand in questions about anything, so finding them proves nothing.
_WEAK_WORDS = (
    "altogether came come first gave get give go good got happen kind know last long made make "
    "name need new next number old one place said say still take tell thing three took total two "
    "use used want way went year"
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    place: int
    score: float


class ExtractiveAnswerer:
    """Answers with quotes from the passages. No model is asked."""

    name = EXTRACTIVE

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """In a thread: five abstracts take a millisecond, a hundred books do not."""
        return await asyncio.to_thread(extract_answer, question, passages, max_tokens)

    async def close(self) -> None:
        """Nothing to close."""


def extract_answer(question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
    """The same answer for the same input, on any machine."""
    wanted = _Wanted(question)
    ranked = [
        sentence
        for place, passage in enumerate(passages, 1)
        for sentence in _rated(place, passage, wanted, _ENOUGH)
    ]
    if not ranked:
        return not_found(EXTRACTIVE)
    ranked.sort(key=lambda sentence: -sentence.score)
    return _quote(ranked, max_tokens * _CHARACTERS_PER_TOKEN)


def extract_finding(question: str, passage: Passage) -> str:
    """The one sentence to quote of a passage that is known to be relevant, late ones preferred: a
    report ends with what was found. Empty where no sentence has to do with the question.
    """
    rated = list(_rated(1, passage, _Wanted(question), 0.0))
    late = {each.text: at / len(rated) for at, each in enumerate(rated)}
    best = max(rated, key=lambda each: each.score + _LATE * late[each.text], default=None)
    return _cut(best.text, _LONGEST) if best else ""


class _Wanted:
    """What a question asks for: its words with their weights, and whether it wants a number."""

    def __init__(self, question: str) -> None:
        weak = set(stems(_WEAK_WORDS))
        words = dict.fromkeys(stems(question))
        telling = [word for word in words if word not in weak] or words
        self._weights: Mapping[str, int] = {w: min(len(w), _LONG_WORD) for w in telling}
        self._total = sum(self._weights.values())
        self.figure = _ASKS_FOR_FIGURE.search(question) is not None

    def share(self, words: Set[str]) -> float:
        held = sum(weight for word, weight in self._weights.items() if word in words)
        return held / self._total if held else 0.0

    def count(self, words: Set[str]) -> int:
        return sum(word in words for word in self._weights)


def _rated(place: int, passage: Passage, wanted: _Wanted, enough: float) -> Iterator[_Sentence]:
    """The sentences of a document that is about the question, each rated with its neighbours: the
    answer often stands beside the words of the question.
    """
    text = without_markers(passage.text or passage.title)
    said = list(dict.fromkeys(sentences(text)))
    orders = [is_order(sentence) for sentence in said]
    pairs = zip(said, orders, strict=True)
    words = [frozenset[str]() if order else frozenset(stems(s)) for s, order in pairs]
    title = frozenset(stems(passage.title))
    near = [wanted.share(title.union(*words[max(0, at - 1) : at + 2])) for at in range(len(said))]
    evidence = max(near, default=0.0)
    if not evidence or evidence + _EACH_WORD * wanted.count(title.union(*words)) <= enough:
        return
    for at, sentence in enumerate(said):
        if not near[at] or orders[at] or sentence.endswith("?"):
            continue
        score = wanted.share(words[at]) + near[at] - _RANK * place
        score += _FIGURE if wanted.figure and any(map(str.isdigit, sentence)) else 0.0
        yield _Sentence(sentence, place, score)


def is_order(sentence: str) -> bool:
    return _ORDER.search(sentence[:_LONGEST]) is not None


def _quote(ranked: Sequence[_Sentence], room: int) -> Answer:
    """The best sentences, best first, and whole, except that a long first one is cut."""
    best = _cut(ranked[0].text, min(_LONGEST, room))
    chosen = {best: ranked[0].place}
    length, stop_reason = len(best), "endTurn"
    for sentence in ranked[1:]:
        if sentence.score < _WORTH * ranked[0].score:
            break
        length += len(sentence.text)
        if length > min(_LONGEST, room):
            stop_reason = "maxTokens" if room < _LONGEST else stop_reason
            break
        chosen.setdefault(sentence.text, sentence.place)
    return Answer(
        text=" ".join(f"{text} [{place}]" for text, place in chosen.items()),
        citations=tuple(dict.fromkeys(chosen.values())),
        model=EXTRACTIVE,
        stop_reason=stop_reason,
    )


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: max(1, most - 1)].rsplit(" ", 1)[0] + "…"
