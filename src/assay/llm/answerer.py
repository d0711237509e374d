"""Answer a question from passages: with a language model, or with quotes if there is no model."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from assay.llm.passages import EXTRACTIVE, Answer, Passage, not_found
from assay.llm.prompt import (
    SYSTEM,
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
_WEAK_WORDS = frozenset(
    stems(
        "altogether came come first gave get give go good got happen kind know last long made "
        "make name need new next number old one place said say still take tell thing three took "
        "total two use used want way went year"
    )
)


class ExtractiveAnswerer:
    """Answers with quotes from the passages, the same on any machine. No model is asked."""

    name = EXTRACTIVE
    prompts: Mapping[str, str] = {}

    async def answer(self, question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
        """The best sentences of the passages."""
        # Five abstracts take a millisecond, a hundred books do not.
        return await asyncio.to_thread(extract_answer, question, passages, max_tokens)

    async def close(self) -> None:
        """Nothing to close."""


def extract_answer(question: str, passages: Sequence[Passage], max_tokens: int) -> Answer:
    """The best sentences of the passages, best first; only a long first one is cut."""
    ranked = [
        (score, sentence, place)
        for place, passage in enumerate(passages, 1)
        for sentence, score in _scored(question, passage, _MIN_SHARE, place)
    ]
    if not ranked:
        return not_found(EXTRACTIVE)
    ranked.sort(key=lambda each: -each[0])
    (top, best, first), *others = ranked
    room = max_tokens * _CHARACTERS_PER_TOKEN
    best = _cut(best, min(_MAX_LENGTH, room))
    chosen, length, stop_reason = {best: first}, len(best), "endTurn"
    for score, sentence, place in others:
        length += len(sentence)
        if score < _MIN_SCORE * top or length > min(_MAX_LENGTH, room):
            cut = score >= _MIN_SCORE * top and room < _MAX_LENGTH
            stop_reason = "maxTokens" if cut else stop_reason
            break
        chosen.setdefault(sentence, place)
    text = " ".join(f"{text} [{place}]" for text, place in chosen.items())
    return Answer(text, tuple(dict.fromkeys(chosen.values())), EXTRACTIVE, stop_reason)


def extract_finding(question: str, passage: Passage) -> str:
    """The one sentence to quote from a relevant passage; empty if none is about the question."""
    # Late sentences are preferred, because a report ends with its findings.
    rated = list(_scored(question, passage))
    late = {text: _LATE * at / len(rated) for at, (text, _) in enumerate(rated)}
    best = max(rated, key=lambda each: each[1] + late[each[0]], default=("", 0.0))
    return _cut(best[0], _MAX_LENGTH)


def _scored(
    question: str, passage: Passage, enough: float = 0.0, place: int = 1
) -> Iterator[tuple[str, float]]:
    """The sentences of a document that is about the question, with their scores."""
    asked = dict.fromkeys(stems(question))
    strong = [word for word in asked if word not in _WEAK_WORDS] or asked
    weights = {word: min(len(word), _LONG_WORD) for word in strong}

    def share(held: Set[str]) -> float:
        return sum(weights[word] for word in weights if word in held) / max(
            1, sum(weights.values())
        )

    said = list(dict.fromkeys(sentences(without_markers(passage.text or passage.title))))
    words = [frozenset(() if is_instruction(each) else stems(each)) for each in said]
    title = frozenset(stems(passage.title))
    # With its neighbors: the answer is often beside the words of the question.
    near = [share(title.union(*words[max(0, at - 1) : at + 2])) for at in range(len(said))]
    found = len(weights.keys() & title.union(*words))
    if max(near, default=0.0) + _EACH_WORD * found <= enough:
        return
    wants_figure = _ASKS_FOR_FIGURE.search(question) is not None
    for at, sentence in enumerate(said):
        if near[at] and not is_instruction(sentence) and not sentence.endswith("?"):
            figure = wants_figure and any(map(str.isdigit, sentence))
            yield sentence, share(words[at]) + near[at] - _RANK * place + _FIGURE * figure


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
        return {name: load_prompt(name).id for name in ("answer_system", "answer_question")}

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
