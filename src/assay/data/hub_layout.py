"""Data sets as model hubs keep them: BEIR and MTEB, in Parquet or JSON lines, with configurations.

Which file holds what follows from its path, in every layout that is in use:

    corpus.jsonl.gz          queries.jsonl.gz            qrels/test.tsv          (BEIR, MTEB)
    corpus/corpus-*.parquet  queries/queries-*.parquet   data/test-*.parquet     (MTEB, BEIR)
    data/corpus-*.parquet    data/queries-*.parquet      NAME-qrels: data/dev-*.parquet
    de-corpus/test-*.parquet de-queries/test-*.parquet   de-qrels/test-*.parquet (languages)
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from assay.data.collection import drop_unknown_queries, read_documents, read_grades, read_queries
from assay.data.dataset import Dataset, Judgments
from assay.data.text_file import Findings, files_below
from assay.errors import DataError, UsageError, did_you_mean

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
}
_PLAIN_FOLDERS = ("", "data", "default")
_SPLITS = ("test", "dev", "train", "validation", "val", "trial")
_DEFAULT_SPLIT = "test"
MAX_FILES = 2000


@dataclass(slots=True)
class HubFiles:
    """The files of one configuration, by what they hold; qrels by split."""

    corpus: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    qrels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def all_paths(self) -> list[str]:
        """Every file that is needed."""
        judged = [path for paths in self.qrels.values() for path in paths]
        return [*self.corpus, *self.queries, *judged]


def hub_files(paths: Iterable[str]) -> dict[str, HubFiles]:
    """The files of a data set by configuration; "" is the one without a name."""
    found: dict[str, HubFiles] = defaultdict(HubFiles)
    for path in sorted(paths):
        placed = _place(path)
        if placed is None:
            continue
        role, config, split = placed
        files = found[config]
        if role == "corpus":
            files.corpus.append(path)
        elif role == "queries":
            files.queries.append(path)
        else:
            files.qrels.setdefault(split, []).append(path)
    return _shared(found)


def choose_config(found: Mapping[str, HubFiles], config: str, name: str) -> HubFiles:
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
            f"data set {name!r} has several configurations; write {name}#CONFIG with one of: "
            f"{', '.join(named[:40])}"
        )
    raise UsageError(
        f"{name!r} is not a retrieval data set: it has no file of queries and none of a corpus "
        "(corpus.jsonl, corpus/*.parquet, queries.jsonl, queries/*.parquet, qrels/*.tsv)"
    )


def read_hub_files(
    files: HubFiles, local: Mapping[str, Path], name: str, findings: Findings
) -> Dataset:
    """The data set in these files; `local` says where each is on this machine."""
    documents, queries = {}, {}
    judgments: dict[str, Judgments] = {}
    with findings.errors_collected():
        if files.corpus:
            documents = read_documents([local[path] for path in files.corpus], findings)
    with findings.errors_collected():
        queries = read_queries([local[path] for path in files.queries], findings)
    for split, paths in sorted(files.qrels.items()):
        with findings.errors_collected():
            grades = _joined(paths, local, findings)
            judgments[split] = drop_unknown_queries(grades, split, documents, queries, findings)
    if not judgments:
        findings.note("data sets without qrels, so no ranking can be measured", repr(name))
    return Dataset(name, documents, queries, judgments, {}, findings.messages)


def read_hub_folder(path: Path, findings: Findings) -> Dataset:
    """A folder in one of these layouts, such as a clone of a hub's repository."""
    found = folder_files(path)
    local = {each: path / each for files in found.values() for each in files.all_paths}
    name = path.resolve().name
    return read_hub_files(choose_config(found, "", name), local, name, findings)


def folder_files(path: Path) -> dict[str, HubFiles]:
    """The files of a folder, by configuration."""
    return hub_files(p.relative_to(path).as_posix() for p in files_below(path, MAX_FILES))


def is_hub_folder(path: Path) -> bool:
    """Whether a folder has queries and judgments in such a layout, and is not in BEIR format."""
    if not path.is_dir() or any(path.glob("qrels/*.tsv*")) or any(path.glob("*/qrels/*.tsv*")):
        return False
    return any(files.queries and files.qrels for files in folder_files(path).values())


def _joined(
    paths: Sequence[str], local: Mapping[str, Path], findings: Findings
) -> dict[str, dict[str, int]]:
    """The judgments of all files; a document with two grades for a query is refused."""
    judgments: dict[str, dict[str, int]] = {}
    for path in paths:
        for query_id, grades in read_grades(local[path], findings).items():
            known = judgments.setdefault(query_id, {})
            for doc_id, grade in grades.items():
                if (earlier := known.setdefault(doc_id, grade)) != grade:
                    what = (
                        f"document {doc_id!r} has grade {grade} for query {query_id!r}, but "
                        f"{earlier} in an earlier file of this split; delete one of the two"
                    )
                    findings.refuse(DataError(what, file=local[path]))
    return judgments


def _place(path: str) -> tuple[str, str, str] | None:
    """What a file holds, of which configuration, and for judgments of which split."""
    pure = PurePosixPath(path)
    name = pure.name.removesuffix(".gz")
    ending = next((each for each in _ENDINGS if name.endswith(each)), None)
    if ending is None:
        return None
    stem = _SHARD.sub("", name.removesuffix(ending))
    folders = [each for each in pure.parts[:-1] if each not in _PLAIN_FOLDERS]
    role, rest = _role(stem)
    if role is not None:
        config, split = ("", rest) if rest in _SPLITS else (rest, _DEFAULT_SPLIT)
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


def _shared(found: Mapping[str, HubFiles]) -> dict[str, HubFiles]:
    """A corpus, or queries, without a configuration belong to each that has none of its own."""
    whole = found.get("", HubFiles())
    shared = {}
    for config, files in found.items():
        shared[config] = HubFiles(
            files.corpus or whole.corpus, files.queries or whole.queries, files.qrels
        )
    return shared
