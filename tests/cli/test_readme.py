"""The README shows what the command really prints."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunAssay = Callable[..., "subprocess.CompletedProcess[str]"]
README = Path(__file__).parents[2] / "README.md"

# The kernels of the embedding model differ from processor to processor, by a rounding here and
# there; of the 104 queries that may move one or two.
NEAR = 0.02
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def without_timings(text: str) -> str:
    """Latency and the run's name differ from run to run."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(re.sub(r"^(latency|run) .*", r"\1", line) for line in lines)


@pytest.mark.slow
def test_the_table_in_the_readme_is_the_one_that_is_printed(run_assay: RunAssay) -> None:
    shown = re.search(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    done = run_assay("eval", "--dataset", "notes", "--baseline", "builtin:bm25")
    assert done.returncode == 0, done.stderr
    printed, promised = without_timings(done.stdout), without_timings(shown[1])
    assert _words(printed) == _words(promised)
    for ours, theirs in zip(_figures(printed), _figures(promised), strict=True):
        assert ours == pytest.approx(theirs, abs=NEAR)


def _words(text: str) -> list[str]:
    return _NUMBER.sub("#", text).split()


def _figures(text: str) -> list[float]:
    """Those of the metrics: with a point, and no share of a ceiling."""
    return [float(each) for each in re.findall(r"\d+\.\d{4}", text)]


def test_every_page_that_the_readme_names_is_there() -> None:
    for page in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / page).is_file(), page
