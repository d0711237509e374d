"""Options of the last release still work, with one line that names today's."""

from pathlib import Path

from tests.system.conftest import Assay


def test_the_parameters_of_bm25_have_one_option(assay: Assay, tmp_path: Path) -> None:
    old = ("search", "frost", "--dataset", "notes", "--mode", "bm25", "--json")
    earlier = assay(*old, "--bm25-k1", "0.5", "--bm25-title-weight=1")
    today = assay(*old, "--bm25", "k1=0.5,title_weight=1")
    assert earlier.returncode == today.returncode == 0
    assert earlier.stdout == today.stdout
    assert earlier.stderr.count("--bm25-k1 is now --bm25 k1=VALUE") == 1
    assert "warning" not in today.stderr
    assert assay(*old).stdout != today.stdout
