"""`report.html` beside `report.json`: the same run, to look at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.data.dataset import Dataset
from assay.evaluation.report_reading import read_rows
from assay.evaluation.run_folder import RunFolder
from assay.files import atomic_write

NAME = "report.html"


def write_report_page(folder: RunFolder, dataset: Dataset | None) -> Path:
    """Without `dataset` the page has no grades, titles and texts, and says so."""
    path = folder.path / NAME
    atomic_write(path, report_page(folder, dataset).encode())
    return path


def report_page(folder: RunFolder, dataset: Dataset | None) -> str:
    from assay.report.html import render_run  # templates are read only where a page is made

    return render_run(
        folder.read_head(),
        read_rows(folder.report),
        name=folder.name,
        dataset=dataset,
        answers=read_answer_rows(folder),
    )


def read_answer_rows(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """None where answers were not evaluated."""
    return folder.read_answers() if folder.answers.exists() else iter(())
