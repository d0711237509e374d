"""References: what a right answer says, as a text, as facts (vital or okay), or as both.

One record a question, in a JSON list or in JSON lines, with who made it:

    {"query_id": "q1", "query": "...", "answer": "...", "facts": [{"text": "...", "importance":
     "vital", "by": "model", "documents": ["d7"], "hash": "..."}], "provenance": {...}}

A fact that a model proposed is also called a nugget. Its hash is of the text and importance as they
were made: if it no longer fits, a person has edited the fact, and nobody has to remember to say so.
If a text may not be redistributed, the answer is null and the provenance has the hashes of the
texts, which `load_references` makes again from the reader's copy of the data.
"""

import codecs
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from assay.data.dataset import Dataset, Document, Query
from assay.data.text_file import short_repr, write_file
from assay.errors import DataError
from assay.files import read_file
from assay.llm.answerer import extract_finding, is_instruction
from assay.llm.passages import Passage
from assay.net.json import JsonObject, parse_json
from assay.text import text_hash

MAX_FACT = 500  # characters of one fact: not a paragraph
MAX_FACTS = 200  # facts of one question: each costs a judge's attention
QUERY_HASH = "query_text_sha256"
ANSWER_HASH = "ground_truth_answer_sha256"
_REMEDY = "write references with: assay ground-truth"
# The keys of ground_truth.json, of TREC's RAG track and of earlier versions.
_KEYS = {
    "qid": "query_id",
    "query_text": "query",
    "ground_truth_answer": "answer",
    "nuggets": "facts",
    "expected_document_ids": "expected",
}


class Importance(StrEnum):
    """Whether an answer must state a fact to be good, or only may."""

    VITAL = "vital"
    OKAY = "okay"


class NuggetMaker(StrEnum):
    """Who made a fact. `UNKNOWN` if a file from elsewhere does not say."""

    MODEL = "model"
    EXTRACT = "extract"
    HUMAN = "human"
    UNKNOWN = "unknown"


def _fact_text(text: str) -> str:
    if is_instruction(text):
        raise ValueError("reads as an instruction to the judge and not as a fact; delete it")
    if not (plain := " ".join(text.split())):
        raise ValueError("must be a fact, not blank")
    return plain


FactText = Annotated[str, Field(max_length=MAX_FACT), AfterValidator(_fact_text)]


@dataclass(frozen=True, slots=True)
class Nugget:
    """One fact; `documents` are those that it was found in."""

    id: str
    text: FactText
    importance: Importance
    by: NuggetMaker = NuggetMaker.HUMAN
    documents: tuple[str, ...] = ()

    @property
    def vital(self) -> bool:
        """Whether a good answer must state it."""
        return self.importance is Importance.VITAL

    @property
    def hash(self) -> str:
        """What tells an edited fact from one that is as it was made."""
        return nugget_hash(self.text, self.importance)


def nugget_hash(text: str, importance: str) -> str:
    """The hash of a fact as it was made."""
    content = f"{importance}\x1f{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a right answer to one question says, and how that was made.

    `expected` are the documents of the highest grade; `answer` is empty if there is none, or its
    text was left out.
    """

    query_id: Annotated[str, Field(min_length=1, pattern=r"\S")]
    query: str = ""
    answer: str = ""
    facts: Annotated[tuple[Nugget, ...], Field(max_length=MAX_FACTS)] = ()
    expected: tuple[str, ...] = ()
    highly_relevant_count: Annotated[int, Field(ge=0)] = 0
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """The documents that the answer was written from."""
        return tuple(self.provenance.get("document_ids", ()))


_REFERENCE = TypeAdapter(Reference)


def reference_to_json(reference: Reference, *, text: bool = True) -> JsonObject:
    """A record of the file; without `text`, hashes replace question and answer."""
    facts = [
        asdict(fact) | ({} if fact.by is NuggetMaker.HUMAN else {"hash": fact.hash})
        for fact in reference.facts
    ]
    provenance = dict(reference.provenance)
    if facts and not reference.answer:
        named = {"query_id": reference.query_id, "query": reference.query}
        return {**named, "facts": facts, "provenance": provenance}
    if not text and reference.answer:
        provenance[QUERY_HASH] = text_hash(reference.query)
        provenance[ANSWER_HASH] = text_hash(reference.answer)
    return {
        "query_id": reference.query_id,
        "query_text": reference.query if text and reference.query else None,
        "ground_truth_answer": reference.answer if text and reference.answer else None,
        "expected_document_ids": list(reference.expected),
        "highly_relevant_count": reference.highly_relevant_count,
        **({"facts": facts} if facts else {}),
        "provenance": provenance,
    }


def write_references(path: Path, references: Sequence[Reference], *, text: bool = True) -> None:
    """Replace the file, all or nothing: JSON lines for `.jsonl`, else a list."""
    records = [reference_to_json(each, text=text) for each in references]
    if path.suffix == ".jsonl":
        encoded = (orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in records)
        write_file(path, b"".join(encoded))
    else:
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        write_file(path, orjson.dumps(records, option=options))


def read_references(path: Path) -> list[Reference]:
    """The records of a file as they are; `DataError` if one is wrong, or a query is there twice."""
    found: dict[str, Reference] = {}
    for place, fields in _entries(path):
        reference = _parse_reference(fields, path, place)
        if found.setdefault(reference.query_id, reference) is not reference:
            what = f"query {reference.query_id!r} is there twice; delete one"
            raise DataError(f"{place}: {what}", file=path)
    return list(found.values())


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        content = read_file(path).removeprefix(codecs.BOM_UTF8).strip()
        if content.startswith(b"["):
            yield from ((f"record {n}", each) for n, each in enumerate(parse_json(content), 1))
            return
        for number, line in enumerate(content.splitlines(), 1):
            if line.strip():
                yield f"line {number}", parse_json(line)
    except (OSError, orjson.JSONDecodeError) as error:
        what = "cannot be read" if isinstance(error, OSError) else "is not valid JSON"
        raise DataError(f"{what}: {error}; {_REMEDY}", file=path) from None


def _parse_reference(fields: Any, path: Path, place: str) -> Reference:
    if not isinstance(fields, dict):
        raise DataError(f"{place} must be an object, got {short_repr(fields)}", file=path)
    given = {_KEYS.get(key, key): value for key, value in fields.items() if value is not None}
    facts = given.get("facts", [])
    if isinstance(facts, list) and all(isinstance(each, dict) for each in facts):
        edited = "human" if given.get("provenance") else "unknown"
        # Facts that a person added need no id.
        given["facts"] = [
            {"id": f"{given.get('query_id')}.{number}"} | _with_maker(each, edited)
            for number, each in enumerate(facts, start=1)
        ]
    try:
        return _REFERENCE.validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ")
        got = short_repr(first["input"])
        raise DataError(f"{place}: {where}: {what}, got {got}", file=path) from None


def _with_maker(fact: JsonObject, edited: str) -> JsonObject:
    importance = str(fact.get("importance", "")).strip().lower()
    maker = fact.get("by", edited)
    made = maker in (NuggetMaker.MODEL, NuggetMaker.EXTRACT)
    if made and fact.get("hash") != nugget_hash(str(fact.get("text")), importance):
        maker = NuggetMaker.HUMAN
    return {**fact, "importance": importance, "by": maker}


def reference_kinds(path: str | Path) -> frozenset[str]:
    """reference_kinds("ground_truth.json")  # {"answers"}; of facts: {"facts"}; or both"""
    file = Path(path)
    return _kinds(file, file.stat().st_mtime_ns if file.exists() else 0)


@lru_cache(maxsize=32)
def _kinds(path: Path, _modified: int) -> frozenset[str]:
    found = set()
    for each in read_references(path):
        found |= {"answers"} if each.answer or ANSWER_HASH in each.provenance else set()
        found |= {"facts"} if each.facts else set()
    if not found:
        raise DataError(f"has neither answers nor facts; {_REMEDY}", file=path)
    return frozenset(found)


def load_references(path: Path, dataset: Dataset) -> dict[str, Reference]:
    """The references for a data set by query id, with the texts that the file leaves out.

    Raises `DataError` for a file that was made for other data.
    """
    references = read_references(path)
    known = {each.query_id: each for each in references if each.query_id in dataset.queries}
    if not known:
        origin = next((each.provenance.get("dataset") for each in references), None)
        made = f"; it was made for {origin!r}" if origin else ""
        raise DataError(f"has no question of data set {dataset.name!r}{made}", file=path)
    for each in known.values():
        _require_same_data(each, dataset.queries[each.query_id], dataset, path)
    return {query_id: _with_text(each, dataset, path) for query_id, each in known.items()}


def _require_same_data(reference: Reference, query: Query, dataset: Dataset, path: Path) -> None:
    if reference.query and reference.query.split() != query.text.split():
        said, asked = short_repr(reference.query), short_repr(query.text)
        what = f"query {query.id!r} is {said} here and {asked} in {dataset.name!r}"
        raise DataError(f"{what}: references for other questions", file=path)
    if not dataset.documents:
        return
    held = {doc_id for fact in reference.facts for doc_id in fact.documents}
    if missing := {*held, *reference.sources} - dataset.documents.keys():
        raise DataError(
            f"{dataset.name!r} has no document {min(missing)!r}, which the reference of query "
            f"{query.id!r} comes from; use the references of this data set",
            file=path,
        )


def extract(question: str, documents: Sequence[Document]) -> str:
    """A sentence from each document that has a suitable one, in their order."""
    passages = (Passage(each.id, each.title, each.text) for each in documents)
    found = (extract_finding(question, passage) for passage in passages)
    return " ".join(dict.fromkeys(filter(None, found)))


def _with_text(reference: Reference, dataset: Dataset, path: Path) -> Reference:
    """Texts that were left out must have their hashes: else these would be other answers."""
    question = dataset.queries[reference.query_id].text
    if reference.answer or ANSWER_HASH not in reference.provenance:
        return replace(reference, query=question)
    answer = extract(question, [dataset.documents[each] for each in reference.sources])
    for what, text, key in (("question", question, QUERY_HASH), ("answer", answer, ANSWER_HASH)):
        if text_hash(text) != reference.provenance.get(key):
            raise DataError(
                f"the {what} of query {reference.query_id!r} was left out and differs here: this "
                f"is another copy of {dataset.name!r}, or version of Assay; {_REMEDY}",
                file=path,
            )
    return replace(reference, query=question, answer=answer)
