"""The README shows what the command really prints."""

import re
from pathlib import Path

import pytest
from tests.cli.conftest import RunAssay

README = Path(__file__).parents[2] / "README.md"

# The kernels of the embedding model differ from processor to processor, by a rounding here and
# there; of the 104 queries that may move one or two.
NEAR = 0.02
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.slow
def test_the_lines_in_the_readme_are_printed(run_assay: RunAssay) -> None:
    shown = re.search(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    done = run_assay("eval", "--dataset", "notes", "--baseline", "builtin:bm25")
    assert done.returncode == 0, done.stderr
    printed = {_words(line): line for line in done.stdout.splitlines()}
    for promised in filter(None, shown[1].splitlines()):
        assert _words(promised) in printed
        ours, theirs = map(_figures, (printed[_words(promised)], promised))
        assert ours == pytest.approx(theirs, abs=NEAR)


def _words(line: str) -> str:
    return " ".join(_NUMBER.sub("#", line).split())


def _figures(line: str) -> list[float]:
    """Those of the metrics: with a point, and no share of a ceiling."""
    return [float(each) for each in re.findall(r"\d+\.\d{4}", line)]


def test_every_page_that_the_readme_names_is_there() -> None:
    for page in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / page).is_file(), page
