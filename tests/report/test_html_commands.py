"""`assay report --html`, `assay compare --html`, and the page that every `assay eval` leaves."""

from pathlib import Path

from tests import forked
from tests.report.page_reading import assert_harmless, read_page


def test_pages_of_runs_and_of_comparisons_are_written(tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text("def nothing(query, top_k):\n    return []\n")

    def assay(*arguments: str) -> str:
        done = forked.run(forked.ASSAY, *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return str(done.stderr)

    options = ("--dataset", "notes", "--num-queries", "20", "--retries", "0")
    assay("eval", "builtin:bm25", "--baseline", "python:target:nothing", *options)
    run, baseline = sorted(path.name for path in (tmp_path / "runs").iterdir())
    left = read_page((tmp_path / "runs" / run / "report.html").read_text())
    assert "Against the baseline" in left.text
    assert "builtin:bm25 is significantly better" in left.text
    assert "wrote out.html" in assay("report", run, "--html", "out.html")
    page = read_page((tmp_path / "out.html").read_text())
    assert_harmless(page)
    assert "Ideal" in page.text  # the data set was found for it
    assay("compare", baseline, run, "--html", "two.html")
    page = read_page((tmp_path / "two.html").read_text())
    assert_harmless(page)
    assert "builtin:bm25 got better than python:target:nothing" in page.text
    header = tmp_path / "runs" / baseline / "run.json"
    header.write_text(header.read_text().replace('"dataset": "notes"', '"dataset": "gone"'))
    assert "without grades and texts" in assay("report", baseline, "--html", "ids.html")
    page = read_page((tmp_path / "ids.html").read_text())
    assert_harmless(page)
    assert "The data set is not on this machine" in page.text
