"""Mutation testing of the core: change one thing in the code, and see whether a test notices.

    .venv/bin/python scripts/mutants.py [--sample 12 | --all | --at FILE[:LINE]] [AREA...]
    .venv/bin/python scripts/mutants.py --known

A sample of all mutants of each area is tried, the same for the same seed. The tests of the area run
once with coverage, which says which of them execute which line; each mutant then runs those of its
line, the nearest and quickest first, in a fork of this process, on a copy of the sources. `--known`
tries those that once survived. mutmut and cosmic-ray run the whole suite for each mutant.
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 3600
"""For all tests of an area, once, with coverage."""
LIMIT_OF_ONE_S = 300
"""For the tests of a mutant; one that does not end is noticed."""
SECONDS = 60.0
"""Of tests for each mutant."""
SECONDS_OF_ANY = 5.0
"""Of tests for a mutant of a line that only the import executes, which any test may notice."""


@dataclass(frozen=True)
class Area:
    """Modules, relative to `src/assay`, and the tests that must notice a change in them."""

    modules: Sequence[str]
    tests: Sequence[str]


AREAS = {
    "measure": Area(
        (
            *("measure/formulas.py", "measure/metrics.py", "measure/scoring.py"),
            *("measure/graded.py", "measure/violations.py", "measure/statistics.py"),
            "measure/resampling.py",
        ),
        ("tests/measure", "tests/parity"),
    ),
    "run folder": Area(
        ("run/calls.py", "run/folder.py", "run/report_file.py"),
        (
            # Not those that start processes: what they execute, no coverage sees.
            *("tests/run/test_calls.py", "tests/run/test_folder.py", "tests/run/test_index.py"),
            *(f"tests/run/test_{name}.py" for name in ("report_file", "line_cache", "comparison")),
            *("tests/run/test_provenance.py", "tests/run/test_unjudged.py"),
            *(f"tests/evaluation/test_{name}.py" for name in ("evaluation", "resuming", "merge")),
            *("tests/fuzz/test_run_folder.py", "tests/cli/test_damaged_files.py"),
        ),
    ),
    "gates": Area(
        ("evaluation/gates.py",),
        (
            *("tests/evaluation/test_gates.py", "tests/evaluation/test_compare_to.py"),
            *("tests/evaluation/test_criteria_run.py", "tests/evaluation/test_nuggets.py"),
            *("tests/evaluation/test_calibrated.py", "tests/evaluation/test_judged_answers.py"),
            *("tests/evaluation/test_logged_rows.py", "tests/poison/test_poison_run.py"),
        ),
    ),
    "outbound policy": Area(("net/outbound.py",), ("tests/net/test_outbound.py",)),
    "contract checks": Area(
        ("contract/conformance/response_shape.py", "contract/conformance/checks.py"),
        ("tests/contract/test_response_shape.py", "tests/contract/test_checks.py"),
    ),
}


class _Outcomes:
    """A plugin for pytest: how long each test takes, which fail, and which lines are whose."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Called before each test. The contexts of pytest-cov 7.1 came out empty."""
        import coverage

        if measuring := coverage.Coverage.current():
            measuring.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        """Called for setup, call and teardown of each test."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Called at the end."""
        self.file.write_text(json.dumps({"seconds": self.seconds, "failed": self.failed}))


@dataclass(frozen=True)
class TestsOfLines:
    """Which tests execute a line, and how long they take."""

    seconds: Mapping[str, float]
    contexts: Mapping[str, Mapping[int, Sequence[str]]]
    """For each file the tests by line."""

    def covering(self, mutant: "Mutant") -> list[str]:
        """The tests that may notice it, as time allows: nearest names first, then quickest."""
        lines = self.contexts.get(mutant.path, {})
        first, last = mutant.lines
        found = {name for at in range(first, last + 1) for name in lines.get(at, ())}
        names = [name for name in found if name in self.seconds]
        chosen: list[str] = []
        left = SECONDS
        if not names and found == {""}:
            names, left = list(self.seconds), SECONDS_OF_ANY
        path = Path(mutant.path)
        near = (f"tests/{path.parent}/test_{path.stem}.py", f"tests/{path.parent}/")
        for name in sorted(
            names, key=lambda name: (*(each not in name for each in near), self.seconds[name])
        ):
            left -= self.seconds[name]
            if left < 0 and chosen:
                break
            chosen.append(name)
        return chosen


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `number` is its place among the changes of that file."""

    path: str
    line: int
    what: str
    source: str
    lines: tuple[int, int]
    """The first and last line of the statement that is changed, without the block under it."""


KNOWN = Path(__file__).with_name("known-mutants.txt")

_PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn)),
    *((ast.Is, ast.IsNot), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
)
_OTHER: dict[type, type] = {
    **{b: a for a, b in _PAIRS},
    **dict(_PAIRS),
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


class _Change(ast.NodeTransformer):
    """Makes change number `wanted`, and counts; with -1 it only counts."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted, self.count = wanted, 0
        self.line, self.what = 0, ""

    def _is_next(self, node: ast.expr, what: str) -> bool:
        self.count += 1
        if self.count - 1 == self.wanted:
            self.line, self.what = node.lineno, what
            return True
        return False

    def _other(self, node: ast.expr, operator: Any) -> Any:
        """The operator, or another one in its place."""
        other = _OTHER.get(type(operator))
        if other and self._is_next(node, f"{type(operator).__name__} to {other.__name__}"):
            return other()
        return operator

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        node.ops[0] = self._other(node, node.ops[0])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        text = isinstance(node.left, ast.Constant | ast.JoinedStr) and not isinstance(
            getattr(node.left, "value", 0), int | float
        )
        node.op = node.op if text else self._other(node, node.op)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        node.op = self._other(node, node.op)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._is_next(node, "without not"):
            return node.operand
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            if self._is_next(node, f"{value} to {not value}"):
                return ast.copy_location(ast.Constant(not value), node)
        elif isinstance(value, int | float) and self._is_next(node, f"{value} to {value + 1}"):
            return ast.copy_location(ast.Constant(value + 1), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if self._is_next(node, "the other branch"):
            node.body, node.orelse = node.orelse, node.body
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node  # a message


def mutants_of(path: str) -> Iterator[Mutant]:
    """All of one file."""
    source = (ROOT / "src/assay" / path).read_text()
    counting = _Change()
    counting.visit(ast.parse(source))
    for number in range(counting.count):
        change, tree = _Change(number), ast.parse(source)
        changed = ast.unparse(ast.fix_missing_locations(change.visit(tree)))
        yield Mutant(path, change.line, change.what, changed, _statement(source, change.line))


def _statement(source: str, line: int) -> tuple[int, int]:
    best = (line, line)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or line
            if line <= last:
                best = (node.lineno, last)  # nested statements come later
    return best


def is_killed(source: str, path: str, tests: Sequence[str], copy: Path) -> bool:
    """Whether a test fails, or does not end, with this source in place of the file."""
    place = copy / "assay" / path
    original = place.read_text()
    place.write_text(source)
    try:
        return run_tests(tests, copy, limit_s=LIMIT_OF_ONE_S) != 0
    finally:
        place.write_text(original)


def run_tests(tests: Sequence[str], copy: Path, *options: str, limit_s: float = LIMIT_S) -> int:
    """Pytest's exit code, 124 if it does not end. What happened is in `outcomes.json`."""
    child = os.fork()
    if child == 0:
        _become_pytest([*(options or ("-x",)), *tests], copy)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 124


def _become_pytest(words: Sequence[str], copy: Path) -> None:
    os.setpgid(0, 0)
    os.chdir(ROOT)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    sys.path[:0] = [str(copy), str(ROOT)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(copy), str(ROOT)])
    os.environ["COVERAGE_FILE"] = str(copy / "coverage")
    code = 1
    try:
        import pytest

        imported = "ignore::pytest.PytestAssertRewriteWarning"  # before the fork
        options = ["-q", "-p", "no:cacheprovider", "--numprocesses=0", "-W", imported]
        code = pytest.main([*options, *words], plugins=[_Outcomes(copy / "outcomes.json")])
    finally:
        os._exit(int(code))


def map_tests(area: Area, copy: Path) -> TestsOfLines:
    """Run the tests of an area without any change, and note which lines each executes."""
    import coverage

    settings = copy / "coveragerc"
    settings.write_text("[run]\nbranch = false\n")
    traced = (f"--cov={copy / 'assay'}", "--cov-report=")
    code = run_tests(area.tests, copy, *traced, f"--cov-config={settings}")
    outcomes = json.loads((copy / "outcomes.json").read_text()) if code in (0, 1) else {}
    if code:
        failed = " ".join(outcomes.get("failed", [])[:5]) or f"exit code {code}"
        raise SystemExit(f"{' '.join(area.tests)} fail without any change: {failed}")
    data = coverage.CoverageData(str(copy / "coverage"))
    data.read()
    contexts = {path: data.contexts_by_lineno(str(copy / "assay" / path)) for path in area.modules}
    return TestsOfLines(outcomes["seconds"], contexts)


def batched(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Four at a time."""
    return (lines[start : start + 4] for start in range(0, len(lines), 4))


def try_known(copy: Path) -> list[str]:
    """Those that survive of the ones that once did."""
    survivors = []
    lines = [line for line in KNOWN.read_text().splitlines() if not line.startswith("#")]
    known = [(what, *where.split(), old[2:], new[2:]) for what, where, old, new in batched(lines)]
    tests = sorted({test for _, _, test, _, _ in known})
    if code := run_tests(tests, copy):
        raise SystemExit(f"the tests of the known mutants fail without any change ({code})")
    for what, path, test, old, new in known:
        source = (ROOT / "src/assay" / path).read_text()
        assert source.count(old) == 1, f"{path} has no {old!r} any more"
        killed = is_killed(source.replace(old, new), path, [test], copy)
        print(f"{'killed' if killed else 'SURVIVED'}: {what} ({path})", flush=True)
        survivors += [] if killed else [what]
    return survivors


def try_sample(
    area: str, sample: int | None, seed: int, copy: Path, places: Sequence[str] = ()
) -> list[str]:
    """Those that survive of a sample of an area's mutants, or of all; of `places` alone."""
    everything = [
        mutant
        for path in AREAS[area].modules
        for mutant in mutants_of(path)
        if not places or {path, f"{path}:{mutant.line}"} & set(places)
    ]
    size = len(everything) if sample is None else min(sample, len(everything))
    chosen = random.Random(seed).sample(everything, size)
    survivors = []
    tests = map_tests(AREAS[area], copy)
    for mutant in sorted(chosen, key=lambda each: (each.path, each.line)):
        covering = tests.covering(mutant)
        if not covering or not is_killed(mutant.source, mutant.path, covering, copy):
            why = "" if covering else ", which no test executes"
            survivors.append(f"{mutant.path}:{mutant.line}: {mutant.what}{why}")
            print(f"  survived: {survivors[-1]}", flush=True)
    killed = len(chosen) - len(survivors)
    share = 100 * killed // max(1, len(chosen))
    print(
        f"{area}: {killed} of {len(chosen)} killed ({share}%), {len(everything)} in all", flush=True
    )
    return survivors


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("area", nargs="*", help=f"of {', '.join(AREAS)}; all by default")
    parser.add_argument("--sample", type=int, default=12, help="mutants of each area")
    parser.add_argument("--all", action="store_true", help="all mutants, not a sample")
    parser.add_argument("--at", action="append", default=[], help="only those of FILE or FILE:LINE")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--known", action="store_true", help="those that once survived")
    given = parser.parse_args()
    # Imported once for all forks; nothing of Assay, which differs in each.
    import httpx  # noqa: F401
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pydantic  # noqa: F401
    import pytest  # noqa: F401

    with tempfile.TemporaryDirectory(prefix="assay-mutants-") as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src/assay", copy / "assay")
        if given.known:
            return 1 if try_known(copy) else 0
        for area in given.area or AREAS:
            sample = None if given.all or given.at else given.sample
            try_sample(area, sample, given.seed, copy, given.at)
    return 0


if __name__ == "__main__":
    sys.exit(main())
