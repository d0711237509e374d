"""Writers of reference answers and questions: a language model, or rules that need none."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from assay.answer.answerer import ModelAnswerer, extract_answer, extract_finding, is_instruction
from assay.answer.ground_truth.candidates import (
    QuestionCandidate,
    Rejection,
    parse_candidate,
)
from assay.answer.passages import EXTRACTIVE, Passage
from assay.answer.prompt import ABSTAINED, delimited, delimiter_code, load_prompt, without_markers
from assay.answer.providers.opening import complete
from assay.answer.providers.provider import LLMProvider
from assay.data.dataset import Document, Fact
from assay.errors import ProviderError, ProviderFailure
from assay.text import sentences, stems

TOKENS = 500
EXTRACT_NOTE = (
    "An extract: a sentence of each document as it stands, chosen by the words that it shares with "
    "the question and by its place. No model and no person wrote or checked it."
)
MODEL_NOTE = "Written by a language model from the documents; no person checked it."


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """`text` is empty if the documents have no answer; `cut` if the limit was reached."""

    text: str
    cut: bool = False


class ReferenceWriter(Protocol):
    """Writes reference answers.

    `origin` is what a record says about the writer, `no_answer` the reason for an empty text.
    """

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        ...

    @property
    def no_answer(self) -> str:
        """Why an empty answer is empty."""
        ...

    async def write(self, question: str, documents: Sequence[Document]) -> WrittenAnswer:
        """An answer from the documents; empty if they have none."""
        ...


class ExtractWriter:
    """Quotes sentences. Deterministic, so that text which was left out can be made again."""

    no_answer = "no sentence of the documents shares words with the question"

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        return {"provider": EXTRACTIVE, "model": "none", "prompt": "none", "note": EXTRACT_NOTE}

    async def write(self, question: str, documents: Sequence[Document]) -> WrittenAnswer:
        """A sentence of each document."""
        return WrittenAnswer(extract(question, documents))


def extract(question: str, documents: Sequence[Document]) -> str:
    """A sentence from each document that has a suitable one, in their order."""
    passages = (Passage(each.id, each.title, each.text) for each in documents)
    found = (extract_finding(question, passage) for passage in passages)
    return " ".join(dict.fromkeys(filter(None, found)))


class ModelWriter:
    """Has a language model write the answer from the documents."""

    no_answer = "the documents do not contain the answer, according to the model"

    def __init__(self, provider: LLMProvider, max_tokens: int = TOKENS) -> None:
        self._provider = provider
        self._max_tokens = max_tokens

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        provider, _, model = self._provider.name.partition(":")
        prompt = load_prompt("ground_truth_answer").id
        return {"provider": provider, "model": model, "prompt": prompt, "note": MODEL_NOTE}

    async def write(self, question: str, documents: Sequence[Document]) -> WrittenAnswer:
        """The model's answer, without markers of citations."""
        prompt = reference_prompt(question, documents)
        reply = await complete(self._provider, prompt, self._max_tokens)
        declined = ABSTAINED.fullmatch(reply.text) is not None
        text = "" if declined else without_markers(reply.text).strip()
        return WrittenAnswer(text, cut=reply.stop_reason == "length")


def reference_prompt(question: str, documents: Sequence[Document]) -> str:
    """Asks a model for a comprehensive answer from the documents."""
    texts = [f"Title: {each.title}\n{each.text}" for each in documents]
    code = delimiter_code(question, *texts)
    return load_prompt("ground_truth_answer").fill(
        code=code,
        documents="\n\n".join(
            f"Document {place}:\n{delimited('document', code, text)}"
            for place, text in enumerate(texts, 1)
        ),
        question=f"Question:\n{delimited('question', code, question)}",
    )


_CANDIDATE_TOKENS = 600
_ANSWER_TOKENS = 200
# Of a long document the model is shown a part, from a place that the seed decides.
_PART = 6000
_BLANK = "____"
# The share of words that a question and its paraphrase may have in common.
_REWORDED = 0.6
_WORDS = range(8, 41)
# Neither the second half of a broken line, nor a question, nor a row of a table, nor code.
_SENTENCE = re.compile(r"[^a-z|`{}<>=\\][^|`{}<>=\\]*[^?|`{}<>=\\]")
# A single digit is guessed too easily, and is in too many answers.
_NUMBER = re.compile(r"(?<![\w.,:/+-])(?=\d[\d.,:/]*\d)\d+(?:[.,:/]\d+)*(?![\w:/-])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-ZÀ-Þ][\w'’-]+(?: [A-ZÀ-Þ][\w'’-]+)*")


class QuestionWriter(Protocol):
    """Proposes questions about documents, and tries to answer them.

    `origin` is what the result says about its questions.
    """

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        ...

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """A question about the document, or why there is none."""
        ...

    async def answer_from(self, question: str, document: Document) -> str:
        """The answer from this document."""
        ...

    async def answer_from_memory(self, question: str) -> str | None:
        """The answer without any document; None if there is no model."""
        ...


class ModelQuestionWriter:
    """Has a language model write questions, and answer them."""

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._answerer = ModelAnswerer(provider)

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        provider, _, model = self._provider.name.partition(":")
        prompts = [load_prompt(name).id for name in ("question_writing", "question_alone")]
        prompts += self._answerer.prompts.values()
        note = "Written by a language model and filtered by rules; no person checked it."
        return {"provider": provider, "model": model, "prompt": ", ".join(prompts), "note": note}

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """The question that the model writes about the document."""
        reply = await self._reply(candidate_prompt(document, seed), _CANDIDATE_TOKENS)
        if reply is None:
            return Rejection.REFUSED
        return parse_candidate(reply, document.id) or Rejection.UNREADABLE

    async def answer_from(self, question: str, document: Document) -> str:
        """The model's answer from this document; empty if it refuses."""
        passage = Passage(document.id, document.title, document.text)
        try:
            return (await self._answerer.answer(question, [passage], _ANSWER_TOKENS)).text
        except ProviderError as error:
            return _empty_if_refused(error)

    async def answer_from_memory(self, question: str) -> str | None:
        """The model's answer without a document; empty if it does not know."""
        try:
            answer = await self._answerer.answer_from_memory(question, _ANSWER_TOKENS)
        except ProviderError as error:
            return _empty_if_refused(error)
        return answer.text if answer.found else ""

    async def _reply(self, prompt: str, max_tokens: int) -> str | None:
        try:
            return await self._provider.generate(prompt, max_tokens)
        except ProviderError as error:
            return _empty_if_refused(error) or None


def _empty_if_refused(error: ProviderError) -> str:
    if error.kind is not ProviderFailure.REFUSAL:
        raise error
    return ""


def candidate_prompt(document: Document, seed: int) -> str:
    """Asks a model for one question about the document, as JSON."""
    shown = f"{document.title}\n\n{_part(document, seed)}".strip()
    code = delimiter_code(shown)
    return load_prompt("question_writing").fill(
        code=code, document=delimited("document", code, shown)
    )


def _part(document: Document, seed: int) -> str:
    text = document.text
    if len(text) <= _PART:
        return text
    start = random.Random(f"{seed}:{document.id}").randrange(len(text) - _PART)
    return text[start : start + _PART].partition(" ")[2]


class RewordingWriter:
    """Has the model write a question and then ask it in other words."""

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._writer = ModelQuestionWriter(provider)

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        origin = self._writer.origin
        prompt = f"{origin['prompt']}, {load_prompt('question_rewording').id}"
        return {**origin, "prompt": prompt}

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """The question in other words; a paraphrase that keeps the words is rejected."""
        candidate = await self._writer.propose(document, seed)
        if isinstance(candidate, Rejection):
            return candidate
        try:
            reply = await self._provider.generate(rewording_prompt(candidate.question))
        except ProviderError as error:
            return Rejection.REFUSED if not _empty_if_refused(error) else Rejection.UNREADABLE
        lines = [line for line in reply.strip().splitlines() if line.strip()]
        if not lines:
            return Rejection.UNREADABLE
        text = " ".join(lines[0].split()).strip("\"' ")
        before, after = set(stems(candidate.question)), set(stems(text))
        if not after or len(before & after) > _REWORDED * len(before | after):
            return Rejection.NOT_REWORDED
        return replace(candidate, question=text)

    async def answer_from(self, question: str, document: Document) -> str:
        """The model's answer from this document."""
        return await self._writer.answer_from(question, document)

    async def answer_from_memory(self, question: str) -> str | None:
        """The model's answer without a document."""
        return await self._writer.answer_from_memory(question)


def rewording_prompt(question: str) -> str:
    """Asks a model for the same question in other words."""
    code = delimiter_code(question)
    return load_prompt("question_rewording").fill(
        code=code, question=delimited("question", code, question)
    )


class ClozeWriter:
    """Leaves out a number or a name in a sentence of the document. No model is needed.

    The question has the words of its document, which any lexical search finds: good for trying a
    system out, not for comparing good retrievers.
    """

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        note = (
            "Cloze: a sentence of the document with a number or name removed. Not written "
            "by a model or a person; keyword search finds its document easily."
        )
        return {"provider": EXTRACTIVE, "model": "none", "prompt": "none", "note": note}

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """A sentence with a blank, chosen by the seed."""
        gaps = list(_gaps(document))
        if not gaps:
            return Rejection.NOTHING_TO_ASK
        sentence, missing = random.Random(f"{seed}:{document.id}").choice(gaps)
        question = f"Fill the gap: {sentence.replace(missing, _BLANK)}"
        return QuestionCandidate(
            document.id, question, sentence, (Fact(sentence, (missing,)),), (sentence,)
        )

    async def answer_from(self, question: str, document: Document) -> str:
        """An extract of the document."""
        passage = Passage(document.id, document.title, document.text)
        return extract_answer(question, [passage], _ANSWER_TOKENS).text

    async def answer_from_memory(self, question: str) -> str | None:
        """None: there is no model."""
        return None


def _gaps(document: Document) -> Iterator[tuple[str, str]]:
    """Numbers where the document has any that will do, else names."""
    fitting = [
        sentence
        for sentence in dict.fromkeys(sentences(without_markers(document.text)))
        if _SENTENCE.fullmatch(sentence) and len(sentence.split()) in _WORDS
        if not is_instruction(sentence)
    ]
    for kind in (_NUMBER, _NAME):
        found = [(each, match[0]) for each in fitting for match in kind.finditer(each)]
        once = [(sentence, missing) for sentence, missing in found if sentence.count(missing) == 1]
        if once:
            yield from once
            return
