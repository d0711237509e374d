"""Writes the references of questions from their relevant documents: answers, or facts (nuggets).

    result = await generate_references(task, ModelWriter(provider), Path("ground_truth.json"))

A model writes, or sentences are quoted. Every record goes to a journal at once; the result file is
written at the end, and an interrupted run is resumed.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from assay.answers.faithfulness import unsupported
from assay.answers.judge import Judge, Vote
from assay.answers.references import (
    MAX_FACT,
    Importance,
    Nugget,
    NuggetMaker,
    Reference,
    extract,
    parse_reference,
    read_references,
    reference_to_json,
    write_references,
)
from assay.data.dataset import Dataset, Document, Query
from assay.data.journal import Journal, check_writable
from assay.errors import DataError, ProviderError, ProviderFailure, UsageError
from assay.labels.questions import quoted_in
from assay.llm.answerer import extract_finding, is_instruction
from assay.llm.passages import Passage
from assay.llm.prompt import (
    ABSTAINED,
    NO_MODEL,
    delimited,
    delimiter_code,
    load_prompt,
    numbered,
    without_markers,
    writer_origin,
)
from assay.llm.providers.opening import complete
from assay.llm.providers.provider import LLMProvider
from assay.net.gather import for_each
from assay.net.json import JsonObject, parse_json
from assay.progress import Progress, silent
from assay.text import is_negation, stems, text_hash, words

SELECTED = ("PLAIN-2630", "PLAIN-2660", "PLAIN-2510", "PLAIN-2430", "PLAIN-2690")
"""The five questions of NFCorpus that the tests of retrieval and answers are about."""

MAX_NUGGETS = 20
"""Facts of one question that are kept, vital ones first, as in TREC's RAG track."""
MULTI_HOP = "multi-hop"
"""The tag of questions whose answer takes several documents together."""
NO_EXTRACT = (
    "the question takes several documents together, and an extract quotes them one by one; choose "
    "a provider with a model, or write the answer yourself"
)
EXTRACT_NOTE = (
    "Sentences of the documents as they stand, chosen by the words that they share with the "
    "question. No model and no person wrote or checked them; nobody decided which are vital."
)
_AT_ONCE = 8
_ANSWER_TOKENS, _FACTS_TOKENS, _LABEL_TOKENS = 500, 1500, 300
# Characters of documents that a model is shown at once, and of the parts of a long one.
_WINDOW, _PART, _PARTS = 12_000, 6_000, 4
_FACTS_PER_WINDOW = 10
_SAME_SHARE = 0.8


def choose_queries(
    dataset: Dataset, split: str, ids: Sequence[str] = (), number: int | None = None, seed: int = 42
) -> list[Query]:
    """The queries of `ids`; or `number` of them, drawn as an evaluation draws; or all judged ones.

    On the test split of NFCorpus the default is the five that the tests ask.
    """
    judged = {query.id: query for query in dataset.queries_in(split)}
    if not ids and number is None and dataset.name == "nfcorpus" and split == "test":
        ids = SELECTED
    for query_id in ids:
        if query_id not in judged:
            known = query_id in dataset.queries
            why = f"has no relevant document in {split!r}" if known else "is not in the data set"
            raise UsageError(f"query {query_id!r} {why}; see queries.jsonl of {dataset.name!r}")
    if ids:
        return [judged[query_id] for query_id in dict.fromkeys(ids)]
    if number is None:
        return list(judged.values())
    if not 1 <= number <= len(judged):
        raise UsageError(
            f"--num-queries must be from 1 to {len(judged)}, the queries of split {split!r} that "
            f"have a relevant document, got {number!r}"
        )
    return random.Random(seed).sample(list(judged.values()), number)


def expected_ids(dataset: Dataset, split: str, query_id: str) -> tuple[str, ...]:
    """The documents of the highest grade that the query has, in the order of its judgments."""
    grades = _relevant(dataset, split, query_id)
    best = max(grades.values())
    return tuple(doc_id for doc_id, grade in grades.items() if grade == best)


def ranked_documents(dataset: Dataset, split: str, query_id: str) -> list[Document]:
    """The relevant documents with text: by grade, then in the order of the judgments."""
    grades = _relevant(dataset, split, query_id)
    ranked = sorted(grades, key=lambda doc_id: -grades[doc_id])  # stable, so ties keep their order
    found = [dataset.documents[doc_id] for doc_id in ranked if doc_id in dataset.documents]
    return [document for document in found if document.full_text]


def _relevant(dataset: Dataset, split: str, query_id: str) -> dict[str, int]:
    judged = dataset.judgments_in(split).get(query_id, {})
    return {doc_id: grade for doc_id, grade in judged.items() if grade > 0}


class NuggetRejection(StrEnum):
    """Why a candidate is not kept as a fact."""

    UNREADABLE = "the reply was not the JSON that was asked for"
    NOT_A_FACT = "not a short statement"
    INSTRUCTION = "an instruction and not a fact"
    FALSE_QUOTE = "its quote is not in the document"
    OTHER_WORDS = "the document lacks its words or numbers, or denies it"
    UNSUPPORTED = "the model does not find it supported by the document"
    MERGED = "nearly the same as another one"
    SURPLUS = f"beyond the first {MAX_NUGGETS}"


@dataclass
class Draft:
    """What was written for one question: an answer or facts; `why` there is neither.

    `cut` if the limit of tokens was reached; `rejected` counts candidates for facts by the reason.
    """

    answer: str = ""
    facts: list[Nugget] = field(default_factory=list)
    why: str = ""
    cut: bool = False
    candidates: int = 0
    rejected: Counter[NuggetRejection] = field(default_factory=Counter)

    def reject(self, why: NuggetRejection, number: int = 1) -> None:
        """Count candidates that are not kept."""
        self.rejected[why] += number


class ReferenceWriter(Protocol):
    """Writes answers, or facts."""

    @property
    def limits(self) -> tuple[int, int]:
        """How few and how many documents it may be given."""
        ...

    @property
    def origin(self) -> dict[str, str]:
        """Provider, model, prompts and a note, for the provenance."""
        ...

    def sources(self, documents: Sequence[Document]) -> JsonObject:
        """What the provenance says of the documents; an earlier record of the same is kept."""
        ...

    async def write(self, query: Query, documents: Sequence[Document]) -> Draft:
        """An answer or facts from the documents. Raises `ProviderError`."""
        ...


class _AnswerWriter:
    limits = (3, 5)

    def sources(self, documents: Sequence[Document]) -> JsonObject:
        return {"document_ids": [document.id for document in documents]}


class ExtractWriter(_AnswerWriter):
    """Quotes sentences. Deterministic, so that text which was left out can be made again."""

    origin = writer_origin(
        NO_MODEL,
        (),
        "An extract: a sentence of each document as it stands, chosen by the words that it shares "
        "with the question and by its place. No model and no person wrote or checked it.",
    )

    async def write(self, query: Query, documents: Sequence[Document]) -> Draft:
        """A sentence of each document; side by side they do not answer what takes several."""
        if MULTI_HOP in query.tags:
            return Draft(why=NO_EXTRACT)
        why = "no sentence of the documents shares words with the question"
        return Draft(extract(query.text, documents), why=why)


class ModelWriter(_AnswerWriter):
    """Has a language model write the answer from the documents."""

    def __init__(self, provider: LLMProvider, max_tokens: int = _ANSWER_TOKENS) -> None:
        self._provider = provider
        self._max_tokens = max_tokens
        note = "Written by a language model from the documents; no person checked it."
        self.origin = writer_origin(provider.name, ("ground_truth_answer",), note)

    async def write(self, query: Query, documents: Sequence[Document]) -> Draft:
        """The model's answer, without markers of citations."""
        prompt = reference_prompt(query.text, documents)
        reply = await complete(self._provider, prompt, self._max_tokens)
        declined = ABSTAINED.fullmatch(reply.text) is not None
        text = "" if declined else without_markers(reply.text).strip()
        why = "the documents do not contain the answer, according to the model"
        return Draft(text, why=why, cut=reply.stop_reason == "length")


def reference_prompt(question: str, documents: Sequence[Document]) -> str:
    """Asks a model for a comprehensive answer from the documents."""
    texts = [f"Title: {each.title}\n{each.text}" for each in documents]
    code = delimiter_code(question, *texts)
    return load_prompt("ground_truth_answer").fill(
        code=code,
        documents=numbered("document", code, texts),
        question=f"Question:\n{delimited('question', code, question)}",
    )


class _FactWriter:
    limits = (1, 50)

    def sources(self, documents: Sequence[Document]) -> JsonObject:
        return {"documents": {each.id: text_hash(each.full_text) for each in documents}}


class SentenceExtractor(_FactWriter):
    """A sentence of each document as it stands: candidates for a person to edit."""

    origin = writer_origin(NO_MODEL, (), EXTRACT_NOTE)

    async def write(self, query: Query, documents: Sequence[Document]) -> Draft:
        """All of them `okay`: which are vital, only a reader can say."""
        draft = Draft()
        for document in documents:
            passage = Passage(document.id, document.title, document.text)
            if not (found := extract_finding(query.text, passage)):
                continue
            draft.candidates += 1
            if len(found) > MAX_FACT or is_instruction(found):
                draft.reject(NuggetRejection.NOT_A_FACT)
                continue
            ids = (document.id,)
            draft.facts.append(Nugget("", found, Importance.OKAY, NuggetMaker.EXTRACT, ids))
        return _finished(draft)


class ModelExtractor(_FactWriter):
    """A language model collects facts window by window, and then says which are vital.

    A fact needs a true quote, the words and numbers of its document, and the model's own verdict
    in both orders that the document supports it.
    """

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._judge = Judge(provider)
        prompts = ("nugget_writing", "nugget_importance", "judge_support", "judge_support_first")
        note = "Extracted by a language model from the documents; no person checked them."
        self.origin = writer_origin(provider.name, prompts, note)

    async def write(self, query: Query, documents: Sequence[Document]) -> Draft:
        """Facts of all windows, merged and labeled."""
        draft = Draft(cut=any(len(each.text) > _PART * _PARTS for each in documents))
        for window in _windows(documents):
            known = [each.text for each in draft.facts]
            reply = await self._reply(writing_prompt(query.text, window, known), _FACTS_TOKENS)
            facts = _facts(reply)
            if facts is None:
                draft.reject(NuggetRejection.UNREADABLE)
                continue
            for fields in facts[:_FACTS_PER_WINDOW]:
                draft.candidates += 1
                if (why := await self._add(draft, fields, window)) is not None:
                    draft.reject(why)
        await self._label(query.text, draft)
        return _finished(draft)

    async def _add(
        self, draft: Draft, fields: Any, window: Sequence[Document]
    ) -> NuggetRejection | None:
        found = _candidate(fields, window)
        if isinstance(found, NuggetRejection):
            return found
        text, document = found
        sources = [document.full_text]
        if unsupported(text, sources):
            return NuggetRejection.OTHER_WORDS
        fact = Nugget("", text, Importance.OKAY, NuggetMaker.MODEL, (document.id,))
        merged = merge_nuggets([*draft.facts, fact])
        if len(merged) == len(draft.facts):
            draft.facts = merged
            return NuggetRejection.MERGED
        votes = [await self._judge.supports(text, sources, vote) for vote in (0, 1)]
        if votes != [Vote.TRUE, Vote.TRUE]:
            return NuggetRejection.UNSUPPORTED
        draft.facts = merged
        return None

    async def _label(self, question: str, draft: Draft) -> None:
        """What has no readable label is left out: a guess would be counted as the model's word."""
        if not draft.facts:
            return
        prompt = importance_prompt(question, [each.text for each in draft.facts])
        labels = _labels(await self._reply(prompt, _LABEL_TOKENS), len(draft.facts))
        if labels is None:
            draft.reject(NuggetRejection.UNREADABLE, len(draft.facts))
            draft.facts = []
            return
        pairs = zip(draft.facts, labels, strict=True)
        draft.facts = [replace(each, importance=label) for each, label in pairs]

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


def importance_prompt(question: str, facts: Sequence[str]) -> str:
    """Asks a model which of the facts an answer must state."""
    code = delimiter_code(question, *facts)
    return load_prompt("nugget_importance").fill(
        code=code,
        number=str(len(facts)),
        question=f"Question:\n{delimited('question', code, question)}",
        facts=numbered("fact", code, facts),
    )


def _windows(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Documents that are shown at once; of a long one, its first parts."""
    window: list[Document] = []
    for document in documents:
        for start in range(0, min(len(document.text), _PART * _PARTS), _PART):
            part = replace(document, text=document.text[start : start + _PART])
            if window and sum(len(each.text) for each in (*window, part)) > _WINDOW:
                yield window
                window = []
            window.append(part)
    if window:
        yield window


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
    if not isinstance(text, str) or not stems(text) or len(text) > MAX_FACT:
        return NuggetRejection.NOT_A_FACT
    if is_instruction(text):
        return NuggetRejection.INSTRUCTION
    if not isinstance(place, int) or not 1 <= place <= len(window):
        return NuggetRejection.FALSE_QUOTE
    if not isinstance(quote, str) or not stems(quote):
        return NuggetRejection.FALSE_QUOTE
    document = window[place - 1]
    return (text, document) if quoted_in(quote, document) else NuggetRejection.FALSE_QUOTE


def _labels(reply: str, number: int) -> list[Importance] | None:
    try:
        found = parse_json(reply[reply.index("[") : reply.rindex("]") + 1])
        labels = [Importance(str(each).strip().lower()) for each in found]
    except (ValueError, TypeError):
        return None
    return labels if len(labels) == number else None


def merge_nuggets(facts: Sequence[Nugget]) -> list[Nugget]:
    """Near duplicates as one, which names the documents of all; vital if any of them is."""
    merged: list[Nugget] = []
    for fact in facts:
        place = next((n for n, each in enumerate(merged) if _alike(fact.text, each.text)), None)
        if place is None:
            merged.append(fact)
            continue
        documents = tuple(dict.fromkeys((*merged[place].documents, *fact.documents)))
        importance = Importance.VITAL if fact.vital else merged[place].importance
        merged[place] = replace(merged[place], documents=documents, importance=importance)
    return merged


def _alike(a: str, b: str) -> bool:
    """Whether nearly all words are the same, and all numbers and negations."""
    first, second = set(stems(a)), set(stems(b))
    if _figures(a) != _figures(b):
        return False
    return len(first & second) >= _SAME_SHARE * len(first | second)


def _figures(text: str) -> tuple[set[str], int]:
    said = words(text)
    figures = {word for word in said if any(map(str.isdigit, word))}
    return figures, sum(map(is_negation, said)) % 2


def _finished(draft: Draft) -> Draft:
    """Merge once more, the vital ones first, and not too many; and say why there is none."""
    merged = sorted(merge_nuggets(draft.facts), key=lambda each: not each.vital)
    draft.reject(NuggetRejection.MERGED, len(draft.facts) - len(merged))
    draft.reject(NuggetRejection.SURPLUS, max(0, len(merged) - MAX_NUGGETS))
    draft.facts = merged[:MAX_NUGGETS]
    draft.rejected = +draft.rejected
    reason = draft.rejected.most_common(1)
    none = "no nugget could be extracted from its documents"
    draft.why = f"no nugget is left: {reason[0][0]}" if reason else none
    return draft


@dataclass(frozen=True, slots=True)
class GenerationTask:
    """Which questions of which split, and how many documents are used for each."""

    dataset: Dataset
    split: str
    queries: Sequence[Query]
    documents: int = 5


@dataclass
class GenerationResult:
    """What was written; `left_out` has the reason for each question without a reference."""

    references: list[Reference] = field(default_factory=list)
    written: int = 0
    kept: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    rejected: Counter[NuggetRejection] = field(default_factory=Counter)

    @property
    def cut(self) -> list[str]:
        """Questions whose answer reached the limit of tokens."""
        return [each.query_id for each in self.references if each.provenance.get("cut")]


async def generate_references(
    task: GenerationTask,
    writer: ReferenceWriter,
    out: Path,
    *,
    resume: bool = False,
    text: bool = True,
    progress: Progress = silent,
) -> GenerationResult:
    """Write references to `out`.

    If the model fails or the budget is used up, the records so far stay in the journal.

    Parameters:
        task: the questions.
        writer: who writes.
        out: the result file: JSON lines for `.jsonl`, else a list.
        resume: keep records of `out` and its journal that were made in the same way from the same
            documents, or by a person; of other facts keep those that people wrote.
        text: False writes hashes in place of questions and answers.
    """
    if not text and not isinstance(writer, ExtractWriter):
        raise UsageError(
            "only extracts can be omitted from the file, because only they can be "
            "recreated from the documents; choose the provider 'extractive', or keep the text"
        )
    fewest, most = writer.limits
    if not fewest <= task.documents <= most:
        raise UsageError(f"--documents must be from {fewest} to {most}, got {task.documents}")
    task.dataset.require_documents("assay ground-truth")
    check_writable(out)
    journal = Journal(out)
    earlier = _earlier(out, journal, resume)
    result = GenerationResult()
    # Text that may not be in the file must not be in its journal; making it again costs nothing.
    await _write_all(task, writer, earlier, result, journal if text else None, progress)
    if not result.references:
        raise DataError(
            f"none of {len(task.queries)} queries has a reference, so nothing was written: "
            + "; ".join(sorted(set(result.left_out.values())))
        )
    asked = {query.id for query in task.queries}
    others = [each for query_id, each in earlier.items() if query_id not in asked]
    write_references(out, [*result.references, *others], text=text)
    journal.remove()
    return result


def _earlier(out: Path, journal: Journal, resume: bool) -> dict[str, Reference]:
    if not resume:
        for path in (out, journal.path):
            if path.exists():
                raise UsageError(
                    f"{str(path)!r} already exists: pass --resume to keep its references and add "
                    "the missing ones, or delete it"
                )
        return {}
    known = read_references(out) if out.exists() else []
    for place, fields in enumerate(journal.read(), 1):
        known.append(parse_reference(fields, journal.path, f"line {place}"))
    return {each.query_id: each for each in known}


async def _write_all(
    task: GenerationTask,
    writer: ReferenceWriter,
    earlier: Mapping[str, Reference],
    result: GenerationResult,
    journal: Journal | None,
    progress: Progress,
) -> None:
    done: dict[str, Reference] = {}

    def report() -> None:
        finished = len(done) + len(result.left_out)
        progress("writing references", finished, len(task.queries))

    async def write(query: Query) -> None:
        documents = ranked_documents(task.dataset, task.split, query.id)[: task.documents]
        known = earlier.get(query.id) or Reference(query.id, query.text)
        origin = {**writer.origin, **writer.sources(documents)}
        if known is earlier.get(query.id) and _is_current(known, writer, origin):
            done[query.id] = known
            result.kept += 1
            report()
            return
        try:
            draft = await writer.write(query, documents)
        except ProviderError as error:
            if error.kind is not ProviderFailure.REFUSAL:
                raise
            draft = Draft(why=str(error))
        result.rejected.update(draft.rejected)
        facts = _with_ids([*known.by_people, *draft.facts], query.id)
        if not draft.answer and not facts:
            result.left_out[query.id] = draft.why
            report()
            return
        expected = expected_ids(task.dataset, task.split, query.id)
        made = replace(
            known,
            query=query.text,
            answer=draft.answer or known.answer,
            facts=facts or known.facts,
            expected=expected if draft.answer else known.expected,
            highly_relevant_count=len(expected) if draft.answer else known.highly_relevant_count,
            provenance=_provenance(task, origin, draft),
        )
        if journal:
            journal.append(reference_to_json(made))
        done[query.id] = made
        result.written += 1
        report()

    await for_each(task.queries, write, _AT_ONCE)
    result.references = [done[query.id] for query in task.queries if query.id in done]


def _is_current(known: Reference, writer: ReferenceWriter, origin: JsonObject) -> bool:
    """Whether the record was made in the same way from the same documents, or by a person."""
    has_it = known.answer if isinstance(writer, _AnswerWriter) else known.facts
    same = all(known.provenance.get(key) == origin[key] for key in origin if key != "note")
    return bool(has_it) and (not known.provenance or same)


def _provenance(task: GenerationTask, origin: JsonObject, draft: Draft) -> JsonObject:
    facts = {
        "fingerprint": task.dataset.fingerprint,
        "candidates": draft.candidates,
        "rejected": {each.name.lower(): number for each, number in draft.rejected.items()},
    }
    return {
        **origin,
        "dataset": task.dataset.name,
        "split": task.split,
        "created": datetime.now(UTC).date().isoformat(),
        "assay": version("agent-assay"),
        **({"cut": True} if draft.cut else {}),
        **(facts if draft.facts else {}),
    }


def _with_ids(facts: Sequence[Nugget], query_id: str) -> tuple[Nugget, ...]:
    """With ids in their order; people's facts keep theirs."""
    taken = {each.id for each in facts if each.by is NuggetMaker.HUMAN}
    free = (name for n in range(1, 10_000) if (name := f"{query_id}.{n}") not in taken)
    return tuple(
        each if each.by is NuggetMaker.HUMAN else replace(each, id=next(free)) for each in facts
    )
