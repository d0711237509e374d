"""`nuggets.jsonl`: the key facts of each question, with their provenance, editable by people.

One line for each question, in the shape that tools of TREC's RAG track read:

    {"query_id": "q1", "query": "...", "provenance": {...}, "nuggets": [{"id": "q1.1",
     "text": "...", "importance": "vital", "by": "model", "documents": ["d7"], "hash": "..."}]}

The hash is of the text and importance as they were made. Where it no longer fits, or is missing, a
person has written the nugget: nobody has to remember to say so.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from assay.data.dataset import Dataset
from assay.data.text_file import Record, plain_file, records, short_repr, write_file
from assay.errors import DataError
from assay.llm.answerer import is_instruction
from assay.net.json import JsonObject
from assay.text import text_hash

MAX_LENGTH = 500
"""Characters of one nugget: a fact, not a paragraph."""

MAX_PER_QUESTION = 200
"""Nuggets of one question that a file may have: each costs a judge's attention."""

_HASH_LENGTH = 16


class Importance(StrEnum):
    """Whether an answer must state a nugget to be good, or only may."""

    VITAL = "vital"
    OKAY = "okay"


class NuggetMaker(StrEnum):
    """Who made a nugget. `UNKNOWN` where a file from elsewhere does not say."""

    MODEL = "model"
    EXTRACT = "extract"
    HUMAN = "human"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Nugget:
    """One fact; `documents` are those that it was found in."""

    id: str
    text: str
    importance: Importance
    by: NuggetMaker = NuggetMaker.HUMAN
    documents: tuple[str, ...] = ()

    @property
    def vital(self) -> bool:
        """Whether a good answer must state it."""
        return self.importance is Importance.VITAL


@dataclass(frozen=True, slots=True)
class QuestionNuggets:
    """The nuggets of one question, and how they were made."""

    query_id: str
    query: str
    nuggets: tuple[Nugget, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_people(self) -> tuple[Nugget, ...]:
        """Those that a person wrote or changed."""
        return tuple(each for each in self.nuggets if each.by is NuggetMaker.HUMAN)


def nugget_hash(text: str, importance: str) -> str:
    """What tells an edited nugget from one that is as it was made."""
    content = f"{importance}\x1f{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:_HASH_LENGTH]


def nuggets_to_json(question: QuestionNuggets) -> JsonObject:
    """A line of the file."""
    return {
        "query_id": question.query_id,
        "query": question.query,
        "facts": [_to_json(each) for each in question.nuggets],
        "provenance": dict(question.provenance),
    }


def _to_json(nugget: Nugget) -> JsonObject:
    fields: JsonObject = {
        "id": nugget.id,
        "text": nugget.text,
        "importance": nugget.importance.value,
        "by": nugget.by.value,
        "documents": list(nugget.documents),
    }
    if nugget.by is not NuggetMaker.HUMAN:
        fields["hash"] = nugget_hash(nugget.text, nugget.importance)
    return fields


def write_nuggets(path: Path, questions: Sequence[QuestionNuggets]) -> None:
    """Replace the file, all or nothing."""
    lines = (orjson.dumps(nuggets_to_json(each)) for each in questions)
    write_file(path, b"".join(line + b"\n" for line in lines))


def read_nuggets(path: Path, *, partial: bool = False) -> list[QuestionNuggets]:
    """The questions of a file with their nuggets.

    Parameters:
        path: the file.
        partial: whether the file may have no nugget yet, because it is still being made.

    Raises:
        DataError: a line is wrong, an id is used twice, or there is no nugget.
    """
    if not path.is_file():
        raise DataError("no such file; make it with: assay ground-truth --nuggets", file=path)
    questions: dict[str, tuple[QuestionNuggets, int]] = {}
    lines: dict[str, int] = {}
    for record in records(plain_file(path)):
        question = _question(record)
        if question.query_id in questions:
            raise record.refusal(
                f"query {question.query_id!r} has nuggets on line {questions[question.query_id][1]}"
                " already; keep one of the two lines"
            )
        for nugget in question.nuggets:
            if nugget.id in lines:
                raise record.refusal(
                    f"nugget id {nugget.id!r} was used on line {lines[nugget.id]} already; give "
                    "this nugget another id, or none"
                )
            lines[nugget.id] = record.number
        questions[question.query_id] = question, record.number
    if not lines and not partial:
        raise DataError(
            "has no nuggets; make some with assay ground-truth --nuggets, or write them: "
            '{"query_id": "q1", "query": "...", "nuggets": [{"text": "...", "importance": '
            '"vital"}]}',
            file=path,
        )
    return [question for question, _ in questions.values()]


def nuggets_from_json(fields: JsonObject, file: Path) -> QuestionNuggets:
    """A question as `nuggets_to_json` wrote it; `file` is for messages."""
    return _question(Record(str(file), 0, fields, lined=True))


def _question(record: Record) -> QuestionNuggets:
    key = "qid" if "query_id" not in record.fields and "qid" in record.fields else "query_id"
    query_id = record.identifier(key)
    given = record.fields.get("facts", record.fields.get("nuggets"))
    if given is None and isinstance(record.fields.get("answer"), str):
        given = []  # a reference answer alone
    if not isinstance(given, list):
        raise record.refusal(f"'facts' must be a list, as [...], got {short_repr(given)}")
    if len(given) > MAX_PER_QUESTION:
        raise record.refusal(f"has {len(given)} nuggets; at most {MAX_PER_QUESTION} are allowed")
    provenance = record.fields.get("provenance", {})
    if not isinstance(provenance, dict):
        raise record.refusal("'provenance' must be an object, as {...}")
    if not isinstance(provenance.get("documents", {}), dict):
        raise record.refusal("'provenance': 'documents' must be an object, as {...}")
    made = list(_nuggets(record, query_id, given, bool(provenance)))
    return QuestionNuggets(query_id, record.text("query"), tuple(made), provenance)


def _nuggets(
    record: Record, query_id: str, given: Sequence[object], known: bool
) -> Iterator[Nugget]:
    taken = {str(each.get("id")) for each in given if isinstance(each, dict)}
    for place, fields in enumerate(given, start=1):
        if not isinstance(fields, dict):
            raise record.refusal(
                f"nugget {place} must be an object with text and importance, got "
                f"{short_repr(fields)}"
            )
        yield _nugget(record, fields, place, _id_for(query_id, place, taken), known)


def _id_for(query_id: str, place: int, taken: set[Any]) -> str:
    """An id for a nugget that a person added without one."""
    while (made := f"{query_id}.{place}") in taken:
        place += 1
    taken.add(made)
    return made


def _nugget(record: Record, fields: JsonObject, place: int, own: str, known: bool) -> Nugget:
    def refusal(what: str) -> DataError:
        return record.refusal(f"nugget {place}: {what}")

    name = fields.get("id") or own
    text, grade = fields.get("text"), fields.get("importance")
    if not isinstance(name, str):
        raise refusal(f"'id' must be a string, got {short_repr(name)}")
    try:
        importance, checked = check_nugget(text, grade)
        maker = NuggetMaker(fields.get("by", NuggetMaker.HUMAN if known else NuggetMaker.UNKNOWN))
    except ValueError as error:
        raise refusal(str(error)) from None
    documents = fields.get("documents", [])
    if not isinstance(documents, list) or not all(isinstance(each, str) for each in documents):
        raise refusal(f"'documents' must be a list of document ids, got {short_repr(documents)}")
    made = maker in (NuggetMaker.MODEL, NuggetMaker.EXTRACT)
    if made and fields.get("hash") != nugget_hash(checked, importance):
        maker = NuggetMaker.HUMAN
    return Nugget(name, checked, importance, maker, tuple(documents))


def check_nugget(text: object, importance: object) -> tuple[Importance, str]:
    """Importance and text of a nugget; `ValueError` says what is wrong with them."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"'text' must be a fact in words, got {short_repr(text)}")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"'text' has {len(text)} characters, at most {MAX_LENGTH} are allowed")
    if is_instruction(text):
        raise ValueError(
            f"'text' reads as an instruction to the judge and not as a fact: {short_repr(text)}; "
            "delete it"
        )
    grade = str(importance).strip().lower()
    if grade not in tuple(Importance):
        raise ValueError(f"'importance' must be vital or okay, got {short_repr(importance)}")
    return Importance(grade), " ".join(text.split())


def load_nuggets(path: Path, dataset: Dataset) -> dict[str, QuestionNuggets]:
    """The nuggets for a data set, by query id.

    Raises `DataError` for a file that was made for other data: none of its questions is in the
    data set, one has another text there, or a document that nuggets come from is missing.
    """
    questions = read_nuggets(path)
    known = [each for each in questions if each.query_id in dataset.queries]
    if not known:
        origin = next((each.provenance.get("dataset") for each in questions), None)
        made = f", which was made for {origin!r}," if origin else ""
        raise DataError(
            f"has no question of data set {dataset.name!r}: this file{made} begins with query "
            f"{questions[0].query_id!r}; use the nuggets of this data set",
            file=path,
        )
    for each in known:
        _check_same_data(each, dataset, path)
    return {each.query_id: each for each in known}


def _check_same_data(question: QuestionNuggets, dataset: Dataset, path: Path) -> None:
    asked = dataset.queries[question.query_id].text
    if question.query and question.query.split() != asked.split():
        raise DataError(
            f"query {question.query_id!r} is {short_repr(question.query)} here and "
            f"{short_repr(asked)} in {dataset.name!r}: these are nuggets for other questions",
            file=path,
        )
    named = {doc_id for each in question.nuggets for doc_id in each.documents}
    missing = named - dataset.documents.keys() if dataset.documents else set()
    if missing:
        raise DataError(
            f"{dataset.name!r} has no document {min(missing)!r}, which nuggets of query "
            f"{question.query_id!r} come from; use the nuggets of this data set",
            file=path,
        )


def changed_documents(questions: Mapping[str, QuestionNuggets], dataset: Dataset) -> list[str]:
    """The documents that are not what they were when nuggets were extracted from them."""
    return [
        doc_id
        for each in questions.values()
        for doc_id, recorded in each.provenance.get("documents", {}).items()
        if doc_id in dataset.documents
        and recorded != text_hash(dataset.documents[doc_id].full_text)
    ]
