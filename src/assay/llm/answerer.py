"""Answer a question from passages: with a language model, or with quotes if there is no model."""

import asyncio
import re
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from assay.llm.passages import EXTRACTIVE, Answer, Passage, not_found
from assay.llm.prompt import (
    SYSTEM,
    answer_prompts,
    delimited,
    delimiter_code,
    load_prompt,
    question_prompt,
    read_generated,
    without_markers,
)
from assay.text import sentences, stems

if TYPE_CHECKING:
    from assay.llm.providers.provider import LLMProvider


# Sentences are added up to this length, while each scores at least half of the best one.
_MAX_LENGTH = 400
_MIN_SCORE = 0.5
_CHARACTERS_PER_TOKEN = 4

# The share of the question's words that the quoted place must have; less if several of them occur
# in the document, because that is rarely a coincidence. Chosen so that about nine in ten questions
# about one corpus are declined when they are asked about another.
_MIN_SHARE, _EACH_WORD = 0.74, 0.1

# A long word counts more than a short one, up to this many letters.
_LONG_WORD = 8

# A sentence loses by the rank of its document, and gains by a number if one is asked for.
_RANK, _FIGURE = 0.02, 0.5
_LATE = 0.5

# Instructions to the reader instead of content (prompt injection): never quoted.
_INSTRUCTION = re.compile(
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
# Common in questions about anything, so finding them proves nothing.
_WEAK_WORDS = (
    "altogether came come first gave get give go good got happen kind know last long made make "
    "name need new next number old one place said say still take tell thing three took total two "
    "use used want way went year"
)


class _Sentence(NamedTuple):
    text: str
    place: int
    score: float


class ExtractiveAnswerer:
    """Answers with quotes from the passages, the same on any machine. No model is asked."""

    name = EXTRACTIVE

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """In a thread: five abstracts take a millisecond, a hundred books do not."""
        return await asyncio.to_thread(extract_answer, question, passages, max_tokens)

    async def close(self) -> None:
        """Nothing to close."""


def extract_answer(question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
    """The best sentences of the passages, best first; only a long first one is cut."""
    wanted = _QuestionWords(question)
    ranked = [
        sentence
        for place, passage in enumerate(passages, 1)
        for sentence in _scored(place, passage, wanted, _MIN_SHARE)
    ]
    if not ranked:
        return not_found(EXTRACTIVE)
    ranked.sort(key=lambda sentence: -sentence.score)
    room = max_tokens * _CHARACTERS_PER_TOKEN
    best = _cut(ranked[0].text, min(_MAX_LENGTH, room))
    chosen = {best: ranked[0].place}
    length, stop_reason = len(best), "endTurn"
    for sentence in ranked[1:]:
        if sentence.score < _MIN_SCORE * ranked[0].score:
            break
        length += len(sentence.text)
        if length > min(_MAX_LENGTH, room):
            stop_reason = "maxTokens" if room < _MAX_LENGTH else stop_reason
            break
        chosen.setdefault(sentence.text, sentence.place)
    text = " ".join(f"{text} [{place}]" for text, place in chosen.items())
    return Answer(text, tuple(dict.fromkeys(chosen.values())), EXTRACTIVE, stop_reason)


def extract_finding(question: str, passage: Passage) -> str:
    """The one sentence to quote from a passage that is known to be relevant.

    Late sentences are preferred, because a report ends with its findings. Empty if no sentence is
    related to the question.
    """
    rated = list(_scored(1, passage, _QuestionWords(question), 0.0))
    late = {each.text: at / len(rated) for at, each in enumerate(rated)}
    best = max(rated, key=lambda each: each.score + _LATE * late[each.text], default=None)
    return _cut(best.text, _MAX_LENGTH) if best else ""


class _QuestionWords:
    """The words of a question with their weights, and whether it asks for a number."""

    def __init__(self, question: str) -> None:
        weak = set(stems(_WEAK_WORDS))
        words = dict.fromkeys(stems(question))
        strong = [word for word in words if word not in weak] or words
        self._weights = {word: min(len(word), _LONG_WORD) for word in strong}
        self._total = sum(self._weights.values())
        self.figure = _ASKS_FOR_FIGURE.search(question) is not None

    def share(self, words: Set[str]) -> float:
        held = sum(weight for word, weight in self._weights.items() if word in words)
        return held / self._total if held else 0.0

    def count(self, words: Set[str]) -> int:
        return sum(word in words for word in self._weights)


def _scored(
    place: int, passage: Passage, wanted: _QuestionWords, enough: float
) -> Iterator[_Sentence]:
    """The sentences of a document that is about the question.

    Each is scored with its neighbors: the answer is often beside the words of the question.
    """
    said = list(dict.fromkeys(sentences(without_markers(passage.text or passage.title))))
    orders = [is_instruction(sentence) for sentence in said]
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


def is_instruction(sentence: str) -> bool:
    """Whether a sentence is an instruction to the reader (a prompt injection)."""
    return _INSTRUCTION.search(sentence[:_MAX_LENGTH]) is not None


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: max(1, most - 1)].rsplit(" ", 1)[0] + "…"


class ModelAnswerer:
    """Answers that a language model writes from passages, or from memory."""

    def __init__(self, provider: "LLMProvider") -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        """The provider's name, `KIND:MODEL`."""
        return self._provider.name

    @property
    def prompts(self) -> dict[str, str]:
        """Names and ids of the prompts, for the record of a run."""
        return answer_prompts()

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """An answer with citations. Without passages the model is not asked: nothing was found."""
        if not passages:
            return not_found(self.name)
        prompt = f"{SYSTEM}\n\n{question_prompt(question, passages)}"
        return await self._ask(prompt, len(passages), max_tokens)

    async def answer_from_memory(self, question: str, max_tokens: int) -> Answer:
        """What the model answers without any document: from memory, without retrieval."""
        code = delimiter_code(question)
        marks = delimited("question", code, question)
        prompt = load_prompt("question_alone").fill(code=code, question=marks)
        return await self._ask(prompt, 0, max_tokens)

    async def close(self) -> None:
        """Close the provider, if it can be closed."""
        close = getattr(self._provider, "close", None)
        if close is not None:
            await close()

    async def _ask(self, prompt: str, passages: int, max_tokens: int) -> Answer:
        from assay.llm.providers.opening import complete

        reply = await complete(self._provider, prompt, max_tokens)
        stop_reason = "maxTokens" if reply.stop_reason == "length" else "endTurn"
        return read_generated(reply.text, passages, model=self.name, stop_reason=stop_reason)


def open_answerer(spec: str | None = None) -> ExtractiveAnswerer | ModelAnswerer:
    """The answerer that `spec` names, else `RAG_EVAL_PROVIDER`, else the one without a model."""
    if spec == EXTRACTIVE:
        return ExtractiveAnswerer()
    from assay.llm.providers.opening import configured_spec, open_provider

    chosen = spec or configured_spec() or EXTRACTIVE
    return ExtractiveAnswerer() if chosen == EXTRACTIVE else ModelAnswerer(open_provider(chosen))
