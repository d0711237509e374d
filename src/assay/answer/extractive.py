"""Answers without a model: the sentences that share most with the question, quoted and cited.

It cannot invent, since every word is a document's. It does not understand either: it abstains when
the documents are about something else, not when they are about the right thing and lack the one
fact that was asked for. docs/mcp.md has the figures.
"""

import asyncio
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import Stemmer

from assay.answer.citations import without_markers
from assay.answer.passages import Answer, Passage, not_found

MODEL = "extractive"

_SENTENCES = 3
# Of the best sentence's score, what another one needs to be quoted beside it.
_WORTH = 0.6
_LONGEST = 400
_CHARACTERS_PER_TOKEN = 4

# More than half of the question's words have to stand in the document that is quoted. Chosen on
# questions about one corpus put to another: 9 of 10 are turned down.
_ENOUGH = 0.5

# What a sentence gains from its neighbours and title, its document, its rank, and a wanted number.
_NEAR, _DOCUMENT, _RANK, _FIGURE = 0.5, 0.5, 0.02, 0.5

_BOUNDARY = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
# Written for whoever answers, not about the subject: never worth a quote.
_ORDER = re.compile(
    r"\b(ignore|disregard|forget)\b.*\b(question|instructions?|prompt|above|previous|answer)\b"
    r"|\banswer (with |only )*(true|false|yes|no)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_ASKS_FOR_FIGURE = re.compile(
    r"\b(how (many|much|long|often|old|far|big)|number|code|costs?|price|when|dates?|what time|"
    r"amount|fee|percent|percentage|year|dose)\b",
    re.IGNORECASE,
)
_EMPTY_WORDS = frozenset(
    _WORD.findall(
        "a about after again all am an and any are as at be been before being between both but "
        "by can could d did do does doing done down during each few for from had has have "
        "having he her here him his how i if in into is it its just ll m many may me might mine "
        "more most much must my no nor not of off on only or other our out over own re s same "
        "shall she should so some such t than that the their them then there these they this "
        "those to too under up us ve very was we were what when where which who whom whose why "
        "will with would you your"
    )
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    place: int
    score: float
    support: float
    """The share of the question's words that its document holds."""


class ExtractiveAnswerer:
    name = MODEL

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """Beside the event loop: five abstracts take a millisecond, a hundred books do not."""
        return await asyncio.to_thread(_answer, question, passages, max_tokens)


def _answer(question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
    words_of = _Words()
    wanted = list(dict.fromkeys(words_of(question)))
    if not wanted:
        return not_found(MODEL)
    figure = _ASKS_FOR_FIGURE.search(question) is not None
    ranked = [
        sentence
        for place, passage in enumerate(passages, 1)
        for sentence in _rated(place, passage, wanted, words_of, figure)
    ]
    ranked.sort(key=lambda sentence: -sentence.score)
    if not ranked or ranked[0].support <= _ENOUGH:
        return not_found(MODEL)
    return _quote(ranked, max_tokens * _CHARACTERS_PER_TOKEN)


class _Words:
    """Stems of a text's words. A stemmer belongs to one thread, so each answer has its own."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")

    def __call__(self, text: str) -> list[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in _EMPTY_WORDS]
        stems: list[str] = self._stemmer.stemWords(words)
        return stems


def _rated(
    place: int, passage: Passage, wanted: Collection[str], words_of: _Words, figure: bool
) -> Iterator[_Sentence]:
    sentences = list(_sentences(passage))
    words = [frozenset(words_of(sentence)) for sentence in sentences]
    title = frozenset(words_of(passage.title))
    support = _share(wanted, title.union(*words))
    for at, sentence in enumerate(sentences):
        own = _share(wanted, words[at])
        if not own or sentence.endswith("?") or _ORDER.search(sentence[:_LONGEST]):
            continue
        near = title.union(*words[max(0, at - 1) : at + 2])
        score = own + _NEAR * _share(wanted, near) + _DOCUMENT * support - _RANK * place
        score += _FIGURE if figure and any(map(str.isdigit, sentence)) else 0.0
        yield _Sentence(sentence, place, score, support)


def _sentences(passage: Passage) -> Iterator[str]:
    """Of the text, or of the title where there is nothing else. A sentence stands once."""
    parts = _BOUNDARY.split(without_markers(passage.text or passage.title))
    bare = (_BULLET.sub("", part).strip() for part in parts if part)
    yield from dict.fromkeys(part for part in bare if part)


def _share(wanted: Collection[str], words: Collection[str]) -> float:
    return sum(word in words for word in wanted) / len(wanted)


def _quote(ranked: Sequence[_Sentence], room: int) -> Answer:
    """The best sentences, best first, and whole, except that a long first one is cut."""
    worth = [each for each in ranked if each.score >= _WORTH * ranked[0].score]
    chosen: dict[str, int] = {}
    stop_reason = "endTurn"
    for sentence in worth[:_SENTENCES]:
        text = _cut(sentence.text, _LONGEST if chosen else min(_LONGEST, room))
        if len(text) > room:
            stop_reason = "maxTokens"
            break
        chosen.setdefault(text, sentence.place)
        room -= len(text)
    return Answer(
        text=" ".join(f"{text} [{place}]" for text, place in chosen.items()),
        citations=tuple(dict.fromkeys(chosen.values())),
        model=MODEL,
        stop_reason=stop_reason,
    )


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: max(1, most - 1)].rsplit(" ", 1)[0] + "…"
