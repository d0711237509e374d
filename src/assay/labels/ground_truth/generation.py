"""Generates a reference answer for each question from its most relevant documents.

Every answer goes to a journal at once; the result file is written at the end.
"""

import random
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import orjson

from assay.data.dataset import Dataset, Document, Query
from assay.data.journal import Journal, check_writable
from assay.data.text_file import write_file
from assay.errors import DataError, ProviderError, ProviderFailure, UsageError
from assay.labels.ground_truth.records import (
    GroundTruth,
    extract,
    read_records,
    record_from_json,
    record_to_json,
)
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
from assay.net.gather import gather
from assay.net.json import JsonObject
from assay.progress import Progress, silent

SELECTED = ("PLAIN-2630", "PLAIN-2660", "PLAIN-2510", "PLAIN-2430", "PLAIN-2690")
"""The five questions of NFCorpus that the tests of retrieval and answers are about."""

MULTI_HOP = "multi-hop"
"""The tag of questions whose answer takes several documents together."""
NO_EXTRACT = (
    "the question takes several documents together, and an extract quotes them one by one; choose "
    "a provider with a model, or write the answer yourself"
)

MIN_DOCUMENTS, MAX_DOCUMENTS = 3, 5


def choose_queries(
    dataset: Dataset, split: str, ids: Sequence[str] = (), number: int | None = None, seed: int = 42
) -> list[Query]:
    """The queries of `ids`; or `number` of them, drawn as an evaluation draws; or all judged ones.

    On the test split of NFCorpus the default is the five that the tests ask.
    """
    judged = {query.id: query for query in dataset.queries_in(split)}
    if not ids and number is None and dataset.name == "nfcorpus" and split == "test":
        ids = SELECTED
    if ids:
        return [_judged(query_id, judged, dataset, split) for query_id in dict.fromkeys(ids)]
    valid = list(judged.values())
    if number is None:
        return valid
    if not 1 <= number <= len(valid):
        raise UsageError(
            f"--num-queries must be from 1 to {len(valid)}, the queries of split {split!r} of "
            f"{dataset.name!r} that have a relevant document, got {number!r}"
        )
    return random.Random(seed).sample(valid, number)


def _judged(query_id: str, judged: dict[str, Query], dataset: Dataset, split: str) -> Query:
    if query_id in judged:
        return judged[query_id]
    known = query_id in dataset.queries
    why = f"has no relevant document in split {split!r}" if known else "is not in the data set"
    raise UsageError(f"query {query_id!r} {why}; see the ids in queries.jsonl of {dataset.name!r}")


def expected_ids(dataset: Dataset, split: str, query_id: str) -> tuple[str, ...]:
    """The documents of the highest grade that the query has, in the order of its judgments."""
    grades = _relevant(dataset, split, query_id)
    best = max(grades.values())
    return tuple(doc_id for doc_id, grade in grades.items() if grade == best)


def source_documents(dataset: Dataset, split: str, query_id: str, most: int) -> list[Document]:
    """The most relevant that the corpus holds, for a reference answer."""
    if not MIN_DOCUMENTS <= most <= MAX_DOCUMENTS:
        raise UsageError(
            f"the number of documents per answer must be from {MIN_DOCUMENTS} to {MAX_DOCUMENTS}, "
            f"got {most!r}"
        )
    return ranked_documents(dataset, split, query_id)[:most]


def ranked_documents(dataset: Dataset, split: str, query_id: str) -> list[Document]:
    """The relevant documents with text: by grade, then in the order of the judgments."""
    grades = _relevant(dataset, split, query_id)
    ranked = sorted(grades, key=lambda doc_id: -grades[doc_id])  # stable, so ties keep their order
    found = [dataset.documents[doc_id] for doc_id in ranked if doc_id in dataset.documents]
    return [document for document in found if document.full_text]


def _relevant(dataset: Dataset, split: str, query_id: str) -> dict[str, int]:
    judged = dataset.judgments_in(split).get(query_id, {})
    return {doc_id: grade for doc_id, grade in judged.items() if grade > 0}


_TOKENS = 500


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """`text` is empty if the documents have no answer; `cut` if the limit was reached."""

    text: str
    cut: bool = False


class ReferenceWriter(Protocol):
    """Writes reference answers."""

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
    origin = writer_origin(
        NO_MODEL,
        (),
        "An extract: a sentence of each document as it stands, chosen by the words that it shares "
        "with the question and by its place. No model and no person wrote or checked it.",
    )

    async def write(self, question: str, documents: Sequence[Document]) -> WrittenAnswer:
        """A sentence of each document."""
        return WrittenAnswer(extract(question, documents))


class ModelWriter:
    """Has a language model write the answer from the documents."""

    no_answer = "the documents do not contain the answer, according to the model"

    def __init__(self, provider: LLMProvider, max_tokens: int = _TOKENS) -> None:
        self._provider = provider
        self._max_tokens = max_tokens
        note = "Written by a language model from the documents; no person checked it."
        self.origin = writer_origin(provider.name, ("ground_truth_answer",), note)

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
        documents=numbered("document", code, texts),
        question=f"Question:\n{delimited('question', code, question)}",
    )


# An existing answer is kept if these are the same.
_ORIGIN = ("provider", "model", "prompt", "document_ids")


@dataclass(frozen=True, slots=True)
class GenerationTask:
    """Which questions of which split, and how many documents are used for each."""

    dataset: Dataset
    split: str
    queries: Sequence[Query]
    documents: int = MAX_DOCUMENTS


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """`left_out` has the reason for each query without an answer."""

    truths: list[GroundTruth]
    written: int
    kept: int
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def cut(self) -> list[str]:
        """Queries whose answer reached the limit of tokens."""
        return [each.query_id for each in self.truths if each.provenance.get("cut")]


async def generate_ground_truth(
    task: GenerationTask,
    writer: ReferenceWriter,
    out: Path,
    *,
    resume: bool = False,
    text: bool = True,
    progress: Progress = silent,
) -> GenerationResult:
    """Write reference answers to `out`.

    If the model fails or the budget is used up, the answers so far stay in the journal.

    Parameters:
        task: the questions.
        writer: who writes the answers.
        out: the result file.
        resume: keep answers of `out` and its journal that have the same origin, or none (those
            were written by a person).
        text: False writes hashes in place of questions and answers.
    """
    if not text and not isinstance(writer, ExtractWriter):
        raise UsageError(
            "only extracts can be omitted from the file, because only they can be "
            "recreated from the documents; choose the provider 'extractive', or keep the text"
        )
    check_writable(out)
    journal = Journal(out)
    earlier = _earlier(out, journal, resume)
    # Text that may not be in the file must not be in its journal; making it again costs nothing.
    run = _Generation(task, writer, journal if text else None, progress)
    await run.write(earlier)
    truths = [run.done[query.id] for query in task.queries if query.id in run.done]
    if not truths:
        raise DataError(
            f"none of {len(task.queries)} queries has a reference answer, so nothing was written: "
            + "; ".join(sorted(set(run.left_out.values())))
        )
    others = [each for query_id, each in earlier.items() if query_id not in run.asked]
    records = [record_to_json(each, text=text) for each in [*truths, *others]]
    write_file(out, orjson.dumps(records, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    journal.remove()
    return GenerationResult(truths, run.written, len(truths) - run.written, run.left_out)


class _Generation:
    def __init__(
        self,
        task: GenerationTask,
        writer: ReferenceWriter,
        journal: Journal | None,
        progress: Progress,
    ) -> None:
        self.asked = {query.id for query in task.queries}
        self.done: dict[str, GroundTruth] = {}
        self.left_out: dict[str, str] = {}
        self.written = 0
        self._task = task
        self._writer = writer
        self._journal = journal
        self._progress = progress

    async def write(self, earlier: Mapping[str, GroundTruth]) -> None:
        left: list[Coroutine[Any, Any, None]] = []
        for query in self._task.queries:
            known = earlier.get(query.id)
            if known is not None and self._is_current(known, query):
                self.done[query.id] = known
            else:
                left.append(self._one(query))
        self._report()
        await gather(left)

    async def _one(self, query: Query) -> None:
        sources = self._sources(query)
        written = WrittenAnswer("")
        try:
            why = self._refusal(query)
            if not why:
                written = await self._writer.write(query.text, sources)
                why = "" if written.text else self._writer.no_answer
        except ProviderError as error:
            if error.kind is not ProviderFailure.REFUSAL:
                raise
            why = str(error)
        if why:
            self.left_out[query.id] = why
        else:
            truth = self._truth(query, written.text, cut=written.cut)
            if self._journal:
                self._journal.append(record_to_json(truth))
            self.done[query.id] = truth
            self.written += 1
        self._report()

    def _refusal(self, query: Query) -> str:
        """Sentences of single documents, side by side, do not answer what takes them together."""
        multi_hop = MULTI_HOP in query.tags
        return NO_EXTRACT if multi_hop and isinstance(self._writer, ExtractWriter) else ""

    def _truth(self, query: Query, answer: str, *, cut: bool) -> GroundTruth:
        expected = expected_ids(self._task.dataset, self._task.split, query.id)
        provenance = {
            **self._origin(query),
            "dataset": self._task.dataset.name,
            "split": self._task.split,
            "created": datetime.now(UTC).date().isoformat(),
            "assay": version("agent-assay"),
            **({"cut": True} if cut else {}),
        }
        return GroundTruth(query.id, query.text, answer, expected, len(expected), provenance)

    def _origin(self, query: Query) -> JsonObject:
        ids = [document.id for document in self._sources(query)]
        return {**self._writer.origin, "document_ids": ids}

    def _sources(self, query: Query) -> list[Document]:
        task = self._task
        return source_documents(task.dataset, task.split, query.id, task.documents)

    def _is_current(self, known: GroundTruth, query: Query) -> bool:
        if not known.ground_truth_answer:
            return False
        origin = self._origin(query)
        same = all(known.provenance.get(key) == origin[key] for key in _ORIGIN)
        return not known.provenance or same

    def _report(self) -> None:
        done = len(self.done) + len(self.left_out)
        self._progress("writing reference answers", done, len(self._task.queries))


def _earlier(out: Path, journal: Journal, resume: bool) -> dict[str, GroundTruth]:
    if resume:
        journaled = [
            record_from_json(fields, journal.path, place)
            for place, fields in enumerate(journal.read(), 1)
        ]
        known = [*(read_records(out) if out.exists() else []), *journaled]
        return {truth.query_id: truth for truth in known}
    refuse_existing("answers", out, journal.path)
    return {}


def refuse_existing(what: str, *paths: Path) -> None:
    """Raise `UsageError` for a file that is there: it holds `what` of an earlier run."""
    for path in paths:
        if path.exists():
            raise UsageError(
                f"{str(path)!r} already exists: pass --resume to keep its {what} and add the "
                "missing ones; to start over, delete it or choose another --out"
            )
