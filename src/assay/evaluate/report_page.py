"""`report.html` beside `report.json`: the same run, to look at."""

from pathlib import Path

from assay.data.dataset import Dataset
from assay.evaluate.report_reading import read_rows
from assay.evaluate.run_folder import RunFolder, write_atomically

NAME = "report.html"


def write_report_page(folder: RunFolder, dataset: Dataset | None) -> Path:
    """Without `dataset` the page has no grades, titles and texts, and says so."""
    path = folder.path / NAME
    write_atomically(path, report_page(folder, dataset).encode())
    return path


def report_page(folder: RunFolder, dataset: Dataset | None) -> str:
    from assay.report.html import render_run  # templates are read only where a page is made

    head = folder.read_head()
    return render_run(head, read_rows(folder.report), name=folder.name, dataset=dataset)
