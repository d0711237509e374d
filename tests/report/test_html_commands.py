"""`assay report --html`, `assay compare --html`, and the page that every `assay eval` leaves."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked
from tests.report.page_reading import assert_harmless, read_page

RunAssay = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    (folder / "target.py").write_text("def nothing(query, top_k):\n    return []\n")
    return folder


@pytest.fixture(scope="module")
def run_assay(folder: Path) -> RunAssay:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return forked.run(forked.ASSAY, *arguments, cwd=folder)

    return run


@pytest.fixture(scope="module")
def pair(folder: Path, run_assay: RunAssay) -> list[str]:
    """A run of BM25, with its baseline."""
    options = ("--dataset", "notes", "--num-queries", "20", "--retries", "0")
    done = run_assay("eval", "builtin:bm25", "--baseline", "python:target:nothing", *options)
    assert done.returncode == 0, done.stderr
    return sorted(path.name for path in (folder / "runs").iterdir())


def test_the_page_of_an_evaluation_holds_its_baseline(folder: Path, pair: list[str]) -> None:
    page = read_page((folder / "runs" / pair[0] / "report.html").read_text())
    assert "Against the baseline" in page.text
    assert "builtin:bm25 is significantly better" in page.text


def test_report_writes_the_page_where_it_is_told(
    folder: Path, pair: list[str], run_assay: RunAssay
) -> None:
    done = run_assay("report", pair[0], "--html", "out.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert "wrote out.html" in done.stderr
    page = read_page((folder / "out.html").read_text())
    assert_harmless(page)
    assert "Ideal" in page.text  # the data set was found for it


def test_compare_writes_a_page_of_two_runs_and_of_more(
    folder: Path, pair: list[str], run_assay: RunAssay
) -> None:
    assert run_assay("compare", pair[1], pair[0], "--html", "two.html").returncode == 0
    page = read_page((folder / "two.html").read_text())
    assert_harmless(page)
    assert "builtin:bm25 got better than python:target:nothing" in page.text
    third = shutil.copytree(folder / "runs" / pair[0], folder / "runs" / f"{pair[0]}-again")
    try:
        done = run_assay("compare", pair[1], pair[0], third.name, "--html", "three.html")
    finally:
        shutil.rmtree(third)
    assert done.returncode == 0
    page = read_page((folder / "three.html").read_text())
    assert len(page.tags("tr")) > 20
    assert pair[1] in page.text


def test_without_the_data_the_page_is_made_and_a_warning_says_what_is_missing(
    folder: Path, pair: list[str], run_assay: RunAssay
) -> None:
    header = folder / "runs" / pair[1] / "run.json"
    kept = header.read_text()
    header.write_text(kept.replace('"dataset": "notes"', '"dataset": "gone"'))
    try:
        done = run_assay("report", pair[1], "--html", "ids.html")
    finally:
        header.write_text(kept)
    assert done.returncode == 0
    assert "without grades and texts" in done.stderr
    assert "not on this machine" in (folder / "ids.html").read_text()
