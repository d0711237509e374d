"""The share of `src` that the tests execute: `pytest -p tests.line_coverage`.

Before Python 3.12, `coverage` traces every line each time that it runs, which more than doubles
what tests in Python cost. `slipcover` marks each line in the bytecode, and takes the mark out once
it was seen. What is a statement, the report and the limit are those of `coverage`. Commands in
processes of `tests.forked` are measured unless they are killed; other processes are not.
"""

import io
import json
import os
import tempfile
from pathlib import Path
from types import CodeType

import coverage
import pytest
import slipcover

SOURCE = Path(__file__).parents[1] / "src" / "assay"
FEWEST_PERCENT = 96
FOLDER_VARIABLE = "ASSAY_LINE_COVERAGE"
"""By which workers, and the commands that they start, know where to write what they have seen."""


class _Marks(slipcover.Slipcover):  # type: ignore[misc]  # it has no types
    """Marks without the list of all lines, which takes `slipcover` as long again."""

    def instrument(self, co: CodeType, parent: CodeType | None = None) -> CodeType:
        marked: CodeType = super().instrument(co, parent or co)
        if parent is None:
            self.instrumented[co.co_filename].add(marked)
        return marked


# How often a line runs before marks are taken out. That looks at every function of the package, for
# 15 ms; with 20,000 instead of 300, the tests of reports and answers take 6% more processor time.
_marks = _Marks(d_miss_threshold=300)
_files = slipcover.FileMatcher(sources=[SOURCE])
slipcover.ImportManager(_marks, _files).__enter__()
slipcover.wrap_pytest(_marks, _files)  # which imports whatever belongs to one of its plugins


@pytest.hookimpl(tryfirst=True)  # before the fork server starts, which needs the variable
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="assay-coverage-")
        config.add_cleanup(folder.cleanup)
        os.environ[FOLDER_VARIABLE] = folder.name


def pytest_sessionfinish() -> None:
    write_seen(os.environ[FOLDER_VARIABLE])


def write_seen(folder: str) -> None:
    for name, lines in _marks.newly_seen.items():
        _marks.all_seen[name] |= lines
    seen = {name: sorted(lines) for name, lines in _marks.all_seen.items()}
    path = Path(folder) / f"{os.getpid()}.json"
    path.write_text(json.dumps(seen), encoding="utf-8")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the share, and let the session fail where it is too small: in the process that has
    what all workers have seen.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    measured = coverage.Coverage(data_file=None, source=[str(SOURCE)], config_file=False)
    data = measured.get_data()
    for path in Path(os.environ[FOLDER_VARIABLE]).glob("*.json"):
        seen = json.loads(path.read_text(encoding="utf-8"))
        data.add_lines({str(Path(name).resolve()): lines for name, lines in seen.items()})
    data.touch_files([str(path) for path in SOURCE.rglob("*.py")])  # also if no test imports them
    terminalreporter.section("lines of src/assay that the tests execute")
    table = io.StringIO()
    percent = measured.report(file=table, skip_covered=True, precision=1)
    terminalreporter.write(table.getvalue())
    if percent < FEWEST_PERCENT:
        pytest.exit(f"{percent:.1f}% of src is executed, less than {FEWEST_PERCENT}%", returncode=1)
