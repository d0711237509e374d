"""Mutation testing of the core: change one thing in the code, and see whether a test notices.

    .venv/bin/python -m scripts.mutants [--sample 12 | --all | --at FILE[:LINE]] [AREA...]
    .venv/bin/python -m scripts.mutants --known

A sample of all mutants of each area is tried, the same for the same seed. The tests of the area run
once with coverage, which says which of them execute which line; each mutant then runs those of its
line, the nearest and quickest first, in a fork of this process, on a copy of the sources. What the
import executes, a constant or a default, has the tests of its whole file. `--known` tries those
that once survived. mutmut and cosmic-ray run the whole suite for each mutant.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scripts.mutations import mutants_of, unchanged

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 3600
"""For all tests of an area, once, with coverage."""
LIMIT_OF_ONE_S = 300
"""For the tests of a mutant; one that does not end is noticed."""
SECONDS = 20.0
"""Of tests for each mutant."""


@dataclass(frozen=True)
class Area:
    """Modules, relative to `src/assay`, and the tests that must notice a change in them."""

    modules: Sequence[str]
    tests: Sequence[str]


AREAS = {
    "metrics": Area(
        (
            "metrics/formulas.py",
            "metrics/metric.py",
            "metrics/scoring.py",
            "metrics/statistics.py",
        ),
        ("tests/metrics", "tests/parity"),
    ),
    "run folder": Area(
        ("run/calls.py", "run/folder.py"),
        (
            # Not those that start processes: what they execute, no coverage sees.
            *("tests/run/test_calls.py", "tests/run/test_folder.py", "tests/run/test_listing.py"),
            "tests/run/test_comparison.py",
            "tests/run/test_provenance.py",
            *(f"tests/evaluation/test_{name}.py" for name in ("evaluation", "resuming", "merge")),
            *(f"tests/evaluation/test_{name}.py" for name in ("recorder", "searching")),
            "tests/evaluation/test_answers.py",
            *("tests/fuzz/test_run_folder.py", "tests/cli/test_damaged_files.py"),
        ),
    ),
    "gates": Area(
        ("evaluation/gates.py",),
        (
            *("tests/evaluation/test_gates.py", "tests/evaluation/test_compare_to.py"),
            *("tests/evaluation/test_criteria_run.py", "tests/evaluation/test_nuggets.py"),
            *(
                "tests/evaluation/test_gate_calibration.py",
                "tests/evaluation/test_answers.py",
            ),
            *("tests/evaluation/test_logged_rows.py", "tests/poison/test_poison_run.py"),
        ),
    ),
    "outbound policy": Area(("net/outbound.py",), ("tests/net/test_outbound.py",)),
    "contract checks": Area(
        ("contract/rules.py", "contract/check.py"),
        ("tests/contract/test_conformance.py", "tests/contract/test_check_command.py"),
    ),
    "bounded reader": Area(
        ("net/client.py",),
        (
            *("tests/net/test_client.py", "tests/net/test_redirects.py"),
            *("tests/net/test_outbound.py", "tests/search/test_remote_embedding.py"),
            *("tests/targets/test_rest.py", "tests/targets/test_a2a.py"),
        ),
    ),
    "retries": Area(
        ("net/retry.py",),
        (
            "tests/net/test_retry.py",
            "tests/evaluation/test_calling.py",
        ),
    ),
    "files": Area(("files.py",), ("tests/test_files.py", "tests/run/test_calls.py")),
    "array index": Area(
        ("search/array_store.py", "search/filters.py"),
        (
            *("tests/search/test_array_store.py", "tests/search/test_filters.py"),
            *("tests/search/test_index.py", "tests/search/test_retriever.py"),
        ),
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
class LineTests:
    """Which tests execute a line, and how long they take."""

    seconds: Mapping[str, float]
    contexts: Mapping[str, Mapping[int, Sequence[str]]]
    """For each file the tests by line."""

    def covering(self, path: str, lines: tuple[int, int] | None = None) -> list[str]:
        """The tests that may notice a change there, as time allows: the nearest and quickest.

        Of a test with parameters one variant comes before the second of any.
        """
        within = range(lines[0], lines[1] + 1) if lines else self.contexts[path]
        found = {name for line in within for name in self.contexts[path].get(line, ())}
        folder = Path("tests", path).parent
        near = (f"{folder}/test_{Path(path).stem}.py", f"{folder}/")
        names = sorted(found & self.seconds.keys(), key=lambda name: (self.seconds[name], name))
        variants: Counter[str] = Counter()
        turns = {}
        for name in names:
            turns[name] = (*(each not in name for each in near), variants[_function(name)])
            variants[_function(name)] += 1
        chosen: list[str] = []
        left = SECONDS
        for name in sorted(names, key=lambda name: turns[name]):
            left -= self.seconds[name]
            if left < 0 and chosen:
                break
            chosen.append(name)
        return chosen


def _function(name: str) -> str:
    return name.partition("[")[0]


KNOWN = Path(__file__).with_name("known-mutants.txt")


def killed_by(source: str, path: str, tests: Sequence[str], copy: Path) -> str | None:
    """The test that fails, or what else happens, with this source in place of the file."""
    place, outcomes = copy / "assay" / path, copy / "outcomes.json"
    original, seen = place.read_text(), place.stat()
    place.write_text(source)
    outcomes.unlink(missing_ok=True)
    try:
        if not (code := run_tests(tests, copy, limit_s=LIMIT_OF_ONE_S)):
            return None
        failed = json.loads(outcomes.read_text())["failed"] if outcomes.exists() else []
        return failed[0] if failed else f"exit code {code}"
    finally:
        place.write_text(original)
        os.utime(place, ns=(seen.st_atime_ns, seen.st_mtime_ns))


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
    if "-x" in words:
        # Compiled files are told apart by size and second: two mutants may have both in common.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    code = 1
    try:
        import pytest

        imported = "ignore::pytest.PytestAssertRewriteWarning"  # before the fork
        options = ["-q", "-p", "no:cacheprovider", "--numprocesses=0", "-W", imported]
        code = pytest.main([*options, *words], plugins=[_Outcomes(copy / "outcomes.json")])
    finally:
        os._exit(int(code))


def map_tests(area: Area, copy: Path) -> LineTests:
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
    return LineTests(outcomes["seconds"], contexts)


class KnownMutant(NamedTuple):
    """A change that no test once noticed: `old` is replaced by `new`, and `test` must fail."""

    what: str
    path: str
    test: str
    old: str
    new: str


def known_mutants() -> list[KnownMutant]:
    """Those of `known-mutants.txt`, which has four lines for each."""
    lines = [line for line in KNOWN.read_text().splitlines() if not line.startswith("#")]
    known = []
    for what, where, old, new in zip(*[iter(lines)] * 4, strict=True):
        path, test = where.split()
        known.append(KnownMutant(what, path, test, old[2:], new[2:]))
    return known


def try_known(copy: Path) -> list[str]:
    """Those that survive of the ones that once did."""
    survivors = []
    known = known_mutants()
    if code := run_tests(sorted({each.test for each in known}), copy):
        raise SystemExit(f"the tests of the known mutants fail without any change ({code})")
    for each in known:
        source = (ROOT / "src/assay" / each.path).read_text()
        assert source.count(each.old) == 1, f"{each.path} has no {each.old!r} any more"
        killed = killed_by(source.replace(each.old, each.new), each.path, [each.test], copy)
        print(f"{'killed' if killed else 'SURVIVED'}: {each.what} ({each.path})", flush=True)
        survivors += [] if killed else [each.what]
    return survivors


def try_sample(
    area: str, sample: int | None, seed: int, copy: Path, places: Sequence[str] = ()
) -> list[str]:
    """Those that survive of a sample of an area's mutants, or of all; of `places` alone."""
    sources = {path: (ROOT / "src/assay" / path).read_text() for path in AREAS[area].modules}
    everything = [
        mutant
        for path, source in sources.items()
        for mutant in mutants_of(path, source)
        if not places or {path, f"{path}:{mutant.line}"} & set(places)
    ]
    size = len(everything) if sample is None else min(sample, len(everything))
    chosen = random.Random(seed).sample(everything, size)
    survivors = []
    tests = map_tests(AREAS[area], copy)
    for path in sorted({mutant.path for mutant in chosen}):
        if by := killed_by(unchanged(sources[path]), path, tests.covering(path), copy):
            raise SystemExit(f"{path} without any change is taken for a mutant: {by}")
    for mutant in sorted(chosen, key=lambda each: (each.path, each.line)):
        covering = tests.covering(mutant.path, mutant.lines)
        by = killed_by(mutant.source, mutant.path, covering, copy) if covering else None
        said = f"{mutant.path}:{mutant.line}: {mutant.what}"
        if not by:
            said += "" if covering else ", which no test executes"
            survivors.append(said)
        print(f"  {'killed' if by else 'SURVIVED'}: {said}{f' ({by})' if by else ''}", flush=True)
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
