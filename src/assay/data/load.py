"""Data sets by name or by path."""

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from assay.data.beir import read_beir
from assay.data.dataset import Dataset
from assay.data.hub_layout import is_hub_folder, read_hub_folder
from assay.data.nfcorpus import cached_archive, find_archive
from assay.data.questions import COLUMNS, read_questions
from assay.data.sources import similar_name, source_of
from assay.data.table import SUFFIXES, parse_columns, table_suffix
from assay.data.text_file import Findings
from assay.errors import UsageError, did_you_mean
from assay.progress import Progress, silent

KNOWN = {
    "nfcorpus": "medical questions and abstracts; downloaded once, 2.4 MB, academic use only",
    "notes": "personal and work notes with reference answers; bundled with Assay",
}


def load_dataset(
    name: str | Path,
    *,
    archive: Path | None = None,
    columns: Mapping[str, str] | Sequence[str] = (),
    progress: Progress = silent,
) -> Dataset:
    """Load a data set.

        >>> load_dataset("notes")
        <Dataset notes: 230 documents, 120 queries, splits test (120), 120 answers>

    Args:
        name: "nfcorpus", "notes", the path of a folder or zip in BEIR format or of a folder in
            MTEB's, or that of a table of questions (.csv, .tsv, .jsonl, .json, .parquet). A known
            name wins over a folder of that name: write "./notes" for the folder. "beir:NAME",
            "hf:ORG/NAME" and "ir_datasets:NAME" are downloaded once.
        archive: An nfcorpus.zip on this machine, instead of the cache or a download.
        columns: For a table: names of columns that are called otherwise, `{"query": "Frage"}` or
            `["query=Frage,ids=docs"]`.
        progress: Called as a download proceeds.

    Raises:
        UsageError: There is no data set of that name.
        DataError: Its files are wrong; the message names file and line.
        DownloadError: It could not be downloaded.
    """
    return read_dataset(name, archive, columns, progress)


def read_dataset(
    name: str | Path,
    archive: Path | None,
    columns: Mapping[str, str] | Sequence[str],
    progress: Progress,
    findings: Findings | None = None,
) -> Dataset:
    """See `load_dataset`; `findings` may collect the errors of a data set that is checked."""
    if columns and not is_table(name):
        raise UsageError(
            f"columns can be named only for a table ({', '.join(SUFFIXES)}), not for {str(name)!r}"
        )
    if name == "nfcorpus":
        return read_beir(find_archive(archive, progress), "nfcorpus", findings)
    if archive is not None:
        raise UsageError(
            f"an archive can be passed only for 'nfcorpus', not for {str(name)!r}; "
            "pass another archive as the data set itself: --dataset FILE"
        )
    if name == "notes":
        return read_beir(Path(__file__).parent / "notes", "notes", findings)
    require_dataset(name)
    if (source := source_of(name)) is not None and not Path(name).exists():
        return source.read(str(name), findings, progress)
    path = Path(name).expanduser()
    if is_table(path):
        return read_questions(path, column_names(columns), findings)
    if is_hub_folder(path):
        return read_hub_folder(path, findings)
    return read_beir(path, findings=findings)


def column_names(columns: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    """`["query=Frage,ids=docs"]` as a mapping; a mapping as it is."""
    return columns if isinstance(columns, Mapping) else parse_columns(columns, COLUMNS)


def is_table(name: str | Path) -> bool:
    """Whether a data set is named by the path of a table, by its suffix."""
    path = Path(name).expanduser()
    return table_suffix(path) in SUFFIXES and not path.is_dir() and source_of(name) is None


def require_dataset(name: str | Path) -> None:
    """Raise `UsageError` for an unknown name, before anything slow begins."""
    if name in KNOWN or source_of(name) is not None or Path(name).expanduser().exists():
        return
    near = similar_name(str(name), KNOWN)
    hint = f". Did you mean {near!r}?" if near else did_you_mean(str(name), _files_beside(name))
    raise UsageError(
        f"no data set {str(name)!r}: the known names are {', '.join(KNOWN)}, and "
        "beir:NAME, hf:ORG/NAME and ir_datasets:NAME; or pass the path of a folder or zip in BEIR "
        f"format, or of a table of questions (.csv, .tsv, .jsonl, .parquet){hint}"
    )


def _files_beside(name: str | Path) -> list[str]:
    """What is in the folder of a path that does not exist, of which one may have been meant."""
    path = Path(name).expanduser()
    try:
        return [str(path.parent / each.name) for each in islice(path.parent.iterdir(), 1000)]
    except OSError:
        return []


def is_here(name: str) -> bool:
    """Whether a data set can be read without a network."""
    if name == "nfcorpus":
        return bool(os.environ.get("NFCORPUS_ARCHIVE")) or cached_archive().is_file()
    source = source_of(name)
    return source is None or Path(name).exists() or source.is_here(name)
