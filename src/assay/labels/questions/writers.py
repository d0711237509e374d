"""Writers of questions about single documents: a language model, or rules that need none."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from assay.data.dataset import Document, Fact
from assay.errors import ProviderError, ProviderFailure
from assay.labels.questions.made_questions import QuestionCandidate, Rejection
from assay.labels.questions.source_documents import BLANK, plain_sentences, quoted_in
from assay.llm.answerer import ModelAnswerer, extract_answer
from assay.llm.passages import Passage
from assay.llm.prompt import NO_MODEL, delimited, delimiter_code, load_prompt, writer_origin
from assay.llm.providers.provider import LLMProvider
from assay.net.json import parse_json
from assay.text import stems

_SAME = 0.75
_CANDIDATE_TOKENS = 600
_ANSWER_TOKENS = 200
# Of a long document the model is shown a part, from a place that the seed decides.
_PART = 6000
# The share of words that a question and its paraphrase may have in common.
_REWORDED = 0.6
_WORDS = range(8, 41)
# A single digit is guessed too easily, and is in too many answers.
_NUMBER = re.compile(r"(?<![\w.,:/+-])(?=\d[\d.,:/]*\d)\d+(?:[.,:/]\d+)*(?![\w:/-])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-ZÀ-Þ][\w'’-]+(?: [A-ZÀ-Þ][\w'’-]+)*")


class QuestionWriter(Protocol):
    """Proposes questions about documents, and tries to answer them."""

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

    prompts: tuple[str, ...] = (
        *("question_writing", "question_alone"),
        *("answer_system", "answer_question"),
    )

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._answerer = ModelAnswerer(provider)
        note = "Written by a language model and filtered by rules; no person checked it."
        self.origin = writer_origin(provider.name, self.prompts, note)

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """The question that the model writes about the document."""
        try:
            prompt = candidate_prompt(document, seed)
            reply = await self._provider.generate(prompt, _CANDIDATE_TOKENS)
        except ProviderError as error:
            _require_refusal(error)
            return Rejection.REFUSED
        return parse_candidate(reply, document.id) or Rejection.UNREADABLE

    async def answer_from(self, question: str, document: Document) -> str:
        """The model's answer from this document; empty if it refuses."""
        passage = Passage(document.id, document.title, document.text)
        try:
            return (await self._answerer.answer(question, [passage], _ANSWER_TOKENS)).text
        except ProviderError as error:
            _require_refusal(error)
            return ""

    async def answer_from_memory(self, question: str) -> str | None:
        """The model's answer without a document; empty if it does not know."""
        try:
            answer = await self._answerer.answer_from_memory(question, _ANSWER_TOKENS)
        except ProviderError as error:
            _require_refusal(error)
            return ""
        return answer.text if answer.found else ""


def _require_refusal(error: ProviderError) -> None:
    """A model that refuses has answered; any other failure is raised again."""
    if error.kind is not ProviderFailure.REFUSAL:
        raise error


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


class RewordingWriter(ModelQuestionWriter):
    """Has the model write a question and then ask it in other words."""

    prompts = (*ModelQuestionWriter.prompts, "question_rewording")

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """The question in other words; a paraphrase that keeps the words is rejected."""
        candidate = await super().propose(document, seed)
        if isinstance(candidate, Rejection):
            return candidate
        try:
            reply = await self._provider.generate(rewording_prompt(candidate.question))
        except ProviderError as error:
            _require_refusal(error)
            return Rejection.REFUSED
        lines = [line for line in reply.strip().splitlines() if line.strip()]
        if not lines:
            return Rejection.UNREADABLE
        text = " ".join(lines[0].split()).strip("\"' ")
        before, after = set(stems(candidate.question)), set(stems(text))
        if not after or len(before & after) > _REWORDED * len(before | after):
            return Rejection.NOT_REWORDED
        return replace(candidate, question=text)


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

    origin = writer_origin(
        NO_MODEL,
        (),
        "Cloze: a sentence of the document with a number or name removed. Not written by a model "
        "or a person; keyword search finds its document easily.",
    )

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """A sentence with a blank, chosen by the seed."""
        gaps = list(_gaps(document))
        if not gaps:
            return Rejection.NOTHING_TO_ASK
        sentence, missing = random.Random(f"{seed}:{document.id}").choice(gaps)
        question = f"Fill the gap: {sentence.replace(missing, BLANK)}"
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
    fitting = plain_sentences(document, _WORDS)
    for kind in (_NUMBER, _NAME):
        found = [(each, match[0]) for each in fitting for match in kind.finditer(each)]
        once = [(sentence, missing) for sentence, missing in found if sentence.count(missing) == 1]
        if once:
            yield from once
            return


def parse_candidate(reply: str, document_id: str) -> QuestionCandidate | None:
    """The candidate in a model's reply; None if that is not the JSON which was asked for."""
    try:
        fields = parse_json(reply[reply.index("{") : reply.rindex("}") + 1])
        facts = [_fact(each) for each in fields["facts"]]
        candidate = QuestionCandidate(
            document_id,
            _text(fields["question"]),
            _text(fields["answer"]),
            tuple(fact for fact, _ in facts),
            tuple(quote for _, quote in facts),
        )
    except (ValueError, KeyError, TypeError):  # also what orjson raises
        return None
    return candidate if candidate.facts else None


def _fact(fields: Any) -> tuple[Fact, str]:
    text = _text(fields["text"])
    accept = tuple(_text(each) for each in fields.get("accept") or [text])
    return Fact(text, accept), _text(fields["quote"])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a non-empty string")
    return " ".join(value.split())


def documents_with_quotes(
    candidate: QuestionCandidate, documents: Mapping[str, Document]
) -> list[str]:
    """The candidate's document, and any other that contains all its quotes.

    Copies exist, and a system that finds one is right.
    """
    copies = [
        each.id
        for each in documents.values()
        if each.id != candidate.document_id
        and all(quoted_in(quote, each) for quote in candidate.quotes)
    ]
    return [candidate.document_id, *copies]


class SeenQuestions:
    """Finds questions that share three quarters of their words, among any number.

    Two sets that share so much share one of the first words of their order, so only questions with
    one of these are compared.
    """

    def __init__(self, taken: Sequence[str] = ()) -> None:
        self._by_word: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for question in taken:
            self.add(question)

    def has(self, question: str) -> bool:
        """Whether there is a question nearly like this one."""
        said = frozenset(stems(question))
        near = (old for word in _first_words(said) for old in self._by_word[word])
        return any(len(said & old) >= _SAME * len(said | old) for old in near)

    def add(self, question: str) -> None:
        """Take the question."""
        said = frozenset(stems(question))
        for word in _first_words(said):
            self._by_word[word].append(said)


def _first_words(said: frozenset[str]) -> list[str]:
    return sorted(said)[: len(said) - int(_SAME * len(said)) + 1]
