"""Extracts candidate nuggets from documents: by a language model, or sentences as they are."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from assay.answers.nugget_file import MAX_LENGTH, Importance, Nugget, NuggetMaker
from assay.data.dataset import Document
from assay.errors import ProviderError, ProviderFailure
from assay.labels.questions import quoted_in
from assay.llm.answerer import extract_finding, is_instruction
from assay.llm.passages import Passage
from assay.llm.prompt import (
    NO_MODEL,
    delimited,
    delimiter_code,
    load_prompt,
    numbered,
    writer_origin,
)
from assay.llm.providers.provider import LLMProvider
from assay.net.json import parse_json
from assay.text import is_negation, stems, words

MAX_NUGGETS = 20
"""Nuggets of one question that are kept, vital ones first, as in TREC's RAG track."""

Supported = Callable[[str, Sequence[str]], Awaitable[bool]]
"""Whether texts support a statement: rules, or a judge, both of a layer above this one."""

_WINDOW = 12_000
"""Characters of documents that a model is shown at once."""
_PART, _PARTS = 6_000, 4
_FACTS_PER_WINDOW = 10
_WRITING_TOKENS, _LABEL_TOKENS = 1500, 300
_SAME_SHARE = 0.8

EXTRACT_NOTE = (
    "Sentences of the documents as they stand, chosen by the words that they share with the "
    "question. No model and no person wrote or checked them; nobody decided which are vital."
)


class NuggetRejection(StrEnum):
    """Why a candidate is no nugget."""

    UNREADABLE = "the reply was not the JSON that was asked for"
    NOT_A_FACT = "not a short statement"
    INSTRUCTION = "an instruction and not a fact"
    FALSE_QUOTE = "its quote is not in the document"
    OTHER_WORDS = "the document lacks its words or numbers, or denies it"
    UNSUPPORTED = "the model does not find it supported by the document"
    MERGED = "nearly the same as another one"
    SURPLUS = f"beyond the first {MAX_NUGGETS}"


@dataclass
class ExtractedNuggets:
    """The nuggets of one question; `rejected` counts candidates by the reason."""

    nuggets: list[Nugget] = field(default_factory=list)
    candidates: int = 0
    rejected: Counter[NuggetRejection] = field(default_factory=Counter)
    cut: int = 0
    """Documents that were too long to be shown as a whole."""


class NuggetExtractor(Protocol):
    """Extracts nuggets."""

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        ...

    async def extract(self, question: str, documents: Sequence[Document]) -> ExtractedNuggets:
        """The nuggets that the documents hold for a question."""
        ...


class SentenceExtractor:
    """A sentence of each document as it stands: candidates for a person to edit."""

    origin = writer_origin(NO_MODEL, (), EXTRACT_NOTE)

    async def extract(self, question: str, documents: Sequence[Document]) -> ExtractedNuggets:
        """All of them `okay`: which are vital, only a reader can say."""
        extracted = ExtractedNuggets()
        for document in documents:
            found = extract_finding(question, Passage(document.id, document.title, document.text))
            if not found:
                continue
            extracted.candidates += 1
            if len(found) > MAX_LENGTH:
                extracted.rejected[NuggetRejection.NOT_A_FACT] += 1
                continue
            nugget = Nugget("", found, Importance.OKAY, NuggetMaker.EXTRACT, (document.id,))
            extracted.nuggets.append(nugget)
        _finish(extracted)
        return extracted


class ModelExtractor:
    """A language model collects facts window by window, and then says which are vital.

    Parameters:
        provider: the model.
        by_words: the check of support that needs no model; it is asked first.
        by_model: the check of support that asks a model.
    """

    def __init__(self, provider: LLMProvider, by_words: Supported, by_model: Supported) -> None:
        self._provider = provider
        self._by_words = by_words
        self._by_model = by_model
        prompts = ("nugget_writing", "nugget_importance", "judge_support", "judge_support_first")
        note = "Extracted by a language model from the documents; no person checked them."
        self.origin = writer_origin(provider.name, prompts, note)

    async def extract(self, question: str, documents: Sequence[Document]) -> ExtractedNuggets:
        """Facts with a true quote that words and model find supported, merged and labeled."""
        extracted = ExtractedNuggets(cut=sum(len(each.text) > _PART * _PARTS for each in documents))
        for window in _windows(documents):
            known = [each.text for each in extracted.nuggets]
            reply = await self._reply(writing_prompt(question, window, known), _WRITING_TOKENS)
            facts = _facts(reply)
            if facts is None:
                extracted.rejected[NuggetRejection.UNREADABLE] += 1
                continue
            for each in facts[:_FACTS_PER_WINDOW]:
                await self._add(extracted, each, window)
        await self._label(question, extracted)
        _finish(extracted)
        return extracted

    async def _add(
        self, extracted: ExtractedNuggets, fields: Any, window: Sequence[Document]
    ) -> None:
        extracted.candidates += 1
        found = _candidate(fields, window)
        if isinstance(found, NuggetRejection):
            extracted.rejected[found] += 1
            return
        text, document = found
        sources = [document.full_text]
        if not await self._by_words(text, sources):
            extracted.rejected[NuggetRejection.OTHER_WORDS] += 1
        elif (same := _same_as(text, extracted.nuggets)) is not None:
            extracted.rejected[NuggetRejection.MERGED] += 1
            _add_document(extracted.nuggets, same, document.id)
        elif not await self._by_model(text, sources):
            extracted.rejected[NuggetRejection.UNSUPPORTED] += 1
        else:
            nugget = Nugget("", text, Importance.OKAY, NuggetMaker.MODEL, (document.id,))
            extracted.nuggets.append(nugget)

    async def _label(self, question: str, extracted: ExtractedNuggets) -> None:
        """What has no readable label is left out: a guess would be counted as the model's word."""
        if not extracted.nuggets:
            return
        prompt = importance_prompt(question, [each.text for each in extracted.nuggets])
        labels = _labels(await self._reply(prompt, _LABEL_TOKENS), len(extracted.nuggets))
        if labels is None:
            extracted.rejected[NuggetRejection.UNREADABLE] += len(extracted.nuggets)
            extracted.nuggets = []
            return
        pairs = zip(extracted.nuggets, labels, strict=True)
        extracted.nuggets = [replace(each, importance=label) for each, label in pairs]

    async def _reply(self, prompt: str, max_tokens: int) -> str:
        try:
            return await self._provider.generate(prompt, max_tokens)
        except ProviderError as error:
            if error.kind is ProviderFailure.REFUSAL:
                return ""
            raise


def writing_prompt(question: str, documents: Sequence[Document], known: Sequence[str]) -> str:
    """Asks a model for facts of the documents that answer the question."""
    texts = [f"Title: {each.title}\n{each.text}" if each.title else each.text for each in documents]
    code = delimiter_code(question, *texts, *known)
    facts = "\n".join(f"- {each}" for each in known)
    return load_prompt("nugget_writing").fill(
        code=code,
        question=f"Question:\n{delimited('question', code, question)}",
        documents=numbered("document", code, texts),
        known=delimited("fact", code, facts) if known else "none",
        most=str(_FACTS_PER_WINDOW),
    )


def importance_prompt(question: str, nuggets: Sequence[str]) -> str:
    """Asks a model which of the facts an answer must state."""
    code = delimiter_code(question, *nuggets)
    return load_prompt("nugget_importance").fill(
        code=code,
        number=str(len(nuggets)),
        question=f"Question:\n{delimited('question', code, question)}",
        facts=numbered("fact", code, nuggets),
    )


def _windows(documents: Sequence[Document]) -> Iterator[list[Document]]:
    window: list[Document] = []
    size = 0
    for part in (part for document in documents for part in _parts(document)):
        if window and size + len(part.text) > _WINDOW:
            yield window
            window, size = [], 0
        window.append(part)
        size += len(part.text)
    if window:
        yield window


def _parts(document: Document) -> Iterator[Document]:
    """A long document in several parts, of which the first few are read."""
    for start in range(0, min(len(document.text), _PART * _PARTS), _PART):
        yield replace(document, text=document.text[start : start + _PART])


def _facts(reply: str) -> list[Any] | None:
    try:
        found = parse_json(reply[reply.index("{") : reply.rindex("}") + 1])["facts"]
    except (ValueError, KeyError, TypeError):  # also what orjson raises
        return None
    return found if isinstance(found, list) else None


def _candidate(fields: Any, window: Sequence[Document]) -> tuple[str, Document] | NuggetRejection:
    if not isinstance(fields, dict):
        return NuggetRejection.NOT_A_FACT
    text, place, quote = (fields.get(key) for key in ("text", "document", "quote"))
    if not isinstance(text, str) or not stems(text) or len(text) > MAX_LENGTH:
        return NuggetRejection.NOT_A_FACT
    if is_instruction(text):
        return NuggetRejection.INSTRUCTION
    if not isinstance(place, int) or not 1 <= place <= len(window):
        return NuggetRejection.FALSE_QUOTE
    if not isinstance(quote, str) or not stems(quote):
        return NuggetRejection.FALSE_QUOTE
    document = window[place - 1]
    if not quoted_in(quote, document):
        return NuggetRejection.FALSE_QUOTE
    return " ".join(text.split()), document


def _labels(reply: str, number: int) -> list[Importance] | None:
    try:
        found = parse_json(reply[reply.index("[") : reply.rindex("]") + 1])
        labels = [Importance(str(each).strip().lower()) for each in found]
    except (ValueError, TypeError):
        return None
    return labels if len(labels) == number else None


def merge_nuggets(nuggets: Sequence[Nugget]) -> list[Nugget]:
    """Near duplicates as one, which names the documents of all; vital if any of them is."""
    merged: list[Nugget] = []
    for each in nuggets:
        place = _same_as(each.text, merged)
        if place is None:
            merged.append(each)
            continue
        for doc_id in each.documents:
            _add_document(merged, place, doc_id)
        if each.vital:
            merged[place] = replace(merged[place], importance=Importance.VITAL)
    return merged


def _same_as(text: str, nuggets: Sequence[Nugget]) -> int | None:
    """The place of a nugget with nearly the same words, and the same numbers and negations."""
    return next((i for i, each in enumerate(nuggets) if _alike(text, each.text)), None)


def _alike(a: str, b: str) -> bool:
    first, second = set(stems(a)), set(stems(b))
    if _figures(a) != _figures(b) or _negations(a) != _negations(b):
        return False
    return len(first & second) >= _SAME_SHARE * len(first | second)


def _figures(text: str) -> set[str]:
    return {word for word in words(text) if any(map(str.isdigit, word))}


def _negations(text: str) -> int:
    return sum(map(is_negation, words(text))) % 2


def _add_document(nuggets: list[Nugget], place: int, doc_id: str) -> None:
    documents = tuple(dict.fromkeys((*nuggets[place].documents, doc_id)))
    nuggets[place] = replace(nuggets[place], documents=documents)


def _finish(extracted: ExtractedNuggets) -> None:
    """Merge once more, the vital ones first, and not too many."""
    merged = merge_nuggets(extracted.nuggets)
    extracted.rejected[NuggetRejection.MERGED] += len(extracted.nuggets) - len(merged)
    merged.sort(key=lambda each: not each.vital)
    extracted.rejected[NuggetRejection.SURPLUS] += max(0, len(merged) - MAX_NUGGETS)
    extracted.nuggets = merged[:MAX_NUGGETS]
