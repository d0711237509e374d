"""Data sets in a folder or zip, in the layout of BEIR or of a model hub; and writing them.

What a file holds follows from its path:

    corpus.jsonl             queries.jsonl               qrels/test.tsv          (BEIR)
    corpus.jsonl.gz          queries.jsonl.gz            qrels/test.jsonl        (MTEB)
    corpus/corpus-*.parquet  queries/queries-*.parquet   data/test-*.parquet     (hubs)

Optional: answers.jsonl for agents that answer, judged_by.jsonl if a model made judgments. Columns
are found by the names that are in use: `_id`, `docid`, `contents`, `corpus-id`.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from sys import intern
from typing import TypeVar

import orjson

from assay.data.dataset import Dataset, Document, Fact, Judgments, Query, ReferenceAnswer
from assay.data.qrels import add_grade, beir_qrels, parse_grade, read_judgments
from assay.data.stored_documents import stays_on_disk, store_documents
from assay.data.table import SUFFIXES, cell_list, memory_rows, read_table, table_suffix
from assay.data.text_file import (
    Findings,
    Record,
    TextFile,
    archive_files,
    plain_file,
    short_repr,
    write_file,
)
from assay.errors import DataError, UsageError
from assay.files import staging_folder
from assay.net.json import JsonObject

# A sharded corpus has far fewer; a home folder that was passed by mistake has more.
MAX_FILES = 2000
_NEEDED = "a data set has corpus.jsonl, queries.jsonl and qrels/test.tsv"
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?:-[0-9a-f]+)?$")
_ROLES = {role: role for role in ("corpus", "queries", "qrels", "answers", "judged_by")}
_ROLES["query"] = "queries"  # query.parquet, on hubs
_SPLITS = ("test", "dev", "train", "validation", "val", "trial")
_DOC_IDS = ("_id", "doc_id", "docid", "docno", "document_id", "corpus_id", "id", "pid")
_TEXTS = ("text", "contents", "content", "body", "passage", "segment")
_QUERY_IDS = ("_id", "query_id", "qid", "id", "topic_id")
_QUERY_TEXTS = ("query", "text", "question", "query_text", "title")
_JUDGED_QUERIES = ("query_id", "qid", "topic_id", "topic", "query", "_id")
_JUDGED_DOCUMENTS = ("doc_id", "corpus_id", "docid", "document_id", "pid", "id")
_GRADES = ("grade", "score", "relevance", "label", "rel")

_Item = TypeVar("_Item", Query, Document)
# Paths by what they hold: "corpus", "queries", "answers", "judged_by" and "qrels/SPLIT".
DatasetFiles = dict[str, list[str]]


def read_beir(
    path: Path, name: str | None = None, findings: Findings | None = None, part: str = ""
) -> Dataset:
    """A data set from a folder or zip; `part` is the folder in it, if there are several.

    Without a corpus it has no documents. `name` defaults to that of the file or folder.
    """
    if path.is_dir():
        below = (file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir())
        names = set(islice((name for name in below if table_stem(name)), MAX_FILES + 1))
        if len(names) > MAX_FILES:
            raise DataError(f"has more than {MAX_FILES:,} tables; pass a part of it", file=path)
        # Both are there if somebody unpacked one of them: every row would be there twice.
        packed = {name for name in names if name.endswith(".gz") and name[:-3] in names}
        files = {name: plain_file(path / name) for name in names - packed}
    elif path.suffix.lower() == ".zip" or (path.is_file() and zipfile.is_zipfile(path)):
        files = archive_files(path)
    else:
        what = "is neither a folder nor a zip archive" if path.exists() else "does not exist"
        raise DataError(f"{what}; {_NEEDED}", file=path)
    name = name or path.resolve().name.removesuffix(".zip")
    chosen = sort_files(files, str(path), part)
    return read_files(chosen, files, name, Findings() if findings is None else findings)


def sort_files(paths: Iterable[str], name: str, part: str = "") -> DatasetFiles:
    """What each file of a data set holds; `part` is the folder to take of several."""
    found: dict[str, DatasetFiles] = defaultdict(lambda: defaultdict(list))
    for path in sorted(paths):
        if (stem := table_stem(path)) is None:
            continue
        folders = list(PurePosixPath(path).parts[:-1])
        role = _ROLES.get(stem)
        if folders and folders[-1] in _ROLES:
            role = role or _ROLES[folders[-1]]
            folders.pop()
        elif folders and folders[-1] in ("data", "default") and (role or stem in _SPLITS):
            role = role or "guessed"  # data/test-*.parquet
            folders.pop()
        if role in ("qrels", "guessed"):
            role += f"/{_SPLITS[0] if stem in _ROLES else stem}"
        if role:
            found["/".join(folders)][role].append(path)
    for files in found.values():  # beside qrels/test.tsv, data/test.json is something else
        is_judged = any(role.startswith("qrels/") for role in files)
        for role in [role for role in files if role.startswith("guessed/")]:
            guessed = files.pop(role)
            if not is_judged:
                files[role.replace("guessed", "qrels")] = guessed
    usable = {
        root: files
        for root, files in found.items()
        if "queries" in files and (not part or f"/{root}".endswith(f"/{part}"))
    }
    if len(usable) > 1:
        listed = ", ".join(sorted(usable)[:40])
        raise UsageError(f"{name!r} has several data sets; pass the folder of one of: {listed}")
    if not usable:
        hint = ". Documents without questions: assay data questions makes some"
        has_corpus = any("corpus" in files for files in found.values())
        raise DataError(f"{name}: has no queries; {_NEEDED}{hint if has_corpus else ''}")
    return next(iter(usable.values()))


def table_stem(path: str) -> str | None:
    """The name of a table without its ending and shard, `test` of `data/test-00000-of-00001.csv`;
    None for hidden files and those of other kinds.
    """
    pure = PurePosixPath(path.removesuffix(".gz"))
    if pure.suffix not in SUFFIXES or any(p.startswith((".", "__MACOSX")) for p in pure.parts):
        return None
    return _SHARD.sub("", pure.stem)


def read_files(
    roles: DatasetFiles, files: Mapping[str, TextFile], name: str, findings: Findings
) -> Dataset:
    """The data set in these files."""
    documents: Mapping[str, Document] = {}
    queries: dict[str, Query] = {}
    judgments: dict[str, Judgments] = {}
    answers: dict[str, ReferenceAnswer] = {}
    with findings.errors_collected():
        if "corpus" in roles:
            documents = read_documents([files[path] for path in roles["corpus"]], findings)
    with findings.errors_collected():
        asked = [files[path] for path in roles["queries"]]
        _collect_files(asked, "queries", _query, findings, queries.setdefault)
    for role in sorted(role for role in roles if role.startswith("qrels/")):
        with findings.errors_collected():
            grades: dict[str, dict[str, int]] = {}
            for file in (files[path] for path in roles[role]):
                if table_suffix(Path(file.label)) == ".tsv":  # also of TREC's four columns
                    read_judgments(file, findings, grades)
                    continue
                for row in findings.sound(read_table(file)):
                    with findings.errors_collected(row):
                        _add_judgment(row, grades)
            label = PurePosixPath(roles[role][0]).name
            if not grades:
                findings.note("splits without judgments", repr(label))
            known = drop_unknown_queries(grades, label, documents, queries, findings)
            judgments[role.removeprefix("qrels/")] = known
    if not judgments:
        findings.note("data sets without qrels, so no ranking can be measured", repr(name))
    for path in roles.get("answers", ()):
        with findings.errors_collected():
            answers |= _read_answers(files[path], documents, queries, findings)
    judged_by = ""  # which judgments a model made; data sets of people have no such file
    for path in roles.get("judged_by", ()):
        with findings.errors_collected():
            rows = findings.sound(read_table(files[path]))
            judged_by = next((row.text("judged_by") for row in rows), "")
            if not judged_by:
                raise DataError('must be an object as {"judged_by": "..."}', file=path)
    return Dataset(name, documents, queries, judgments, answers, findings.messages, judged_by)


def read_documents(files: Sequence[TextFile | Path], findings: Findings) -> Mapping[str, Document]:
    """Documents by id from tables with an id, a text and optionally a title.

    Those of a large corpus stay on the disk.
    """
    opened = [plain_file(file) if isinstance(file, Path) else file for file in files]

    def collect(keep: Callable[[str, Document], Document], findings: Findings) -> None:
        _collect_files(opened, "documents", _document, findings, keep)

    if stays_on_disk(opened):
        return store_documents(opened, collect, findings)
    documents: dict[str, Document] = {}
    collect(documents.setdefault, findings)
    return documents


def _collect_files(
    files: Sequence[TextFile],
    what: str,
    build: Callable[[Record], _Item],
    findings: Findings,
    keep: Callable[[str, _Item], _Item],
) -> None:
    before = findings.error_count
    found = _collect(chain.from_iterable(map(read_table, files)), build, findings, keep)
    if not found and findings.error_count == before:
        raise DataError(f"has no {what}; add rows with '_id' and 'text'", file=files[0].label)


def _collect(
    rows: Iterable[Record | DataError],
    build: Callable[[Record], _Item],
    findings: Findings,
    keep: Callable[[str, _Item], _Item],
) -> bool:
    """Build the items of rows; whether there are any. `keep` is `dict.setdefault`, or as that is.

    A repeated item is noted; another one with the same id is an error, because scores would depend
    on which of the two is used.
    """
    row = None
    for row in findings.sound(rows):
        with findings.errors_collected(row):
            item = build(row)
            name, text = Path(row.source).name, getattr(item, "full_text", "") or item.text
            if not text.strip():
                findings.note(f"{name}: rows without text", f"{item.id!r} {row.place}")
            earlier = keep(item.id, item)
            if earlier is item:
                continue
            if earlier != item:
                other = f"id {item.id!r} is already used for other content"
                row.fail(f"{other}; rename or delete one")
            what = f"{name}: rows that repeat an earlier one (kept once)"
            findings.note(what, f"{item.id!r} {row.place}")
    return row is not None


def _document(row: Record) -> Document:
    metadata = row.fields.get("metadata")
    return Document(
        row.identifier(*_DOC_IDS),
        row.text("title"),
        row.text(*_TEXTS, required=True),
        metadata if isinstance(metadata, dict) else {},
    )


def _query(row: Record) -> Query:
    metadata = row.fields.get("metadata")
    tags = row.fields.get("tags", metadata.get("tags") if isinstance(metadata, dict) else None)
    kept = tuple(intern(tag) for tag in cell_list(tags) if isinstance(tag, str))
    return Query(row.identifier(*_QUERY_IDS), row.text(*_QUERY_TEXTS, required=True), kept)


def _add_judgment(row: Record, judgments: dict[str, dict[str, int]]) -> str:
    """Add the judgment of a row; returns the id of its query."""
    query_id, doc_id = row.identifier(*_JUDGED_QUERIES), row.identifier(*_JUDGED_DOCUMENTS)
    # A column of grades with a gap is a mistake; without the column, what is listed is relevant.
    add_grade(judgments, query_id, doc_id, parse_grade(row.find(*_GRADES, absent=1)))
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
                findings.note(lacking, f"{document_id!r} for query {query_id!r}")
    if missing and missing == sum(map(len, judgments.values())):
        what = "splits without a judged document in the corpus (write the new ids into qrels)"
        findings.note(what, repr(name))
    return judgments


def _read_answers(
    file: TextFile, documents: Collection[str], queries: Container[str], findings: Findings
) -> dict[str, ReferenceAnswer]:
    """Reference answers by query id; those of unknown queries are dropped with a warning."""
    answers: dict[str, ReferenceAnswer] = {}
    for row in findings.sound(read_table(file)):
        with findings.errors_collected(row):
            answer = _answer(row)
            if answer.query_id not in queries:
                what = f"{file.name}: answers dropped, because their query does not exist"
                findings.note(what, f"query {answer.query_id!r}")
                continue
            if answers.setdefault(answer.query_id, answer) != answer:
                row.fail(f"query {answer.query_id!r} has another answer before")
            for document_id in answer.documents:
                if documents and document_id not in documents:
                    what = f"{file.name}: answers whose document is not in the corpus"
                    findings.note(what, f"{document_id!r} for query {answer.query_id!r}")
    return answers


def _answer(row: Record) -> ReferenceAnswer:
    query_id = row.identifier("query_id")
    if "answer" not in row.fields:
        row.fail(f"query {query_id!r} has no 'answer'; write null if the documents contain none")
    answer = None if row.fields["answer"] is None else row.text("answer")
    documents = cell_list(row.fields.get("documents"))
    if not all(isinstance(doc_id, str) and doc_id for doc_id in documents):
        row.fail(f"'documents' must be a list of ids, got {short_repr(documents)}")
    facts = tuple(Fact.read(fact, answer) for fact in cell_list(row.fields.get("facts")))
    return ReferenceAnswer(query_id, answer, facts, tuple(documents))


def write_beir(dataset: Dataset, folder: Path) -> None:
    """Write a data set; read back, it has the same fingerprint and reference answers.

    A file that would be empty is not written: corpus.jsonl, answers.jsonl.
    """
    tables: dict[str, Iterable[JsonObject]] = {
        "corpus": (
            {"_id": d.id, "title": d.title, "text": d.text, "metadata": dict(d.metadata)}
            for d in dataset.documents.values()
        ),
        "judged_by": [{"judged_by": dataset.judged_by}] if dataset.judged_by else (),
        "answers": (
            {
                "query_id": reference.query_id,
                "answer": reference.answer,
                "facts": [{"text": f.text, "accept": list(f.accept)} for f in reference.facts],
                "documents": list(reference.documents),
            }
            for reference in dataset.answers.values()
        ),
        "queries": (
            {"_id": query.id, "text": query.text, "metadata": {"tags": query.tags}}
            for query in dataset.queries.values()
        ),
    }
    for name, rows in tables.items():
        lines = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        if lines:
            write_file(folder / f"{name}.jsonl", lines)
    for split, judgments in dataset.judgments.items():
        write_file(folder / "qrels" / f"{split}.tsv", beir_qrels(judgments))


def require_new_folder(folder: Path) -> None:
    """Raise `UsageError` if files in `folder` would be overwritten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty; name another folder, or delete it first")


def write_new_beir(
    dataset: Dataset, folder: Path, files: Mapping[str, bytes] | None = None
) -> None:
    """Write a data set and further `files` into a new or empty folder, all or nothing."""
    folder = folder.expanduser().absolute()
    require_new_folder(folder)
    try:
        with staging_folder(folder) as staging:
            write_beir(dataset, staging / folder.name)
            for name, content in (files or {}).items():
                (staging / folder.name / name).write_bytes(content)
            if folder.exists():  # a folder is not renamed over another one everywhere
                folder.rmdir()
            (staging / folder.name).rename(folder)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=folder) from error


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
    judged: dict[str, dict[str, int]] = {}
    _collect(_rows_by_id(queries, "queries", "query_id"), _query, Findings(), asked.setdefault)
    if not asked or not all(query.text for query in asked.values()):
        raise DataError("queries must be texts, at least one, such as {'q1': 'How long?'}")
    if documents is not None:
        given = _rows_by_id(documents, "documents", "doc_id")
        _collect(given, _document, Findings(), found.setdefault)
    if isinstance(judgments, Mapping):
        rows = []
        for query_id, grades in judgments.items():
            if isinstance(grades, str) or not isinstance(grades, Iterable):
                what = f"judgments: query {query_id!r} must have {{id: grade}} or a list of ids"
                raise DataError(f"{what}, got {short_repr(grades)}")
            graded = grades if isinstance(grades, Mapping) else dict.fromkeys(grades, 1)
            rows += [{"query_id": query_id, "doc_id": d, "grade": g} for d, g in graded.items()]
        judgments = rows
    findings = Findings()
    for row in findings.sound(memory_rows(judgments, "judgments")):
        with findings.errors_collected(row):
            if (query_id := _add_judgment(row, judged)) not in asked:
                raise ValueError(f"there is no query {query_id!r}")
    references = {}
    for key, answer in (answers or {}).items():
        if (query_id := str(key)) not in asked:
            raise DataError(f"answers: there is no query {query_id!r}")
        relevant = tuple(doc_id for doc_id, grade in judged.get(query_id, {}).items() if grade > 0)
        references[query_id] = ReferenceAnswer(query_id, answer, (), relevant)
    return Dataset(name, found, asked, {split: judged}, references)


def _rows_by_id(values: object, source: str, key: str) -> Iterator[Record | DataError]:
    """Rows as they are; `{id: value}` becomes a row with its id as the column `key`."""
    if isinstance(values, Mapping):
        values = [
            {**(value if isinstance(value, Mapping) else {"text": value}), key: identifier}
            for identifier, value in values.items()
        ]
    return memory_rows(values, source)
