"""Made questions: their kinds, one question with the proof that its answer is in the documents, and
a set of them as files: a folder in BEIR's layout, or one table of JSON lines.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

import orjson

from assay.data.beir import write_beir
from assay.data.dataset import UNANSWERABLE, Dataset, Document, Fact, Query
from assay.errors import DataError, UsageError
from assay.files import atomic_write
from assay.net.json import JsonObject


class QuestionKind(StrEnum):
    """What a question asks for."""

    KNOWN_ITEM = "known-item"
    SINGLE_HOP = "single-hop"
    MULTI_HOP = "multi-hop"
    COMPARISON = "comparison"
    TEMPORAL = "temporal"
    UNANSWERABLE = UNANSWERABLE
    PARAPHRASED = "paraphrased"


NEEDS_MODEL = frozenset({QuestionKind.PARAPHRASED})
"""Kinds that no template can make."""


@dataclass(frozen=True, slots=True)
class Quote:
    """The words of a document that a question or its answer rests on."""

    document_id: str
    text: str


@dataclass(frozen=True, slots=True)
class MadeQuestion:
    """A question about documents, with what shows that it can, or cannot, be answered from them.

    Parameters:
        kind: what it asks for.
        text: the question.
        documents: the ids of the documents that a system should find; none if there is no answer.
        quotes: the words of these documents that it was made from.
        answer: the reference answer; None where no document has one, and for a known item, which
            is looked for and not answered.
        facts: what a right answer states; each is stated by a quote.
        how: the template or the model that made it.
        hops: how many documents the answer takes together.
        ambiguous: whether BM25 ranks another document as high as the right ones.
        changed: for a question without an answer: what was replaced by what.
    """

    kind: QuestionKind
    text: str
    documents: tuple[str, ...]
    quotes: tuple[Quote, ...]
    answer: str | None = None
    facts: tuple[Fact, ...] = ()
    how: str = "template"
    hops: int = 1
    ambiguous: bool = False
    changed: str = ""

    @property
    def has_reference(self) -> bool:
        """Whether answers to it can be measured, and not only rankings."""
        return self.answer is not None or self.kind is QuestionKind.UNANSWERABLE

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags for slices: `kind=...`, `hops=...`, and the plain ones that evaluations look for."""
        plain = [each for each in (UNANSWERABLE, "multi-hop") if each == str(self.kind)]
        flags = ["ambiguous"] if self.ambiguous else []
        return (f"kind={self.kind}", f"hops={self.hops}", *plain, *flags, "generated")


class Rejection(StrEnum):
    """Why a candidate was rejected, in the order of the checks."""

    NOTHING_TO_ASK = "the document has nothing to ask about"
    REFUSED = "the model refused"
    UNREADABLE = "the reply was not the JSON that was asked for"
    FALSE_QUOTE = "a quote is not in the document"
    UNSTATED = "the answer does not state its own facts"
    NAMES_DOCUMENT = "the question names the document"
    DUPLICATE = "nearly the same question exists"
    NOT_FOUND = "search does not find the document"
    UNANSWERED = "the document alone does not answer it"
    FROM_MEMORY = "the model answers it without any document"
    NOT_REWORDED = "the paraphrase has the words of the question"
    UNPROVEN = "its answer is not in the documents"
    ANSWERED = "a document may answer it after all"
    GIVEN_AWAY = "the question states its own answer"


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """A question about a document. `quotes` from the document support the facts, one for each."""

    document_id: str
    question: str
    answer: str
    facts: tuple[Fact, ...]
    quotes: tuple[str, ...]


def parse_question_kinds(names: Iterable[str], *, model: bool) -> tuple[QuestionKind, ...]:
    """The kinds of these names; for none, all that can be made with or without a model.

    Raises `UsageError` for an unknown kind, and for one that needs a model where there is none.
    """
    given = [part.strip().lower().replace("_", "-") for each in names for part in each.split(",")]
    wanted = list(dict.fromkeys(filter(None, given)))
    if unknown := [each for each in wanted if each not in set(QuestionKind)]:
        known = ", ".join(QuestionKind)
        raise UsageError(f"unknown kind of question {unknown[0]!r}; choose from: {known}")
    if not wanted:
        return tuple(each for each in QuestionKind if model or each not in NEEDS_MODEL)
    kinds = tuple(QuestionKind(each) for each in wanted)
    if not model and (needing := [each for each in kinds if each in NEEDS_MODEL]):
        raise UsageError(
            f"{needing[0]} questions are written by a model; add --provider, such as "
            "--provider ollama:llama3.1:8b, or leave the kind out"
        )
    return kinds


@dataclass
class MadeQuestions:
    """The questions of a set, and what was not made.

    `from_memory_checked` is False if there was no model that could know the answers.
    """

    questions: list[MadeQuestion] = field(default_factory=list)
    drafted: int = 0
    rejected: Counter[Rejection] = field(default_factory=Counter)
    from_memory_checked: bool = False

    def count(self, kind: QuestionKind) -> int:
        """How many questions of a kind there are."""
        return sum(each.kind is kind for each in self.questions)


TABLE = "questions.jsonl"
"""The table with the provenance of every question, also in a folder."""

_GRADE = 1


def check_output(out: Path) -> None:
    """Refuse what is there before a model is paid: nothing is ever overwritten."""
    if is_table_output(out):
        if out.exists():
            raise UsageError(f"{str(out)!r} already exists; choose another file")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{str(out)!r} already exists and is not an empty folder; choose another")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created: {error.strerror}", file=out.parent) from error


def is_table_output(out: Path) -> bool:
    """Whether the result is one table, for a service that has its documents itself."""
    return out.suffix == ".jsonl"


@dataclass(frozen=True, slots=True)
class QuestionsSummary:
    """What was made.

    Parameters:
        questions: how many.
        kinds: how many of each kind.
        ambiguous: how many keyword search finds by chance.
        drafted: how many candidates there were.
        dropped: how many were rejected, by reason.
        from_memory_checked: whether a model was asked to answer without the documents.
        documents: how many there are.
        origin: provider, model, prompts and a note.
        created: the day.
        assay: the version that made them.
    """

    questions: int
    kinds: Mapping[str, int]
    ambiguous: int
    drafted: int
    dropped: Mapping[Rejection, int]
    from_memory_checked: bool
    documents: int
    origin: Mapping[str, str]
    created: str
    assay: str

    @classmethod
    def of(
        cls, made: MadeQuestions, documents: Mapping[str, Document], origin: Mapping[str, str]
    ) -> "QuestionsSummary":
        """Of questions that were made today."""
        return cls(
            questions=len(made.questions),
            kinds=Counter(str(each.kind) for each in made.questions),
            ambiguous=sum(each.ambiguous for each in made.questions),
            drafted=made.drafted,
            dropped=made.rejected,
            from_memory_checked=made.from_memory_checked,
            documents=len(documents),
            origin=origin,
            created=datetime.now(UTC).date().isoformat(),
            assay=version("agent-assay"),
        )

    def to_json(self) -> JsonObject:
        """As `summary.json` has it."""
        return {
            "questions": self.questions,
            "kinds": dict(self.kinds),
            "ambiguous": self.ambiguous,
            "drafted": self.drafted,
            "dropped": {each.name.lower(): number for each, number in self.dropped.items()},
            "from_memory_checked": self.from_memory_checked,
            "documents": self.documents,
            **self.origin,
            "created": self.created,
            "assay": self.assay,
        }


def write_questions(
    made: MadeQuestions, documents: Mapping[str, Document], origin: Mapping[str, str], out: Path
) -> QuestionsSummary:
    """Write everything or nothing; the summary, which is also in `summary.json` of a folder."""
    check_output(out)
    if not made.questions:
        reasons = "; ".join(f"{number} times {each}" for each, number in made.rejected.items())
        why = f" ({reasons})" if reasons else ""
        raise DataError(
            f"all {made.drafted} candidates were rejected{why}, so nothing was written; try other "
            "kinds, other documents or a better model"
        )
    questions = {f"q-{place:04}": each for place, each in enumerate(made.questions, 1)}
    table = b"".join(
        orjson.dumps(_row(query_id, each, origin), option=orjson.OPT_APPEND_NEWLINE)
        for query_id, each in questions.items()
    )
    summary = QuestionsSummary.of(made, documents, origin)
    if is_table_output(out):
        atomic_write(out, table)
        return summary
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as part:
        folder = Path(part) / "data"
        write_beir(_dataset(questions, documents), folder)
        answers = (
            orjson.dumps(_answer(query_id, each, origin), option=orjson.OPT_APPEND_NEWLINE)
            for query_id, each in questions.items()
            if each.has_reference
        )
        if written := b"".join(answers):
            (folder / "answers.jsonl").write_bytes(written)
        (folder / TABLE).write_bytes(table)
        (folder / "summary.json").write_bytes(
            orjson.dumps(summary.to_json(), option=orjson.OPT_INDENT_2)
        )
        if out.exists():
            out.rmdir()
        shutil.move(folder, out)
    return summary


def _dataset(questions: Mapping[str, MadeQuestion], documents: Mapping[str, Document]) -> Dataset:
    queries = {id_: Query(id_, each.text, _tags(each)) for id_, each in questions.items()}
    judgments = {
        id_: dict.fromkeys(each.documents, _GRADE)
        for id_, each in questions.items()
        if each.documents
    }
    return Dataset("questions", documents, queries, {"test": judgments})


def _tags(question: MadeQuestion) -> tuple[str, ...]:
    model = question.how.startswith("written by a model")
    how = "written by a model" if model else question.how.partition(" ")[0]
    return (*question.tags, how)


def _row(query_id: str, question: MadeQuestion, origin: Mapping[str, str]) -> JsonObject:
    """One line of the table. Every column that is not known to `--dataset` is a tag."""
    kept = [tag for tag in _tags(question) if not tag.startswith(("kind=", "hops="))]
    return {
        "query_id": query_id,
        "query": question.text,
        "doc_ids": list(question.documents),
        "answer": question.answer,
        "kind": str(question.kind),
        "hops": question.hops,
        "tags": kept,
        "provenance": _provenance(question, origin),
    }


def _provenance(question: MadeQuestion, origin: Mapping[str, str]) -> JsonObject:
    quotes = [{"doc_id": each.document_id, "text": each.text} for each in question.quotes]
    changed = {"changed": question.changed} if question.changed else {}
    by_model = question.how.startswith("written by a model")
    return {"how": question.how, "quotes": quotes, **changed, **(origin if by_model else {})}


def _answer(query_id: str, question: MadeQuestion, origin: Mapping[str, str]) -> JsonObject:
    quotes = [each.text for each in question.quotes]
    facts: list[JsonObject] = []
    for place, fact in enumerate(question.facts):
        quote = fact.text if fact.text in quotes else quotes[min(place, len(quotes) - 1)]
        facts.append({"text": fact.text, "accept": list(fact.accept), "quote": quote})
    quoted = list(dict.fromkeys(each.document_id for each in question.quotes))
    return {
        "query_id": query_id,
        "answer": question.answer,
        "facts": facts,
        "documents": [] if question.kind is QuestionKind.UNANSWERABLE else quoted,
        "provenance": {**origin, **_provenance(question, origin)},
    }
