"""Who writes questions: a model, or a rule that leaves a gap in a sentence."""

import random
import re
from collections.abc import Iterator
from typing import Protocol

from assay.answer.answerer import ModelAnswerer
from assay.answer.citations import without_markers
from assay.answer.extractive import EXTRACTIVE, extract_answer, is_order
from assay.answer.ground_truth.questions.draft import Draft, Drop, read_draft
from assay.answer.passages import Passage
from assay.answer.prompt_files import load_prompt, mark_code, marked
from assay.answer.providers.provider import LLMProvider
from assay.data.dataset import Document, Fact
from assay.errors import ProviderError, ProviderFailure
from assay.text import sentences

_DRAFT_TOKENS = 600
_ANSWER_TOKENS = 200
# What a model is shown of a long document: a part of it, from a place that the seed decides.
_PART = 6000
_GAP = "____"
_WORDS = range(8, 41)
# Neither the second half of a broken line, nor a question, nor a row of a table, nor code.
_SENTENCE = re.compile(r"[^a-z|`{}<>=\\][^|`{}<>=\\]*[^?|`{}<>=\\]")
# A single digit is guessed too easily, and stands in too many answers.
_NUMBER = re.compile(r"(?<![\w.,:/+-])(?=\d[\d.,:/]*\d)\d+(?:[.,:/]\d+)*(?![\w:/-])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-ZÀ-Þ][\w'’-]+(?: [A-ZÀ-Þ][\w'’-]+)*")


class QuestionWriter(Protocol):
    """`origin` is what the result says about its questions."""

    @property
    def origin(self) -> dict[str, str]: ...

    async def draft(self, document: Document, seed: int) -> Draft | Drop: ...

    async def answer_from(self, question: str, document: Document) -> str: ...

    async def answer_alone(self, question: str) -> str | None:
        """From memory; None where there is nobody who could remember."""
        ...


class ModelQuestionWriter:
    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._answerer = ModelAnswerer(provider)

    @property
    def origin(self) -> dict[str, str]:
        provider, _, model = self._provider.name.partition(":")
        prompts = [load_prompt(name).id for name in ("question_writing", "question_alone")]
        prompts += self._answerer.prompts.values()
        note = "Written by a language model and sieved by rules; no person checked it."
        return {"provider": provider, "model": model, "prompt": ", ".join(prompts), "note": note}

    async def draft(self, document: Document, seed: int) -> Draft | Drop:
        reply = await self._reply(drafting_prompt(document, seed), _DRAFT_TOKENS)
        if reply is None:
            return Drop.REFUSED
        return read_draft(reply, document.id) or Drop.UNREADABLE

    async def answer_from(self, question: str, document: Document) -> str:
        passage = Passage(document.id, document.title, document.text)
        try:
            return (await self._answerer.answer(question, [passage], _ANSWER_TOKENS)).text
        except ProviderError as error:
            return _nothing_if_refused(error)

    async def answer_alone(self, question: str) -> str | None:
        try:
            answer = await self._answerer.answer_from_memory(question, _ANSWER_TOKENS)
        except ProviderError as error:
            return _nothing_if_refused(error)
        return answer.text if answer.found else ""

    async def _reply(self, prompt: str, max_tokens: int) -> str | None:
        try:
            return await self._provider.generate(prompt, max_tokens)
        except ProviderError as error:
            return _nothing_if_refused(error) or None


def _nothing_if_refused(error: ProviderError) -> str:
    if error.kind is not ProviderFailure.REFUSAL:
        raise error
    return ""


def drafting_prompt(document: Document, seed: int) -> str:
    shown = f"{document.title}\n\n{_part(document, seed)}".strip()
    code = mark_code(shown)
    return load_prompt("question_writing").fill(code=code, document=marked("document", code, shown))


def _part(document: Document, seed: int) -> str:
    text = document.text
    if len(text) <= _PART:
        return text
    start = random.Random(f"{seed}:{document.id}").randrange(len(text) - _PART)
    return text[start : start + _PART].partition(" ")[2]


class ClozeWriter:
    """A sentence of the document with a number or a name left out. Nothing is understood, and the
    question holds the words of its document, which any search by words finds: good for trying a
    system out, not for telling good retrievers from better ones.
    """

    @property
    def origin(self) -> dict[str, str]:
        note = (
            "Cloze: a sentence of the document with a number or name left out. No model and no "
            "person wrote it; search by words finds its document easily."
        )
        return {"provider": EXTRACTIVE, "model": "none", "prompt": "none", "note": note}

    async def draft(self, document: Document, seed: int) -> Draft | Drop:
        gaps = list(_gaps(document))
        if not gaps:
            return Drop.NOTHING_TO_ASK
        sentence, missing = random.Random(f"{seed}:{document.id}").choice(gaps)
        question = f"Fill the gap: {sentence.replace(missing, _GAP)}"
        return Draft(document.id, question, sentence, (Fact(sentence, (missing,)),), (sentence,))

    async def answer_from(self, question: str, document: Document) -> str:
        passage = Passage(document.id, document.title, document.text)
        return extract_answer(question, [passage], _ANSWER_TOKENS).text

    async def answer_alone(self, question: str) -> str | None:
        return None


def _gaps(document: Document) -> Iterator[tuple[str, str]]:
    """Numbers where the document has any that will do, else names."""
    fitting = [
        sentence
        for sentence in dict.fromkeys(sentences(without_markers(document.text)))
        if _SENTENCE.fullmatch(sentence) and len(sentence.split()) in _WORDS
        if not is_order(sentence)
    ]
    for kind in (_NUMBER, _NAME):
        found = [(each, match[0]) for each in fitting for match in kind.finditer(each)]
        once = [(sentence, missing) for sentence, missing in found if sentence.count(missing) == 1]
        if once:
            yield from once
            return
