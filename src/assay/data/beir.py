"""Data sets in a folder or zip, in the layout of BEIR or of a model hub; and writing them.

What a file holds follows from its path:

    corpus.jsonl             queries.jsonl               qrels/test.tsv          (BEIR)
    corpus.jsonl.gz          queries.jsonl.gz            qrels/test.jsonl        (MTEB)
    corpus/corpus-*.parquet  queries/queries-*.parquet   data/test-*.parquet     (hubs)
    de-corpus/test-*.parquet de-queries/test-*.parquet   de-qrels/test-*.parquet (languages)

Optional: answers.jsonl for agents that answer, judged_by.jsonl if a model made judgments. Columns
are found by the names that are in use: `_id`, `docid`, `contents`, `corpus-id`.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isnan
from pathlib import Path, PurePosixPath
from sys import intern
from typing import Any, Protocol, TypeVar

import orjson

from assay.data.dataset import Dataset, Document, Fact, Judgments, Query, ReferenceAnswer
from assay.data.qrels import add_grade, beir_qrels, parse_grade, read_judgments, wrong_grade
from assay.data.stored_documents import DocumentWriter, stays_on_disk, store_documents
from assay.data.table import cell_list, read_table, rows_of, spelling, table_suffix
from assay.data.text_file import (
    Findings,
    Record,
    TextFile,
    archive_files,
    files_below,
    plain_file,
    records,
    short_repr,
    write_file,
)
from assay.errors import DataError, UsageError, did_you_mean
from assay.files import staging_folder
from assay.net.json import JsonObject, parse_object
from assay.text import respelled

MAX_FILES = 2000
_NEEDED = "a data set has corpus.jsonl, queries.jsonl and qrels/test.tsv"
_ENDINGS = (".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?:-[0-9a-f]+)?$")
_ROLES = {
    "corpus": "corpus",
    "documents": "corpus",
    "docs": "corpus",
    "passages": "corpus",
    "queries": "queries",
    "query": "queries",
    "qrels": "qrels",
    "qrel": "qrels",
    "answers": "answers",
    "judged_by": "judged_by",
}
_ROLE = re.compile(rf"(?:(.+)[-_])?({'|'.join(_ROLES)})(?:[-_](.+))?", re.IGNORECASE)
_PLAIN_FOLDERS = ("", "data", "default")
_SPLITS = ("test", "dev", "train", "validation", "val", "trial")
_DOC_IDS = ("_id", "doc_id", "docid", "docno", "document_id", "corpus_id", "id", "pid")
_TEXTS = ("text", "contents", "content", "body", "passage", "segment")
_QUERY_IDS = ("_id", "query_id", "qid", "id", "topic_id")
_QUERY_TEXTS = ("query", "text", "question", "query_text", "title")
_JUDGED_QUERIES = ("query_id", "qid", "topic_id", "topic", "query", "_id")
_JUDGED_DOCUMENTS = ("doc_id", "corpus_id", "docid", "document_id", "pid", "id")
_GRADES = ("grade", "score", "relevance", "label", "rel")
_QRELS = (".tsv", ".txt", ".qrels", "")
_ABSENT = object()

_Item = TypeVar("_Item", Query, Document)


class _ItemsById(Protocol[_Item]):
    """Where items are collected: a dictionary, or a file on the disk."""

    def setdefault(self, key: str, item: _Item, /) -> _Item: ...


@dataclass(slots=True)
class DatasetFiles:
    """The paths of one data set by what they hold, and of its judgments by split."""

    corpus: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    judged_by: list[str] = field(default_factory=list)
    qrels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def all_paths(self) -> list[str]:
        """Every file that is needed."""
        judged = [path for paths in self.qrels.values() for path in paths]
        return [*self.corpus, *self.queries, *self.answers, *self.judged_by, *judged]


def read_beir(
    path: Path, name: str | None = None, findings: Findings | None = None, config: str = ""
) -> Dataset:
    """A data set from a folder or zip; `config` is the folder to take if there are several.

    Without a corpus it has no documents. `name` defaults to that of the file or folder.
    """
    files = _files_in(path)
    name = name or path.resolve().name.removesuffix(".zip")
    chosen = choose_config(sort_files(files), config, str(path))
    return read_files(chosen, files, name, Findings() if findings is None else findings)


def _files_in(path: Path) -> dict[str, TextFile]:
    if path.is_dir():
        names = {file.relative_to(path).as_posix() for file in files_below(path, MAX_FILES)}
        packed = {name for name in names if name.endswith(".gz") and name[:-3] in names}
        return {name: plain_file(path / name) for name in names - packed}
    if path.suffix.lower() == ".zip" or (path.is_file() and zipfile.is_zipfile(path)):
        return archive_files(path)
    what = "is neither a folder nor a zip archive" if path.exists() else "does not exist"
    raise DataError(f"{what}; {_NEEDED}", file=path)


def sort_files(paths: Iterable[str]) -> dict[str, DatasetFiles]:
    """The files of each data set by its configuration; "" is the one without a name."""
    found: dict[str, DatasetFiles] = defaultdict(DatasetFiles)
    placed = {path: place for path in sorted(paths) if (place := _place(path)) is not None}
    # Beside corpus.jsonl, a folder docs/ is documentation: the plainest names win.
    plainest: dict[tuple[str, str], int] = {}
    for role, config, _, rank in placed.values():
        plainest[role, config] = min(rank, plainest.get((role, config), rank))
    for path, (role, config, split, rank) in placed.items():
        if rank > plainest[role, config]:
            continue
        if role == "qrels":
            found[config].qrels.setdefault(split, []).append(path)
        else:
            getattr(found[config], role).append(path)
    whole = found.get("", DatasetFiles())
    for files in found.values():  # what has no configuration belongs to each that lacks it
        files.corpus = files.corpus or whole.corpus
        files.queries = files.queries or whole.queries
    return found


def choose_config(found: Mapping[str, DatasetFiles], config: str, name: str) -> DatasetFiles:
    """The configuration that is asked for; `UsageError` names those that there are."""
    usable = {key: files for key, files in found.items() if files.queries}
    named = sorted(key for key in usable if key)
    if not config and "" not in usable and len(named) == 1:
        config = named[0]
    if config in usable:
        return usable[config]
    if config:
        known = f"it has: {', '.join(named[:40])}" if named else "it has no configurations"
        raise UsageError(
            f"data set {name!r} has no configuration {config!r}; {known}"
            f"{did_you_mean(config, named)}"
        )
    if named:
        raise UsageError(
            f"data set {name!r} has several configurations; pass the folder of one, on a hub "
            f"{name}#CONFIG: {', '.join(named[:40])}"
        )
    hint = ". Documents without questions: assay data questions makes some"
    has_corpus = any(files.corpus for files in found.values())
    raise DataError(f"{name}: has no queries; {_NEEDED}{hint if has_corpus else ''}")


def _place(path: str) -> tuple[str, str, str, int] | None:
    """What a file holds, of which configuration, for judgments of which split; and how far this is
    a guess: 0 by the file's name, 1 by its folder's, 2 by that of a split.
    """
    pure = PurePosixPath(path)
    name = pure.name.removesuffix(".gz")
    ending = next((ending for ending in _ENDINGS if name.endswith(ending)), None)
    if ending is None or any(part.startswith((".", "__MACOSX")) for part in pure.parts):
        return None
    stem = _SHARD.sub("", name.removesuffix(ending))
    folders = [folder for folder in pure.parts[:-1] if folder not in _PLAIN_FOLDERS]
    role, rest = _role(stem)
    if role is not None:
        config, split = ("", rest) if rest in _SPLITS else (rest, _SPLITS[0])
        return role, config or _config_of(folders), split, 0
    for folder in reversed(folders):
        role, _ = _role(folder)
        if role is not None:
            return role, _config_of(folders), stem, 1
    if len(pure.parts) > 1 and stem in _SPLITS:  # data/test-*.parquet, de/test-*.parquet
        return "qrels", _config_of(folders), stem, 2
    return None


def _config_of(folders: Sequence[str]) -> str:
    """`de` of `de-corpus/...`, `de/qrels/...` and `de/corpus.jsonl`."""
    for folder in reversed(folders):
        role, rest = _role(folder)
        if role is None or rest:
            return rest or folder
    return ""


def _role(word: str) -> tuple[str | None, str]:
    """`corpus`, `de-corpus` or `corpus_de`: the role, and the configuration beside it."""
    match = _ROLE.fullmatch(word)
    return (_ROLES[match[2].lower()], match[1] or match[3] or "") if match else (None, "")


def read_files(
    paths: DatasetFiles, files: Mapping[str, TextFile], name: str, findings: Findings
) -> Dataset:
    """The data set in these files."""
    documents: Mapping[str, Document] = {}
    queries: dict[str, Query] = {}
    judgments: dict[str, Judgments] = {}
    answers: dict[str, ReferenceAnswer] = {}
    with findings.errors_collected():
        if paths.corpus:
            documents = read_documents([files[path] for path in paths.corpus], findings)
    with findings.errors_collected():
        queries = _read_queries([files[path] for path in paths.queries], findings)
    for split, members in sorted(paths.qrels.items()):
        with findings.errors_collected():
            grades: dict[str, dict[str, int]] = {}
            for path in members:
                _read_grades(files[path], grades, findings)
            label = PurePosixPath(members[0]).name
            if not grades:
                findings.note("splits without judgments", repr(label))
            judgments[split] = drop_unknown_queries(grades, label, documents, queries, findings)
    if not judgments:
        findings.note("data sets without qrels, so no ranking can be measured", repr(name))
    for path in paths.answers:
        with findings.errors_collected():
            answers |= _read_answers(files[path], documents, queries, findings)
    judged_by = "".join(_judged_by(files[path]) for path in paths.judged_by)
    return Dataset(name, documents, queries, judgments, answers, findings.messages, judged_by)


def read_documents(files: Sequence[TextFile | Path], findings: Findings) -> Mapping[str, Document]:
    """Documents by id from tables with an id, a text and optionally a title.

    Those of a large corpus stay on the disk.
    """
    opened = [plain_file(file) if isinstance(file, Path) else file for file in files]
    collect = partial(_collect_documents, opened)
    if stays_on_disk(opened):
        return store_documents(opened, collect, findings)
    documents: dict[str, Document] = {}
    collect(documents, findings)
    return documents


def _collect_documents(
    files: Sequence[TextFile], found: DocumentWriter | dict[str, Document], findings: Findings
) -> None:
    before = findings.error_count
    for file in files:
        _collect(read_table(file), _document, findings, found)
    if not len(found) and findings.error_count == before:
        raise DataError("has no documents; add rows with '_id' and 'text'", file=files[0].label)


def _read_queries(files: Sequence[TextFile], findings: Findings) -> dict[str, Query]:
    queries: dict[str, Query] = {}
    for file in files:
        _collect(read_table(file), _query, findings, queries)
    if not queries and not findings.error_count:
        raise DataError("has no queries; add rows with '_id' and 'text'", file=files[0].label)
    return queries


def _read_grades(file: TextFile, judgments: dict[str, dict[str, int]], findings: Findings) -> None:
    """Add judgments from a table, or from a file of TREC's four or BEIR's three columns."""
    if table_suffix(Path(file.label)) in _QRELS:
        read_judgments(file, findings, judgments)
        return
    for row in read_table(file):
        with findings.errors_collected():
            if isinstance(row, DataError):
                raise row
            _add_judgment(row, judgments)


def _collect(
    rows: Iterable[Record | DataError],
    build: Callable[[Record, Findings], _Item],
    findings: Findings,
    found: _ItemsById[_Item],
) -> None:
    """Put the items of rows into `found`. A repeated one is noted; another one with the same id is
    refused, because scores would depend on which of the two is used.
    """
    for row in rows:
        with findings.errors_collected():
            if isinstance(row, DataError):
                raise row
            item = build(row, findings)
            earlier = found.setdefault(item.id, item)
            if earlier is item:
                continue
            if not _same(earlier, item):
                raise row.refusal(
                    f"id {item.id!r} is already used for other content; rename or delete one"
                )
            what = f"{Path(row.source).name}: rows that repeat an earlier one (kept once)"
            findings.note(what, f"{item.id!r} {row.place}")


def _same(a: object, b: object) -> bool:
    try:
        return a == b
    except RecursionError:  # metadata nested a thousand deep, which JSON allows
        return False


def _document(row: Record, findings: Findings) -> Document:
    metadata = row.fields.get("metadata")
    document = Document(
        _identifier(row, _DOC_IDS),
        _text(row, ("title",), required=False),
        _text(row, _TEXTS),
        metadata if isinstance(metadata, dict) else {},
    )
    if not document.full_text:
        what = f"{Path(row.source).name}: documents with neither title nor text"
        findings.note(what, f"{document.id!r} {row.place}")
    return document


def _query(row: Record, findings: Findings) -> Query:
    metadata = row.fields.get("metadata")
    tags = row.fields.get("tags", metadata.get("tags") if isinstance(metadata, dict) else None)
    kept = tuple(intern(tag) for tag in cell_list(tags) if isinstance(tag, str))
    query = Query(_identifier(row, _QUERY_IDS), _text(row, _QUERY_TEXTS), kept)
    if not query.text.strip():
        what = f"{Path(row.source).name}: queries without text"
        findings.note(what, f"{query.id!r} {row.place}")
    return query


def _add_judgment(row: Record, judgments: dict[str, dict[str, int]]) -> str:
    """Add the judgment of a row; returns the id of its query."""
    query_id, doc_id = _identifier(row, _JUDGED_QUERIES), _identifier(row, _JUDGED_DOCUMENTS)
    value = _field_of(row.fields, _GRADES, absent=1)  # a column with a gap is a mistake, none is 1
    grade = parse_grade(str(value))
    if grade is None:
        raise row.refusal(wrong_grade(value))
    try:
        add_grade(judgments, query_id, doc_id, grade)
    except ValueError as error:
        raise row.refusal(str(error)) from None
    return query_id


def drop_unknown_queries(
    judgments: dict[str, dict[str, int]],
    name: str,
    documents: Mapping[str, Document],
    queries: Mapping[str, Query],
    findings: Findings,
) -> Judgments:
    """The judgments of queries that exist. Documents that the corpus lacks count in the ideal
    ranking, as in trec_eval: without them every system would look better than it is.
    """
    for query_id in [query_id for query_id in judgments if queries and query_id not in queries]:
        what = f"{name}: judgments dropped, because their query does not exist"
        findings.note(what, f"query {query_id!r}", count=len(judgments.pop(query_id)))
    lacking = f"{name}: judged documents that are not in the corpus (no system can retrieve them)"
    missing = 0
    for query_id, grades in judgments.items() if documents else ():
        for document_id in grades:
            if document_id not in documents:
                missing += 1
                how = respelled(document_id, documents)
                there = f" (the corpus has it {how})" if how else ""
                findings.note(lacking, f"{document_id!r} for query {query_id!r}{there}")
    if missing and missing == sum(map(len, judgments.values())):
        what = "splits without a judged document in the corpus (write the new ids into qrels)"
        findings.note(what, repr(name))
    return judgments


def _identifier(row: Record, names: Sequence[str]) -> str:
    """The id in the first column of these names, interned; `DataError` if there is none."""
    value = _field_of(row.fields, names)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a data frame's column of integers with gaps
    if isinstance(value, str) and value and not value.isspace():
        return intern(value)
    if value is None or isinstance(value, str | bool | float | list | dict):
        raise row.refusal(
            f"has no id in a column {', '.join(names[:3])} or the like, got {short_repr(value)} "
            f"from the columns {short_repr(list(row.fields))}"
        )
    return intern(str(value))


def _text(row: Record, names: Sequence[str], *, required: bool = True) -> str:
    value = _field_of(row.fields, names, absent=_ABSENT)
    if isinstance(value, str):
        return value
    if value is _ABSENT and required:
        have = short_repr(list(row.fields))
        raise row.refusal(f"has no text in a column {', '.join(names[:3])}, only {have}")
    if value is _ABSENT or value is None or (isinstance(value, float) and isnan(value)):
        return ""
    raise row.refusal(f"{names[0]!r} must be text, got {short_repr(value)}")


def _field_of(fields: JsonObject, names: Sequence[str], absent: object = None) -> object:
    """The value of the first column of these names, in any spelling; `absent` if there is none."""
    for name in names:
        if name in fields:
            return fields[name]
    spelled = {spelling(name): name for name in fields}
    found = next((spelled[name] for name in names if name in spelled), None)
    return absent if found is None else fields[found]


def _judged_by(file: TextFile) -> str:
    """Which judgments a model made; data sets of people have no such file."""
    fields = parse_object("".join(text for _, text in file.lines())) or {}
    if not isinstance(words := fields.get("judged_by"), str):
        raise DataError('must be an object as {"judged_by": "..."}', file=file.label)
    return words


def _read_answers(
    file: TextFile, documents: Collection[str], queries: Container[str], findings: Findings
) -> dict[str, ReferenceAnswer]:
    """Reference answers by query id; those of unknown queries are dropped with a warning."""
    answers: dict[str, ReferenceAnswer] = {}
    for record in records(file):
        with findings.errors_collected():
            answer = _answer(record)
            if answer.query_id not in queries:
                what = f"{file.name}: answers dropped, because their query does not exist"
                findings.note(what, f"query {answer.query_id!r}")
                continue
            if answers.setdefault(answer.query_id, answer) != answer:
                raise record.refusal(f"query {answer.query_id!r} has another answer before")
            for document_id in answer.documents:
                if documents and document_id not in documents:
                    what = f"{file.name}: answers whose document is not in the corpus"
                    findings.note(what, f"{document_id!r} for query {answer.query_id!r}")
    return answers


def _answer(record: Record) -> ReferenceAnswer:
    query_id = record.identifier("query_id")
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
    if not all(isinstance(value, str) and value.strip() for value in values):
        raise record.refusal(f"{key!r} must hold non-empty strings, got {short_repr(values)}")
    return tuple(values)


def _list(record: Record, fields: JsonObject, key: str) -> list[Any]:
    values = fields.get(key)
    if values is not None and not isinstance(values, list):
        raise record.refusal(f"{key!r} must be a list, got {short_repr(values)}")
    return values or []


def write_beir(dataset: Dataset, folder: Path) -> None:
    """Write a data set; read back, it has the same fingerprint and reference answers.

    A file that would be empty is not written: corpus.jsonl, answers.jsonl.
    """
    if dataset.documents:
        documents = (
            {"_id": d.id, "title": d.title, "text": d.text, "metadata": dict(d.metadata)}
            for d in dataset.documents.values()
        )
        _write_lines(folder / "corpus.jsonl", documents)
    if dataset.judged_by:
        _write_lines(folder / "judged_by.jsonl", [{"judged_by": dataset.judged_by}])
    if dataset.answers:
        _write_lines(folder / "answers.jsonl", map(_answer_record, dataset.answers.values()))
    queries = (
        {"_id": query.id, "text": query.text, "metadata": {"tags": query.tags}}
        for query in dataset.queries.values()
    )
    _write_lines(folder / "queries.jsonl", queries)
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


def _write_lines(path: Path, rows: Iterable[JsonObject]) -> None:
    lines = (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    write_file(path, b"".join(lines))


def dataset_from_dicts(
    queries: object,
    judgments: object,
    documents: object,
    answers: Mapping[str, str | None] | None,
    name: str,
    split: str,
) -> Dataset:
    """See `Dataset.from_dicts`."""
    asked: dict[str, Query] = {}
    found: dict[str, Document] = {}
    _collect(_rows_in_memory(queries, "queries", "query_id"), _query, Findings(), asked)
    if not asked or not all(query.text for query in asked.values()):
        raise DataError("queries must be texts, at least one, such as {'q1': 'How long?'}")
    given = {} if documents is None else documents
    _collect(_rows_in_memory(given, "documents", "doc_id"), _document, Findings(), found)
    judged: dict[str, dict[str, int]] = {}
    if isinstance(judgments, Mapping):
        judgments = list(_judgment_rows(judgments))
    for row in rows_of(judgments, "judgments"):
        if isinstance(row, DataError):
            raise row
        if (query_id := _add_judgment(row, judged)) not in asked:
            raise row.refusal(f"there is no query {query_id!r}")
    references = {}
    for key, answer in (answers or {}).items():
        if (query_id := str(key)) not in asked:
            raise DataError(f"answers: there is no query {query_id!r}")
        relevant = tuple(doc_id for doc_id, grade in judged.get(query_id, {}).items() if grade > 0)
        references[query_id] = ReferenceAnswer(query_id, answer, (), relevant)
    return Dataset(name, found, asked, {split: judged}, references)


def _rows_in_memory(values: object, source: str, key: str) -> Iterator[Record | DataError]:
    """Rows as they are; `{id: value}` becomes a row with its id as the column `key`."""
    if isinstance(values, Mapping):
        values = [_row_of(key, identifier, value) for identifier, value in values.items()]
    return rows_of(values, source)


def _row_of(key: str, identifier: object, value: object) -> JsonObject:
    if isinstance(value, Document):
        value = {"title": value.title, "text": value.text, "metadata": dict(value.metadata)}
    elif isinstance(value, Query):
        value = {"text": value.text, "tags": list(value.tags)}
    return {**(value if isinstance(value, Mapping) else {"text": value}), key: identifier}


def _judgment_rows(judgments: Mapping[Any, Any]) -> Iterator[JsonObject]:
    for query_id, grades in judgments.items():
        if isinstance(grades, str) or not isinstance(grades, Iterable):
            raise DataError(
                f"judgments: query {query_id!r} must have {{id: grade}} or a list of ids, got "
                f"{short_repr(grades)}"
            )
        pairs = grades.items() if isinstance(grades, Mapping) else ((doc, 1) for doc in grades)
        for doc_id, grade in pairs:
            yield {"query_id": query_id, "doc_id": doc_id, "grade": grade}
