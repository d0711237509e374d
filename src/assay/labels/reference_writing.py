"""Writes the references of questions from their relevant documents: answers, or facts (nuggets).

    result = await generate_references(dataset, AnswerWriter(provider), out, queries=queries)

A model writes, or sentences are quoted. After an interruption, repeat the call: replies of models
are cached.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assay.answers.faithfulness import unsupported
from assay.answers.judge import Judge
from assay.answers.values import polarity
from assay.data.dataset import Dataset, Document, Query
from assay.errors import DataError, UsageError
from assay.labels.questions import json_in, quoted_in, unless_refused
from assay.labels.references import (
    ANSWER_HASH,
    MAX_FACT,
    Importance,
    Nugget,
    NuggetMaker,
    Reference,
    extract,
    read_references,
    write_references,
)
from assay.llm.answerer import is_instruction
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
from assay.net.gather import gather_for
from assay.net.json import JsonObject
from assay.progress import Progress, silent
from assay.text import stems, words

# The five questions of NFCorpus that the tests of retrieval and answers are about.
SELECTED = ("PLAIN-2630", "PLAIN-2660", "PLAIN-2510", "PLAIN-2430", "PLAIN-2690")
# Facts of one question that are kept, vital ones first, as in TREC's RAG track.
MAX_NUGGETS = 20
MULTI_HOP = "multi-hop"  # the tag of questions whose answer takes several documents together
_ANSWER_TOKENS, _FACTS_TOKENS, _LABEL_TOKENS = 500, 1500, 300
# Characters of documents that a model is shown at once, and of the parts of a long one.
_WINDOW, _PART, _MAX_PARTS = 12_000, 6_000, 4
_FACTS_PER_WINDOW = 10
_SAME_SHARE = 0.8


def choose_queries(
    dataset: Dataset, split: str, number: int | None = None, seed: int = 42
) -> list[Query]:
    """All judged queries; or `number` of them, drawn as an evaluation draws.

    On the test split of NFCorpus the default is the five that the tests ask.
    """
    judged = list(dataset.queries_in(split))
    if number is None:
        selected = SELECTED if (dataset.name, split) == ("nfcorpus", "test") else ()
        return [dataset.queries[each] for each in selected] or judged
    if not 1 <= number <= len(judged):
        raise UsageError(
            f"--num-queries must be from 1 to {len(judged)}, the judged queries of split "
            f"{split!r}, got {number!r}"
        )
    return random.Random(seed).sample(judged, number)


def expected_ids(dataset: Dataset, split: str, query_id: str) -> tuple[str, ...]:
    """The documents of the highest grade that the query has, in the order of its judgments."""
    grades = dataset.judgments_in(split).get(query_id, {})
    best = max(grades.values())
    return tuple(doc_id for doc_id, grade in grades.items() if grade == best > 0)


def ranked_documents(dataset: Dataset, split: str, query_id: str) -> list[Document]:
    """The relevant documents with text: by grade, then in the order of the judgments."""
    grades = dataset.judgments_in(split).get(query_id, {})
    ranked = sorted(grades, key=lambda doc_id: -grades[doc_id])  # stable, so ties keep their order
    found = [dataset.documents.get(doc_id) for doc_id in ranked if grades[doc_id] > 0]
    return [document for document in found if document is not None and document.full_text]


class NuggetRejection(StrEnum):
    """Why a candidate is not kept as a fact."""

    UNREADABLE = "the reply was not the JSON that was asked for"
    NOT_A_FACT = "not a short statement"
    FALSE_QUOTE = "its quote is not in the document"
    OTHER_WORDS = "the document lacks its words or numbers, or denies it"
    UNSUPPORTED = "the model does not find it supported by the document"
    MERGED = "nearly the same as another one"
    SURPLUS = f"beyond the first {MAX_NUGGETS}"


@dataclass
class Draft:
    """What was written for one question: an answer or facts; `why` there is neither.

    `rejected` counts candidates for facts by the reason.
    """

    answer: str = ""
    facts: list[Nugget] = field(default_factory=list)
    why: str = ""
    rejected: Counter[NuggetRejection] = field(default_factory=Counter)


class AnswerWriter:
    """Has a language model write the answer; without one, quotes a sentence of each document."""

    max_documents = 5
    writes_facts = False

    def __init__(self, provider: LLMProvider | None = None) -> None:
        self._provider = provider
        note = "Written by a language model from the documents; no person checked it."
        if provider is not None:
            self.origin = writer_origin(provider.name, ("ground_truth_answer",), note)
        else:
            note = (
                "An extract: a sentence of each document as it stands, chosen by the words that it "
                "shares with the question and by its place. No model and no person wrote or "
                "checked it."
            )
            self.origin = writer_origin(NO_MODEL, (), note)

    async def write(self, query: Query, documents: Sequence[Document]) -> Draft:
        """The answer, without markers of citations. Raises `ProviderError`."""
        if self._provider is None:
            if MULTI_HOP in query.tags:  # quotes side by side do not answer these
                return Draft(why="the answer takes several documents; choose a model to write it")
            why = "no sentence of the documents shares words with the question"
            return Draft(extract(query.text, documents), why=why)
        texts = [f"Title: {each.title}\n{each.text}" for each in documents]
        code = delimiter_code(query.text, *texts)
        prompt = load_prompt("ground_truth_answer").fill(
            code=code,
            documents=numbered("document", code, texts),
            question=f"Question:\n{delimited('question', code, query.text)}",
        )
        reply = await complete(self._provider, prompt, _ANSWER_TOKENS)
        # Half an answer would call right ones wrong for what it does not say any more.
        if reply.stop_reason == "length":
            return Draft(why="the model's answer was cut at the limit of tokens")
        declined = ABSTAINED.fullmatch(reply.text) is not None
        text = "" if declined else without_markers(reply.text).strip()
        return Draft(text, why="the documents do not contain the answer, according to the model")


class ModelExtractor:
    """A language model collects facts window by window, and then says which are vital.

    A fact needs a true quote, the words and numbers of its document, and the model's own verdict
    that the document supports it.
    """

    max_documents = 10
    writes_facts = True

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._judge = Judge(provider)
        prompts = ("nugget_writing", "nugget_importance", "judge_support")
        note = "Extracted by a language model from the documents; no person checked them."
        self.origin = writer_origin(provider.name, prompts, note)

    async def write(self, query: Query, documents: Sequence[Document]) -> Draft:
        """Facts of all windows, those that say the same once; vital ones first."""
        draft = Draft()
        for window in _windows(documents):
            for fields in await self._candidates(query.text, window, draft):
                why = await self._add(draft, fields, window)
                if why is not None:
                    draft.rejected[why] += 1
        if draft.facts:
            await self._label(query.text, draft)
        draft.facts.sort(key=lambda fact: not fact.vital)
        if surplus := len(draft.facts[MAX_NUGGETS:]):
            draft.rejected[NuggetRejection.SURPLUS] += surplus
            del draft.facts[MAX_NUGGETS:]
        draft.why = "; ".join(["no nugget is left", *draft.rejected])
        return draft

    async def _candidates(self, question: str, window: Sequence[Document], draft: Draft) -> Any:
        """What the model proposes, as it replied."""
        texts = [
            f"Title: {each.title}\n{each.text}" if each.title else each.text for each in window
        ]
        known = [each.text for each in draft.facts]
        code = delimiter_code(question, *texts, *known)
        facts = "\n".join(f"- {each}" for each in known)
        prompt = load_prompt("nugget_writing").fill(
            code=code,
            question=f"Question:\n{delimited('question', code, question)}",
            documents=numbered("document", code, texts),
            known=delimited("fact", code, facts) if known else "none",
            most=str(_FACTS_PER_WINDOW),
        )
        reply = await unless_refused(self._provider.generate(prompt, _FACTS_TOKENS))
        try:
            return list(json_in(reply or "", "{}")["facts"])[:_FACTS_PER_WINDOW]
        except (ValueError, KeyError, TypeError):
            draft.rejected[NuggetRejection.UNREADABLE] += 1
            return []

    async def _add(
        self, draft: Draft, fields: Any, window: Sequence[Document]
    ) -> NuggetRejection | None:
        """Add the candidate to the facts of the draft, or return why not."""
        fields = fields if isinstance(fields, dict) else {}
        text, place, quote = (fields.get(key) for key in ("text", "document", "quote"))
        if not isinstance(text, str) or not stems(text) or len(text) > MAX_FACT:
            return NuggetRejection.NOT_A_FACT
        if is_instruction(text):  # to the judge that will read it
            return NuggetRejection.NOT_A_FACT
        if not isinstance(place, int) or not 1 <= place <= len(window):
            return NuggetRejection.FALSE_QUOTE
        document = window[place - 1]
        if not isinstance(quote, str) or not stems(quote) or not quoted_in(quote, document):
            return NuggetRejection.FALSE_QUOTE
        sources = [document.full_text]
        if unsupported(text, sources):
            return NuggetRejection.OTHER_WORDS
        for n, each in enumerate(draft.facts):
            if _alike(each.text, text):
                known = tuple(dict.fromkeys((*each.documents, document.id)))
                draft.facts[n] = replace(each, documents=known)
                return NuggetRejection.MERGED
        if not (await self._judge.supports(text, sources)).verdict:
            return NuggetRejection.UNSUPPORTED
        draft.facts.append(Nugget("", text, Importance.OKAY, NuggetMaker.MODEL, (document.id,)))
        return None

    async def _label(self, question: str, draft: Draft) -> None:
        """Set the importance of each fact; without readable labels, none is left."""
        texts = [each.text for each in draft.facts]
        code = delimiter_code(question, *texts)
        prompt = load_prompt("nugget_importance").fill(
            code=code,
            number=str(len(texts)),
            question=f"Question:\n{delimited('question', code, question)}",
            facts=numbered("fact", code, texts),
        )
        reply = await unless_refused(self._provider.generate(prompt, _LABEL_TOKENS))
        try:
            found = json_in(reply or "", "[]")
            labels = [Importance(str(label).strip().lower()) for label in found]
            pairs = list(zip(draft.facts, labels, strict=True))
        except (ValueError, TypeError):
            draft.rejected[NuggetRejection.UNREADABLE] += len(draft.facts)
            pairs = []
        draft.facts = [replace(each, importance=label) for each, label in pairs]


def _windows(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Documents that are shown at once; of a long one, its first parts."""
    window: list[Document] = []
    for document in documents:
        for start in range(0, min(len(document.text), _PART * _MAX_PARTS), _PART):
            part = replace(document, text=document.text[start : start + _PART])
            if window and sum(len(each.text) for each in (*window, part)) > _WINDOW:
                yield window
                window = []
            window.append(part)
    if window:
        yield window


def _alike(a: str, b: str) -> bool:
    """Whether nearly all words are the same, and all numbers and negations."""
    first, second = set(stems(a)), set(stems(b))
    same = len(first & second) >= _SAME_SHARE * len(first | second)
    return (
        same
        and polarity(a) == polarity(b)
        and not any(map(str.isdigit, "".join({*words(a)} ^ {*words(b)})))
    )


@dataclass
class WritingResult:
    """What was written; `left_out` has the reason for each question without a reference."""

    references: list[Reference] = field(default_factory=list)
    written: int = 0
    kept: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    rejected: Counter[NuggetRejection] = field(default_factory=Counter)


ReferenceWriter = AnswerWriter | ModelExtractor


async def generate_references(
    dataset: Dataset,
    writer: ReferenceWriter,
    out: Path,
    *,
    queries: Sequence[Query],
    split: str = "test",
    resume: bool = False,
    text: bool = True,
    progress: Progress = silent,
) -> WritingResult:
    """Write references to `out`: JSON lines for `.jsonl`, else a list.

    With `resume` only what is missing is written. Without `text`, hashes replace the text of an
    extract, which readers make again.
    """
    if out.exists() and not resume:
        raise UsageError(
            f"{str(out)!r} already exists: pass --resume to add what is missing, or delete it"
        )
    dataset.require_documents("assay ground-truth")
    earlier = {each.query_id: each for each in read_references(out)} if out.exists() else {}
    result = WritingResult()
    found = await gather_for(
        queries,
        lambda query: _write(writer, query, earlier.get(query.id), dataset, split, result),
        "writing references",
        progress,
    )
    result.references = [each for each in found if each is not None]
    if not result.references:
        raise DataError(
            f"none of {len(queries)} queries has a reference, so nothing was written: "
            + "; ".join(sorted(set(result.left_out.values())))
        )
    asked = {query.id for query in queries}
    others = [each for query_id, each in earlier.items() if query_id not in asked]
    write_references(out, [*result.references, *others], text=text)
    return result


async def _write(
    writer: ReferenceWriter,
    query: Query,
    earlier: Reference | None,
    dataset: Dataset,
    split: str,
    result: WritingResult,
) -> Reference | None:
    """The reference of one question, with what an earlier file has of it; counted in `result`."""
    known = earlier or Reference(query.id, query.text)
    has_answer = bool(known.answer) or ANSWER_HASH in known.provenance
    if bool(known.facts) if writer.writes_facts else has_answer:
        result.kept += 1
        return known
    documents = ranked_documents(dataset, split, query.id)[: writer.max_documents]
    written = await unless_refused(writer.write(query, documents))
    draft = written or Draft(why="the model refused")
    result.rejected.update(draft.rejected)
    if not draft.answer and not draft.facts:
        result.left_out[query.id] = draft.why
        return known if known.answer or known.facts else None
    result.written += 1
    origin: JsonObject = {
        **known.provenance,
        **writer.origin,
        "document_ids": [document.id for document in documents],
        "dataset": dataset.name,
        "split": split,
        "created": datetime.now(UTC).date().isoformat(),
        "assay": version("agent-assay"),
    }
    known = replace(known, query=query.text, provenance=origin)
    if draft.facts:
        facts = enumerate(draft.facts, 1)
        return replace(known, facts=tuple(replace(f, id=f"{query.id}.{n}") for n, f in facts))
    best = expected_ids(dataset, split, query.id)
    return replace(known, answer=draft.answer, expected=best, highly_relevant_count=len(best))
