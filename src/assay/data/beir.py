"""Data sets in a folder or zip, in the layout of BEIR or of a model hub; and writing them.

What a file holds follows from its path:

    corpus.jsonl             queries.jsonl               qrels/test.tsv          (BEIR)
    corpus.jsonl.gz          queries.jsonl.gz            qrels/test.jsonl        (MTEB)
    corpus/corpus-*.parquet  queries/queries-*.parquet   data/test-*.parquet     (hubs)
    de-corpus/test-*.parquet de-queries/test-*.parquet   de-qrels/test-*.parquet (languages)

Optional: answers.jsonl for agents that answer, judged_by.jsonl if a model made judgments.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from assay.data.archive import archive_files
from assay.data.collection import (
    drop_unknown_queries,
    read_documents,
    read_grades,
    read_queries,
)
from assay.data.dataset import Dataset, Document, Fact, Judgments, Query, ReferenceAnswer
from assay.data.qrels import beir_qrels
from assay.data.text_file import (
    Findings,
    Record,
    TextFile,
    files_below,
    plain_file,
    records,
    short_repr,
    write_file,
)
from assay.errors import DataError, UsageError, did_you_mean
from assay.files import staging_folder
from assay.net.json import JsonObject, parse_object

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
_PLAIN_FOLDERS = ("", "data", "default")
_SPLITS = ("test", "dev", "train", "validation", "val", "trial")


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
        names = {each.relative_to(path).as_posix() for each in files_below(path, MAX_FILES)}
        packed = {each for each in names if each.endswith(".gz") and each[:-3] in names}
        return {each: plain_file(path / each) for each in names - packed}
    if path.suffix.lower() == ".zip" or (path.is_file() and zipfile.is_zipfile(path)):
        return archive_files(path)
    what = "is neither a folder nor a zip archive" if path.exists() else "does not exist"
    raise DataError(f"{what}; {_NEEDED}", file=path)


def sort_files(paths: Iterable[str]) -> dict[str, DatasetFiles]:
    """The files of each data set by its configuration; "" is the one without a name."""
    found: dict[str, DatasetFiles] = defaultdict(DatasetFiles)
    for path in sorted(paths):
        placed = _place(path)
        if placed is None:
            continue
        role, config, split = placed
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
    if config in usable:
        return usable[config]
    named = sorted(key for key in usable if key)
    if config:
        hint = did_you_mean(config, named)
        known = f"it has: {', '.join(named[:40])}" if named else "it has no configurations"
        raise UsageError(f"data set {name!r} has no configuration {config!r}; {known}{hint}")
    if len(named) == 1:
        return usable[named[0]]
    if named:
        raise UsageError(
            f"data set {name!r} has several configurations; pass the folder of one, on a hub "
            f"{name}#CONFIG: {', '.join(named[:40])}"
        )
    hint = (
        ". Documents without questions: assay data questions makes some"
        if any(each.corpus for each in found.values())
        else ""
    )
    raise DataError(f"{name}: has no queries; {_NEEDED}{hint}")


def read_files(
    paths: DatasetFiles, files: Mapping[str, TextFile], name: str, findings: Findings
) -> Dataset:
    """The data set in these files."""
    documents: Mapping[str, Document] = {}
    queries: dict[str, Query] = {}
    judgments: dict[str, Judgments] = {}
    answers: dict[str, ReferenceAnswer] = {}
    judged_by = ""
    with findings.errors_collected():
        if paths.corpus:
            documents = read_documents([files[each] for each in paths.corpus], findings)
    with findings.errors_collected():
        queries = read_queries([files[each] for each in paths.queries], findings)
    for split, members in sorted(paths.qrels.items()):
        with findings.errors_collected():
            grades = _joined([files[each] for each in members], findings)
            label = PurePosixPath(members[0]).name
            if not grades:
                findings.note("splits without judgments", repr(label))
            judgments[split] = drop_unknown_queries(grades, label, documents, queries, findings)
    if not judgments:
        findings.note("data sets without qrels, so no ranking can be measured", repr(name))
    for each in paths.answers:
        with findings.errors_collected():
            answers |= _read_answers(files[each], documents, queries, findings)
    for each in paths.judged_by:
        judged_by = _judged_by(files[each])
    return Dataset(name, documents, queries, judgments, answers, findings.messages, judged_by)


def _joined(files: Sequence[TextFile], findings: Findings) -> dict[str, dict[str, int]]:
    """The judgments of all files; a document with two grades for a query is refused."""
    judgments = read_grades(files[0], findings)
    for file in files[1:]:
        for query_id, grades in read_grades(file, findings).items():
            known = judgments.setdefault(query_id, {})
            for doc_id, grade in grades.items():
                if (earlier := known.setdefault(doc_id, grade)) != grade:
                    what = (
                        f"document {doc_id!r} has grade {grade} for query {query_id!r}, but "
                        f"{earlier} in an earlier file of this split; delete one of the two"
                    )
                    findings.refuse(DataError(what, file=file.label))
    return judgments


def _place(path: str) -> tuple[str, str, str] | None:
    """What a file holds, of which configuration, and for judgments of which split."""
    pure = PurePosixPath(path)
    name = pure.name.removesuffix(".gz")
    ending = next((each for each in _ENDINGS if name.endswith(each)), None)
    if ending is None or any(part.startswith((".", "__MACOSX")) for part in pure.parts):
        return None
    stem = _SHARD.sub("", name.removesuffix(ending))
    folders = [each for each in pure.parts[:-1] if each not in _PLAIN_FOLDERS]
    role, rest = _role(stem)
    if role is not None:
        config, split = ("", rest) if rest in _SPLITS else (rest, _SPLITS[0])
        return role, config or _config_of(folders), split
    for folder in reversed(folders):
        role, _ = _role(folder)
        if role is not None:
            return role, _config_of(folders), stem
    if len(pure.parts) > 1 and stem in _SPLITS:  # data/test-*.parquet, de/test-*.parquet
        return "qrels", _config_of(folders), stem
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
    lowered = word.lower()
    if lowered in _ROLES:
        return _ROLES[lowered], ""
    for separator in ("-", "_"):
        before, _, last = lowered.rpartition(separator)
        if last in _ROLES and before:
            return _ROLES[last], word[: len(before)]
        first, _, after = lowered.partition(separator)
        if first in _ROLES and after:
            return _ROLES[first], word[len(first) + 1 :]
    return None, ""


def _judged_by(file: TextFile) -> str:
    """Which judgments a model made; data sets of people have no such file."""
    fields = parse_object("".join(text for _, text in file.lines()))
    words = fields.get("judged_by") if fields else None
    if not isinstance(words, str) or not words.strip():
        raise DataError(
            'must be an object with a text "judged_by", as {"judged_by": "..."}', file=file.label
        )
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


def write_beir(dataset: Dataset, folder: Path) -> None:
    """Write a data set; read back, it has the same fingerprint and reference answers.

    A file that would be empty is not written: corpus.jsonl, answers.jsonl.
    """
    documents = (
        {"_id": d.id, "title": d.title, "text": d.text, "metadata": dict(d.metadata)}
        for d in dataset.documents.values()
    )
    queries = (
        {"_id": query.id, "text": query.text, "metadata": {"tags": query.tags}}
        for query in dataset.queries.values()
    )
    if dataset.documents:
        _write_lines(folder / "corpus.jsonl", documents)
    if dataset.judged_by:
        _write_lines(folder / "judged_by.jsonl", [{"judged_by": dataset.judged_by}])
    if dataset.answers:
        _write_lines(folder / "answers.jsonl", map(_answer_record, dataset.answers.values()))
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
