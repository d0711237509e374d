"""Documents, queries, graded relevance judgments and reference answers."""

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from assay.errors import UsageError, did_you_mean
from assay.text import normalize

# query id -> document id -> grade; a grade of 0 or less is judged and not relevant.
Judgments = Mapping[str, Mapping[str, int]]

# The tag of queries that the documents cannot answer: for agents that answer, not for rankings.
UNANSWERABLE = "unanswerable"


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """One document that a system may find: `Document("d1", "Tea", "Steep it for 3 minutes.")`."""

    id: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Document({self.id!r}, title={self.title[:60]!r}, text={self.text[:60]!r})"

    @property
    def full_text(self) -> str:
        """Title and text, as they are searched together."""
        return f"{self.title} {self.text}".strip()


@dataclass(frozen=True, slots=True)
class Query:
    """One question: `Query("q1", "How long does tea steep?", tags=("multi-hop",))`.

    Reports have figures for each tag. `trial` counts from 1 if a run asks it repeatedly, else 0.
    """

    id: str
    text: str
    tags: tuple[str, ...] = ()
    trial: int = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that a correct answer must state; any text of `accept` in the answer states it."""

    text: str
    accept: tuple[str, ...]

    @classmethod
    def read(cls, value: object, answer: str | None) -> "Fact":
        """A fact of a file, a text or `{"text": ..., "accept": [...]}`; ValueError for the rest.

        Its own text is a wording if there is no other, or if the reference `answer` has it. Not if
        that may be a label ("the deadline" of "3 May"), which wrong answers have too: if the answer
        has another wording, or if others have a number and the text has none. The "no" that an
        answer begins with is not a label.
        """
        fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"text": value}
        text, given = fields.get("text"), fields.get("accept") or []
        texts = [text, *given] if isinstance(given, list) else []
        if not texts or not all(isinstance(each, str) and each.strip() for each in texts):
            raise ValueError(f'a fact is {{"text": ..., "accept": [...]}}, got {value!r:.80}')
        text, *accept = texts
        stated, own = normalize(answer or ""), normalize(text)
        others = [normalize(wording) for wording in accept]
        is_value = any(map(str.isdigit, "".join(others))) and not any(map(str.isdigit, own))
        label = is_value or any(wording in stated for wording in others)
        whole = re.compile(rf"(?<!\w)(?<!\d[.,:/]){re.escape(own)}(?!\w)(?![.,:/]\d)")
        replies = own in ("yes", "no") and whole.match(stated)
        if replies or not accept or (not label and whole.search(stated)):
            accept = list(dict.fromkeys((*accept, text)))
        return cls(text, tuple(accept))


@dataclass(frozen=True, slots=True)
class ReferenceAnswer:
    """What a correct answer says; `answer` is None if the documents hold no answer.

    `documents` are the ids of the documents that the answer is taken from.
    """

    query_id: str
    answer: str | None
    facts: tuple[Fact, ...] = ()
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Dataset:
    """Documents, queries and relevance judgments: what an evaluation needs.

    `load_dataset("notes")` reads one, `Dataset.from_dicts` makes one from values in memory.

    Attributes:
        name: What reports call it.
        documents: The documents by id; empty if only the service under test has them.
        queries: The queries by id, in the order of their file, which sampling relies on.
        judgments: For each split (`test`, `dev`, `train`) query id -> document id -> grade.
        answers: Reference answers by query id, if the data set has any.
        warnings: What was odd in the files and could be used all the same.
        judged_by: Which of the judgments a model made; empty if people made all.
    """

    name: str
    documents: Mapping[str, Document]
    queries: Mapping[str, Query]
    judgments: Mapping[str, Judgments]
    answers: Mapping[str, ReferenceAnswer] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    judged_by: str = ""

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} ({len(judged):,})" for name, judged in self.judgments.items())
        documents, queries, answers = map(len, (self.documents, self.queries, self.answers))
        parts = [
            f"{documents:,} document{'s' * (documents != 1)}",
            f"{queries:,} {'query' if queries == 1 else 'queries'}",
            f"splits {splits or 'none'}",
            f"{answers:,} answer{'s' * (answers != 1)}",
        ]
        return f"<Dataset {self.name}: {', '.join(parts if answers else parts[:-1])}>"

    def queries_in(self, split: str) -> list[Query]:
        """The queries of a split with a relevant document: those a ranking can be measured on."""
        judged = self.judgments_in(split)
        return [
            query
            for query in self.queries.values()
            if any(grade > 0 for grade in judged.get(query.id, {}).values())
        ]

    def count_without_relevant(self, split: str) -> int:
        """How many judged queries have no relevant document: no mean counts them."""
        judged = self.judgments_in(split)
        return len(self.queries.keys() & judged.keys()) - len(self.queries_in(split))

    def questions_in(self, split: str) -> list[Query]:
        """The queries that answers can be measured on: with a reference answer, if any has one.

        A question that the documents cannot answer is included: whether an agent admits it is part
        of what is measured.
        """
        own = self.judgments_in(split)
        if not self.answers:
            return self.queries_in(split)
        return [
            query
            for query in self.queries.values()
            if (reference := self.answers.get(query.id)) is not None
            and (reference.answer is None or query.id in own)
        ]

    def judgments_in(self, split: str) -> Judgments:
        """The judgments of one split; `UsageError` if there is no such split."""
        if split not in self.judgments:
            known = ", ".join(sorted(self.judgments)) or f"none; write qrels/{split}.tsv"
            hint = did_you_mean(split, self.judgments)
            raise UsageError(
                f"data set {self.name!r} has no split {split!r}; it has: {known}{hint}"
            )
        return self.judgments[split]

    @property
    def corpus_ids(self) -> Set[str] | None:
        """The ids of all documents that exist; None if the data set comes without documents."""
        return self.documents.keys() if self.documents else None

    @cached_property
    def known_ids(self) -> Set[str]:
        """The ids that answers are recognized by: of all documents, else of the judged ones."""
        if self.documents:
            return self.documents.keys()
        return {d for split in self.judgments.values() for grades in split.values() for d in grades}

    def require_documents(self, what: str) -> None:
        """Raise `UsageError` if there are no documents, which `what` needs."""
        if not self.documents:
            raise UsageError(
                f"{what} needs the texts of documents, and data set {self.name!r} has only "
                "questions and ids; use a data set with documents (corpus.jsonl)"
            )

    @classmethod
    def from_dicts(
        cls,
        queries: object,
        judgments: object,
        documents: object = None,
        *,
        answers: Mapping[str, str | None] | None = None,
        name: str = "memory",
        split: str = "test",
    ) -> "Dataset":
        """A data set from dictionaries, lists of dictionaries or data frames.

            >>> Dataset.from_dicts({"q1": "How long does tea steep?"}, {"q1": {"d1": 1}})
            <Dataset memory: 0 documents, 1 query, splits test (1)>

        `queries` may also be rows with `query_id`, `query` and `tags`; `judgments` `{"q1": ["d1"]}`
        or rows with `query_id`, `doc_id` and `grade`; `documents` texts or `{"title", "text"}` by
        id, rows with `doc_id`, `title` and `text`, or None for a service that has its own.
        `answers` are reference answers by query id, None for a question without an answer.
        """
        from assay.data.beir import dataset_from_dicts

        return dataset_from_dicts(queries, judgments, documents, answers, name, split)

    @classmethod
    def from_rows(
        cls, rows: object, *, columns: Mapping[str, str] | None = None, name: str = "memory"
    ) -> "Dataset":
        """A data set from one table of questions: a data frame or an iterable of dictionaries.

            >>> Dataset.from_rows([{"query": "How long does tea steep?", "doc_ids": "d1;d7"}])
            <Dataset memory: 0 documents, 1 query, splits test (1)>

        Rows have the columns of a file that `--dataset` takes; `columns` names those that are
        called otherwise, `{"query": "prompt"}`.
        """
        from assay.data.question_table import dataset_of_rows
        from assay.data.table import memory_rows

        return dataset_of_rows(memory_rows(rows), name, "rows", columns)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a score depends on, so that two runs are known to be comparable."""
        return self._kept(self.labels_fingerprint, lambda: self._hash(documents=True))

    @cached_property
    def corpus_fingerprint(self) -> str:
        """A hash of the documents alone."""
        return self._kept("documents", lambda: self._hash(documents=True, labels=False))

    @cached_property
    def labels_fingerprint(self) -> str:
        """A hash of queries and judgments without the documents, which may change under them."""
        return self._hash(documents=False)

    def _kept(self, rest: str, compute: Callable[[], str]) -> str:
        """The hash from the file of documents on the disk, if it was computed before."""
        keep = getattr(self.documents, "cached_fingerprint", None)
        found: str = compute() if keep is None else keep(rest, compute)
        return found

    def _hash(self, *, documents: bool, labels: bool = True) -> str:
        digest = hashlib.sha256()
        for document in self.documents.values() if documents else ():
            feed_digest(digest, (document.id, document.title, document.text))
        for query in self.queries.values() if labels else ():
            feed_digest(digest, (query.id, query.text))
        # Sorted, because the order of files in a folder differs from system to system.
        for split in sorted(self.judgments) if labels else ():
            for query_id, grades in self.judgments[split].items():
                feed_digest(digest, (split, query_id, *(f"{d}={g}" for d, g in grades.items())))
        return digest.hexdigest()

    @cached_property
    def references_fingerprint(self) -> str:
        """A hash of the reference answers: runs are comparable if they had the same ones."""
        digest = hashlib.sha256()
        # A lone surrogate, which JSON may hold, is no UTF-8 and must not end a run.
        for reference in self.answers.values():
            digest.update(repr(reference).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def feed_digest(digest: "hashlib._Hash", fields: Iterable[str]) -> None:
    """Add fields to a hash, so that no two records give the same bytes."""
    digest.update("\x1f".join(fields).encode("utf-8", "surrogatepass") + b"\x1e")


def sample_dataset(
    dataset: Dataset, queries: int, *, split: str = "test", documents: int = 1000, seed: int = 42
) -> Dataset:
    """Queries of one split, drawn at random, with all documents that are judged for them.

    Other documents are added until there are `documents`. Scores on the sample cannot be compared
    with those on the whole: the fewer documents, the easier.
    """
    asked = {query.id for query in (*dataset.queries_in(split), *dataset.questions_in(split))}
    valid = [query_id for query_id in dataset.queries if query_id in asked]
    if not 1 <= queries <= len(valid):
        raise UsageError(
            f"queries must be 1 to {len(valid):,}, those of split {split!r} that can be measured, "
            f"got {queries:,}"
        )
    draw = random.Random(seed)
    chosen = set(draw.sample(valid, queries))
    judgments = {
        query_id: grades
        for query_id, grades in dataset.judgments_in(split).items()
        if query_id in chosen
    }
    answers = {key: each for key, each in dataset.answers.items() if key in chosen}
    needed = {doc_id for grades in judgments.values() for doc_id in grades}
    needed |= {doc_id for reference in answers.values() for doc_id in reference.documents}
    kept = {doc_id for doc_id in needed if doc_id in dataset.documents}
    others = [doc_id for doc_id in dataset.documents if doc_id not in kept]
    kept |= set(draw.sample(others, max(0, min(documents - len(kept), len(others)))))
    return Dataset(
        f"{dataset.name}-{queries}",
        {doc_id: each for doc_id, each in dataset.documents.items() if doc_id in kept},
        {query_id: each for query_id, each in dataset.queries.items() if query_id in chosen},
        {split: judgments},
        answers,
        judged_by=f"in {dataset.name}, {dataset.judged_by}" if dataset.judged_by else "",
    )
