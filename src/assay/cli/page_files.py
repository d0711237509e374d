"""Pages as files: a slice, a matrix and other parts of runs, written and shown in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.console import say, warn
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.run.folder import RunFolder


def share_slice(folder: "RunFolder", name: str, html: Path | None, in_browser: bool) -> None:
    """The queries of a slice as one file. Raises `UsageError`."""
    from assay.report.matrix import render_slice_page, rows_of_slice

    page = _shared_page("--slice", html, in_browser, "slice.html")
    dataset = dataset_of(folder)
    rows = rows_of_slice(folder, dataset, name)
    write_page(page, render_slice_page(folder, rows, dataset, name))
    if in_browser:
        open_page(page)


def share_matrix(folders: "list[RunFolder]", html: Path | None, in_browser: bool) -> None:
    """Every query of some runs as one file. Raises `UsageError`."""
    from assay.report.matrix import MATRIX_LIMIT, read_matrix, render_matrix_page

    page = _shared_page("--matrix", html, in_browser, "matrix.html")
    if len(folders) > MATRIX_LIMIT:
        raise UsageError(f"--matrix shows {MATRIX_LIMIT} runs at most, got {len(folders)}")
    found = read_matrix(folders, {})
    write_page(page, render_matrix_page(found, found.ordered("spread")))
    if in_browser:
        open_page(page)


def _shared_page(option: str, html: Path | None, in_browser: bool, name: str) -> Path:
    if html is None and not in_browser:
        raise UsageError(f"{option} makes a page: add --html FILE to keep it, or --open to see it")
    return html or temporary_page(name)


def dataset_of(folder: "RunFolder") -> "Dataset | None":
    """The data set of a run; a warning where it is missing."""
    from assay.run.folder import find_run_dataset

    dataset, why = find_run_dataset(folder.read_header())
    if dataset is None:
        warn(f"the page shows only ids, without grades and texts: {why}")
    return dataset


def write_page(path: Path, page: str) -> None:
    """Write a page and say where. Raises `UsageError`."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None
    say(f"wrote {path}")


def temporary_page(name: str = "comparison.html") -> Path:
    """A file for a page that is only to be seen."""
    import tempfile

    return Path(tempfile.mkdtemp(prefix="assay-")) / name


def open_page(path: Path) -> None:
    """Show a page in the browser."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        warn(f"no browser was found; open {path} yourself")
