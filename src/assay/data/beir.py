"""Data sets in BEIR format, in a folder or a zip: corpus.jsonl, queries.jsonl, qrels/*.tsv.

One more file is optional: answers.jsonl, for agents that answer.
"""

import re
import zipfile
from collections.abc import Collection, Container, Iterable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from sys import intern
from typing import Any

import orjson

from assay.data.archive import archive_files
from assay.data.collection import drop_unknown_queries
from assay.data.dataset import Dataset, Document, Fact, Judgments, Query, ReferenceAnswer
from assay.data.qrels import beir_qrels, read_judgments
from assay.data.stored_documents import DocumentWriter, stays_on_disk, store_documents
from assay.data.text_file import (
    Findings,
    Record,
    TextFile,
    collect_by_id,
    plain_file,
    read_by_id,
    short_repr,
    write_file,
)
from assay.errors import DataError, UsageError
from assay.files import staging_folder
from assay.net.json import JsonObject, parse_object

_NEEDED = "corpus.jsonl, queries.jsonl and qrels/test.tsv"
_WANTED = re.compile(r"(?:corpus|queries|answers|judged_by)\.jsonl|qrels/[^/.][^/]*\.tsv")


def read_beir(
    path: Path, name: str | None = None, findings: Findings | None = None, inside: str = ""
) -> Dataset:
    """A data set from a folder or zip, whose files are in `path` itself or in one folder in it.

    `name` is what the data set is called; by default the name of the file or folder. `inside` is
    the folder to take where there are several. Without corpus.jsonl it has no documents.
    """
    files = _dataset_files(path, inside)
    findings = Findings() if findings is None else findings
    documents: Mapping[str, Document] = {}
    queries: dict[str, Query] = {}
    judgments: dict[str, Judgments] = {}
    with findings.errors_collected():
        if "corpus.jsonl" in files:
            documents = _read_documents(files["corpus.jsonl"], findings)
    with findings.errors_collected():
        queries = _read_queries(_needed(path, files, "queries.jsonl"), findings)
    for member, file in sorted(files.items()):
        if member.startswith("qrels/"):
            with findings.errors_collected():
                split = _read_split(file, documents, queries, findings)
                judgments[PurePosixPath(member).stem] = split
    if not judgments:
        findings.note(
            "data sets without qrels/*.tsv, so no ranking can be measured", repr(str(path))
        )
    answers = {}
    if "answers.jsonl" in files:
        with findings.errors_collected():
            answers = read_answers(files["answers.jsonl"], documents, queries, findings)
    name = name or path.resolve().name.removesuffix(".zip")
    judged_by = _judged_by(files["judged_by.jsonl"]) if "judged_by.jsonl" in files else ""
    return Dataset(name, documents, queries, judgments, answers, findings.messages, judged_by)


def _judged_by(file: TextFile) -> str:
    """Which judgments a model made, in words; data sets of people have no such file."""
    fields = parse_object("".join(text for _, text in file.lines()))
    words = fields.get("judged_by") if fields else None
    if not isinstance(words, str) or not words.strip():
        raise DataError(
            'must be an object with a text "judged_by", as {"judged_by": "..."}', file=file.label
        )
    return words


def write_beir(dataset: Dataset, folder: Path) -> None:
    """Write a data set; read back, it has the same fingerprint and reference answers.

    A file that would be empty is not written: corpus.jsonl, answers.jsonl.
    """
    if dataset.documents:
        _write_lines(
            folder / "corpus.jsonl",
            (
                {"_id": d.id, "title": d.title, "text": d.text, "metadata": dict(d.metadata)}
                for d in dataset.documents.values()
            ),
        )
    if dataset.judged_by:
        write_file(folder / "judged_by.jsonl", orjson.dumps({"judged_by": dataset.judged_by}))
    if dataset.answers:
        _write_lines(folder / "answers.jsonl", map(_answer_record, dataset.answers.values()))
    _write_lines(
        folder / "queries.jsonl",
        (
            {"_id": query.id, "text": query.text, "metadata": {"tags": query.tags}}
            for query in dataset.queries.values()
        ),
    )
    for split, judgments in dataset.judgments.items():
        write_file(folder / "qrels" / f"{split}.tsv", beir_qrels(judgments))


def write_new_beir(dataset: Dataset, folder: Path) -> None:
    """Write a data set into a folder that does not exist or is empty, all of it or nothing."""
    folder = folder.expanduser().absolute()
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is not empty; name another folder, or delete it first")
        with staging_folder(folder) as staging:
            write_beir(dataset, staging / folder.name)
            if folder.exists():  # a folder is not renamed over another one everywhere
                folder.rmdir()
            (staging / folder.name).rename(folder)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=folder) from error


def _answer_record(reference: ReferenceAnswer) -> JsonObject:
    return {
        "query_id": reference.query_id,
        "answer": reference.answer,
        "facts": [{"text": fact.text, "accept": list(fact.accept)} for fact in reference.facts],
        "documents": list(reference.documents),
    }


def _write_lines(path: Path, records: Iterable[JsonObject]) -> None:
    lines = (orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
    write_file(path, b"".join(lines))


def _dataset_files(path: Path, inside: str = "") -> dict[str, TextFile]:
    if path.is_dir():
        files = _folder_files(path)
    elif path.suffix.lower() == ".zip" or (path.is_file() and zipfile.is_zipfile(path)):
        files = archive_files(path)
    else:
        what = "is neither a folder nor a zip archive" if path.exists() else "does not exist"
        topics = ". TREC topics need their judgments: assay data import FILE --qrels FILE"
        hint = topics if path.is_file() else ""
        raise DataError(f"{what}; a data set in BEIR format has {_NEEDED}{hint}", file=path)
    root = f"{inside}/" if inside else _root(path, files)
    inner = {name[len(root) :]: file for name, file in files.items() if name.startswith(root)}
    return {name: file for name, file in inner.items() if _WANTED.fullmatch(name)}


def _folder_files(path: Path) -> dict[str, TextFile]:
    """Files by their path as in an archive; `x.gz` is used if there is no `x`."""
    patterns = ("*.jsonl", "qrels/*.tsv", "*/*.jsonl", "*/qrels/*.tsv")
    found = [p for pattern in patterns for p in (*path.glob(pattern + ".gz"), *path.glob(pattern))]
    return {p.relative_to(path).as_posix().removesuffix(".gz"): plain_file(p) for p in found}


def _root(path: Path, files: dict[str, TextFile]) -> str:
    if "corpus.jsonl" in files or "queries.jsonl" in files:
        return ""
    roots = {
        name.removesuffix(ending)
        for name in files
        for ending in ("corpus.jsonl", "queries.jsonl")
        if name.endswith(f"/{ending}") and name.count("/") == 1
    }
    if not roots:
        message = (
            f"has no corpus.jsonl; a data set in BEIR format has {_NEEDED}. Documents without "
            "questions: assay data questions makes some"
        )
        raise DataError(message, file=path)
    if len(roots) > 1:
        several = ", ".join(repr(root) for root in sorted(roots))
        raise DataError(f"contains several data sets: {several}; pass one of them", file=path)
    return roots.pop()


def _needed(path: Path, files: dict[str, TextFile], name: str) -> TextFile:
    if name not in files:
        raise DataError(f"has no {name}; a data set in BEIR format has {_NEEDED}", file=path)
    return files[name]


def _read_documents(file: TextFile, findings: Findings) -> Mapping[str, Document]:
    if stays_on_disk(file):
        return store_documents(file, partial(_collect_documents, file), findings)
    documents: dict[str, Document] = {}
    _collect_documents(file, documents, findings)
    return documents


def _collect_documents(
    file: TextFile, found: DocumentWriter | dict[str, Document], findings: Findings
) -> None:
    def build(record: Record, identifier: str) -> Document:
        if "text" not in record.fields:
            raise record.refusal(
                f"document {identifier!r} has no 'text'; add one, even if it is \"\""
            )
        document = Document(
            identifier, record.text("title"), record.text("text"), _metadata(record)
        )
        if not document.full_text:
            what = f"{file.name}: documents with neither title nor text"
            findings.note(what, f"{identifier!r} on line {record.number}")
        return document

    collect_by_id(file, "_id", build, findings, found)
    if not len(found):
        raise DataError("has no documents; add lines with '_id' and 'text'", file=file.label)


def _read_queries(file: TextFile, findings: Findings) -> dict[str, Query]:
    def build(record: Record, identifier: str) -> Query:
        query = Query(identifier, record.text("text"), _tags(_metadata(record).get("tags")))
        if not query.text.strip():
            what = f"{file.name}: queries without text"
            findings.note(what, f"{identifier!r} on line {record.number}")
        return query

    queries = read_by_id(file, "_id", build, findings)
    if not queries:
        raise DataError("has no queries; add lines with '_id' and 'text'", file=file.label)
    return queries


def _metadata(record: Record) -> JsonObject:
    """Exporters differ here, and nothing in it is a reason to refuse a data set."""
    metadata = record.fields.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _tags(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (intern(value),)
    if isinstance(value, list):
        return tuple(intern(tag) for tag in value if isinstance(tag, str))
    return ()


def _read_split(
    file: TextFile, documents: Mapping[str, Document], queries: dict[str, Query], findings: Findings
) -> Judgments:
    judgments = read_judgments(file, findings)
    if not judgments:
        findings.note("splits without judgments", repr(file.name))
    return drop_unknown_queries(judgments, file.name, documents, queries, findings)


def read_answers(
    file: TextFile, documents: Collection[str], queries: Container[str], findings: Findings
) -> dict[str, ReferenceAnswer]:
    """Reference answers by query id; those of unknown queries are dropped with a warning."""
    answers = read_by_id(file, "query_id", _answer, findings)
    for query_id in [query_id for query_id in answers if query_id not in queries]:
        del answers[query_id]
        what = f"{file.name}: answers dropped, because their query is not in queries.jsonl"
        findings.note(what, f"query {query_id!r}")
    for answer in answers.values():
        for document_id in answer.documents:
            if documents and document_id not in documents:
                what = f"{file.name}: answers whose document is not in corpus.jsonl"
                findings.note(what, f"{document_id!r} for query {answer.query_id!r}")
    return answers


def _answer(record: Record, query_id: str) -> ReferenceAnswer:
    if "answer" not in record.fields:
        raise record.refusal(
            f"query {query_id!r} has no 'answer'; write null if the documents contain none"
        )
    answer = None if record.fields["answer"] is None else record.text("answer")
    facts = tuple(_fact(record, value, answer) for value in _list(record, record.fields, "facts"))
    return ReferenceAnswer(query_id, answer, facts, _texts(record, record.fields, "documents"))


def _fact(record: Record, value: object, answer: str | None) -> Fact:
    """A fact without `accept`, or given as plain text, is stated by its own text."""
    fields = value if isinstance(value, dict) else {"text": value}
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise record.refusal(
            f'a fact must be {{"text": ..., "accept": [...]}}, got {short_repr(value)}'
        )
    return Fact.read(text, _texts(record, fields, "accept"), answer)


def _texts(record: Record, fields: JsonObject, key: str) -> tuple[str, ...]:
    values = _list(record, fields, key)
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise record.refusal(f"{key!r} must hold non-empty strings, got {short_repr(value)}")
    return tuple(values)


def _list(record: Record, fields: JsonObject, key: str) -> list[Any]:
    values = fields.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise record.refusal(f"{key!r} must be a list, got {short_repr(values)}")
    return values
