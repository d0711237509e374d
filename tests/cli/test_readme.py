"""The README shows what the command really prints."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunAssay = Callable[..., "subprocess.CompletedProcess[str]"]
README = Path(__file__).parents[2] / "README.md"


def without_timings(text: str) -> list[str]:
    """Latency and the run's name differ from run to run; everything else must not."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return [re.sub(r"^(latency|run) .*", r"\1", line) for line in lines]


@pytest.mark.slow
def test_the_table_in_the_readme_is_the_one_that_is_printed(run_assay: RunAssay) -> None:
    shown = re.search(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    done = run_assay("eval", "--dataset", "notes", "--baseline", "builtin:bm25")
    assert done.returncode == 0, done.stderr
    assert without_timings(done.stdout) == without_timings(shown[1])


def test_every_page_that_the_readme_names_is_there() -> None:
    for page in re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / page).is_file(), page
