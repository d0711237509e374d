"""Data sets by name or by path: loaded up to the first error, or checked for all that is wrong."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path

from assay.data.beir import read_beir
from assay.data.dataset import UNANSWERABLE, Dataset
from assay.data.public_sources import BEIR_HASHES, SOURCES, DataReader, require_network
from assay.data.question_table import COLUMNS, read_questions
from assay.data.table import SUFFIXES, parse_columns, require_readable_table, table_suffix
from assay.data.text_file import Findings
from assay.errors import UsageError, did_you_mean
from assay.extras import find_plugin, load_plugin
from assay.progress import Progress, silent

KNOWN = {
    "nfcorpus": "medical questions and abstracts; downloaded once, 2.4 MB, academic use only",
    "notes": "personal and work notes with reference answers; bundled with Assay",
}
# Entry points of other packages: a function NAME -> `Dataset` for names `PREFIX:NAME`.
GROUP = "assay.datasets"


def load_dataset(
    name: str | Path,
    *,
    columns: Mapping[str, str] | Sequence[str] = (),
    progress: Progress = silent,
) -> Dataset:
    """Load a data set.

        >>> load_dataset("notes")
        <Dataset notes: 230 documents, 120 queries, splits test (120), 120 answers>

    `name` is "nfcorpus", "notes", "beir:NAME", "hf:ORG/NAME", "ir_datasets:NAME", or the path of a
    folder or zip in BEIR's or MTEB's layout or of a table of questions. A known name wins over a
    folder of that name: write "./notes" for the folder. `columns` names the columns of a table
    that are called otherwise, `{"query": "prompt"}` or `["query=prompt,ids=docs"]`.

    Raises `UsageError` for an unknown name, and `DataError` for wrong files, with file and line.
    """
    return _read(name, columns, progress, Findings())


def _read(
    name: str | Path,
    columns: Mapping[str, str] | Sequence[str],
    progress: Progress,
    findings: Findings,
) -> Dataset:
    if not isinstance(name, str | PathLike):
        raise UsageError(
            f"a data set is a name or a path, got {type(name).__name__}; make one from values "
            "with assay.Dataset.from_dicts or from_rows"
        )
    if columns and not is_table(name):
        raise UsageError(
            f"columns can be named only for a table ({', '.join(SUFFIXES)}), not for {str(name)!r}"
        )
    require_dataset(name)
    path = Path(name).expanduser()
    if name == "notes":
        return read_beir(Path(__file__).parent / "notes", "notes", findings)
    if (read := source_of(name)) is not None and (name in KNOWN or not path.exists()):
        return read(str(name), findings, progress)
    if is_table(path):
        named = columns if isinstance(columns, Mapping) else parse_columns(columns, COLUMNS)
        return read_questions(path, named, findings)
    return read_beir(path, findings=findings)


def is_table(name: str | Path) -> bool:
    """Whether a data set is named by the path of a table, by its suffix."""
    path = Path(name).expanduser()
    return table_suffix(path) in SUFFIXES and not path.is_dir() and source_of(name) is None


def require_dataset(name: str | Path) -> None:
    """Raise `UsageError` for an unknown name, before anything slow begins."""
    path = Path(name).expanduser()
    if name in KNOWN or source_of(name) is not None or (str(name) != "" and path.exists()):
        require_readable_table(path)
        return
    files = [str(file) for file in islice(path.parent.glob("*"), 1000)]
    if table_suffix(path) in (*SUFFIXES, ".zip"):
        raise UsageError(f"{name}: no such file{did_you_mean(str(name), files)}")
    rest = str(name).partition(":")[2]
    sources = [f"{prefix}:{rest}" for prefix in SOURCES if rest]
    known = [*KNOWN, *(f"beir:{name}" for name in BEIR_HASHES), *sources, *files]
    hint = did_you_mean(str(name), known)
    raise UsageError(
        f"no data set {str(name)!r}: pass {', '.join(KNOWN)}, "
        f"{', '.join(f'{prefix}:NAME' for prefix in SOURCES)}, or the path of a folder, a zip or "
        f"a table (.csv, .tsv, .jsonl, .parquet){hint}"
    )


def source_of(name: object) -> DataReader | None:
    """What reads the source that a name begins with; None for names and paths without one."""
    prefix, _, rest = ("beir:nfcorpus" if name == "nfcorpus" else str(name)).partition(":")
    if rest and prefix in SOURCES:
        return SOURCES[prefix][0]
    point = find_plugin(GROUP, prefix) if rest else None
    if point is None:
        return None

    def read(name: str, _findings: Findings, _progress: Progress) -> Dataset:
        require_network(name)
        dataset = load_plugin(point)(name.partition(":")[2])
        if not isinstance(dataset, Dataset):
            raise UsageError(
                f"{point.value} of {GROUP} must return a Dataset, got {type(dataset).__name__}"
            )
        return dataset

    return read


@dataclass(frozen=True, slots=True)
class DatasetCheck:
    """What a check found: how much could be read, the first thousand of `error_count` errors with
    file and line, and one warning for each kind with its count and places.
    """

    name: str
    documents: int
    queries: int
    judgments: int
    error_count: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def check_dataset(
    name: str | Path,
    *,
    columns: Mapping[str, str] | Sequence[str] = (),
    progress: Progress = silent,
) -> DatasetCheck:
    """Read a data set to its end and list what is wrong; see `load_dataset` for the parameters."""
    findings = Findings(collect=True)
    dataset = Dataset(str(name), {}, {}, {})
    with findings.errors_collected():
        dataset = _read(name, columns, progress, findings)
    for what, example in _doubtful(dataset):
        findings.note(what, example)
    judged = [grades for split in dataset.judgments.values() for grades in split.values()]
    return DatasetCheck(
        name=str(name),
        documents=len(dataset.documents),
        queries=len(dataset.queries),
        judgments=sum(map(len, judged)),
        error_count=findings.error_count,
        errors=tuple(map(str, findings.errors)),
        warnings=findings.messages,
    )


def _doubtful(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """What is allowed and probably a mistake, each with an example."""
    judged = {query_id for judgments in dataset.judgments.values() for query_id in judgments}
    for query in dataset.queries.values():
        answerable = UNANSWERABLE not in query.tags and query.id not in dataset.answers
        if query.id not in judged and answerable:
            yield "queries without any judgment, which no run asks", repr(query.id)
    for split, judgments in dataset.judgments.items():
        what = f"queries of split {split!r} whose documents are all judged not relevant"
        for query_id, grades in judgments.items():
            reference = dataset.answers.get(query_id)
            # If nothing answers it, that is what it asks for.
            unanswerable = reference is not None and reference.answer is None
            if grades and not unanswerable and max(grades.values()) <= 0:
                yield what, repr(query_id)
    texts = ((q.id, " ".join(q.text.casefold().split())) for q in dataset.queries.values())
    for same in _repeated(texts):
        yield "queries with the text of another one", same
    for same in _repeated((d.id, d.full_text) for d in dataset.documents.values()):
        yield "documents with the text of another one (a system cannot tell which is meant)", same


def _repeated(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    first: dict[str, str] = {}
    for identifier, text in texts:
        earlier = first.setdefault(text, identifier) if text else identifier
        if earlier != identifier:
            yield f"{identifier!r} as {earlier!r}"
