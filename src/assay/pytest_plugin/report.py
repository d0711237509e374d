"""The report of a session, as JSON and as lines for the terminal."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import isfinite
from statistics import fmean
from typing import Any

import pytest

from assay.errors import AssayError, UsageError
from assay.net.redact import mask_secrets, printable, redact_credentials
from assay.pytest_plugin import Settings, report_path
from assay.report.numbers import ABSENT, counted, figure
from assay.text import strip_controls

Figure = float | str | None

# Tells what a test records from other plugins' properties in a JUnit file.
PREFIX = "rag."
QUERY = f"{PREFIX}query_id"
NOT_RUN = "not run"
MARKER = "rag"
# A test that uses one of these is an evaluation, with or without the marker.
FIXTURES = {
    "evaluation_llm",
    "ground_truth_data",
    "mcp_sampling_client",
    "nc_client",
    "nfcorpus_test_data",
    "rag_agent",
}
_MAX_REASON = 1000
_MAX_LABEL = 200
_MAX_ROWS = 20


@dataclass(slots=True)
class CaseResult:
    """`outcome` as pytest has it: passed, failed, skipped; and error if a fixture failed."""

    test: str
    query_id: str
    outcome: str = NOT_RUN
    seconds: float = 0.0
    figures: dict[str, Figure] = field(default_factory=dict)
    reason: str = ""


def by_test(cases: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    """The cases of each test function."""
    found: dict[str, list[CaseResult]] = {}
    for case in cases:
        found.setdefault(case.test.partition("[")[0], []).append(case)
    return found


def means(cases: Sequence[CaseResult]) -> dict[str, float]:
    """The mean of each figure over the cases that have it; labels have none."""
    columns: dict[str, list[Any]] = {}
    for case in cases:
        for name, value in case.figures.items():
            if value is not None:
                columns.setdefault(name, []).append(value)
    return {
        name: fmean(values)
        for name, values in columns.items()
        if not any(isinstance(value, str | bool) for value in values)
    }


def record_figures(item: pytest.Item, **figures: Any) -> None:
    """Add figures and labels to the report of a test."""
    plain = {strip_controls(name): _plain(name, value) for name, value in figures.items()}
    item.user_properties.extend((PREFIX + name, value) for name, value in plain.items())


def _plain(name: str, value: object) -> Figure:
    """Without the types of other libraries: workers of a distributed session serialize these."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return strip_controls(value)[:_MAX_LABEL]
    if not hasattr(value, "__float__"):
        kind = type(value).__name__
        raise UsageError(f"rag_record({name}=...) takes a number, a text or None, got {kind}")
    number = float(value)
    if not isfinite(number):
        return str(number)
    return value if isinstance(value, int) else number


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # where it was skipped, and why
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
    else:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = str(crash.message) if crash else report.longreprtext
    return strip_controls(redact_credentials(reason)[:_MAX_REASON])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every test that uses a fixture of ours is in the report."""
    if FIXTURES & set(getattr(item, "fixturenames", ())):
        item.add_marker(MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Marks the test before anything can skip or fail, so that the report has it in any case."""
    if item.get_closest_marker(MARKER):
        item.user_properties.append((QUERY, _query_id(item)))


def pytest_configure(config: pytest.Config) -> None:
    """Collect results, except in a worker of pytest-xdist, which sends them to its controller."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SessionReport(config), "assay-session-report")


class SessionReport:
    """Hooks that collect the results of a session and write its report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # By test, in the order of collection; of a test that ran again the last result counts.
        self._cases: dict[str, CaseResult] = {}
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()
        self._message = ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note every case, so that one that never runs is reported."""
        for item in () if self._config.option.collectonly else session.items:
            if item.get_closest_marker(MARKER):
                self._cases[item.nodeid] = CaseResult(item.nodeid, _query_id(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the result of one phase; setup and teardown count only if they did not pass."""
        properties: dict[str, Any] = dict(report.user_properties)
        if QUERY not in properties:
            return
        fresh = CaseResult(report.nodeid, str(properties.pop(QUERY)))
        case = self._cases.setdefault(report.nodeid, fresh)
        case.seconds += report.duration
        if report.when != "call" and report.passed:
            return
        case.outcome = "error" if report.when != "call" and report.failed else report.outcome
        case.reason = "" if report.passed else _reason(report)
        case.figures = {
            name.removeprefix(PREFIX): value
            for name, value in properties.items()
            if name.startswith(PREFIX)
        }

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report, also of a session that was interrupted."""
        if not self._cases:
            return
        import orjson

        from assay.data.text_file import write_file

        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        path = report_path(self._config)
        try:
            write_file(path, orjson.dumps(self._as_json(exitstatus), option=options))
            self._message = f"report: {path}"
        except AssayError as error:
            self._message = f"NO REPORT WAS WRITTEN: {error}"
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the results, and where the report is."""
        cases = list(self._cases.values())
        if not cases:
            return
        terminalreporter.write_sep("=", "evaluation of retrieval and answers")
        for line in summary_lines(cases, Settings.of(self._config)):
            terminalreporter.write_line(line)
        terminalreporter.write_line(self._message)
        if {case.outcome for case in cases} == {"skipped"}:
            words = f"NOTHING WAS EVALUATED: {counted(len(cases), 'case')} skipped"
            terminalreporter.write_sep("!", words, red=True, bold=True)

    def _as_json(self, exit_status: int) -> dict[str, Any]:
        settings = Settings.of(self._config)
        cases = list(self._cases.values())
        outcomes = Counter(case.outcome for case in cases)
        return {
            "target": str(mask_secrets(settings.target)),
            "dataset": settings.dataset,
            "all_queries": settings.all_queries,
            "started_at": self._started.isoformat(timespec="seconds"),
            "seconds": time.perf_counter() - self._clock,
            "exit_status": int(exit_status),
            "complete": NOT_RUN not in outcomes,
            "outcomes": outcomes,
            "means": {name: means(own) for name, own in by_test(cases).items()},
            "cases": [asdict(case) for case in cases],
        }


def _query_id(item: pytest.Item) -> str:
    """Empty for a test that is about all queries together."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("rag_case") or "") if callspec else ""


def summary_lines(results: Sequence[CaseResult], settings: Settings) -> Iterator[str]:
    """The results as lines for the terminal."""
    counts = Counter(case.outcome for case in results)
    outcomes = ", ".join(f"{number} {what}" for what, number in counts.items())
    target = str(mask_secrets(settings.target))
    yield f"{target} on {settings.dataset}: {counted(len(results), 'case')}: {outcomes}"
    for test, cases in by_test(results).items():
        yield from ("", test)
        if len({(case.outcome, case.reason) for case in cases}) == 1 and not means(cases):
            reason = f": {_one_line(cases[0].reason)}" if cases[0].reason else ""
            yield f"  {counted(len(cases), 'case')} {cases[0].outcome}{reason}"
        else:
            yield from _table(cases)
    yield ""


def _table(cases: Sequence[CaseResult]) -> Iterator[str]:
    """A row for each case if they are few, else for those that failed; then the means."""
    names = list(dict.fromkeys(name for case in cases for name in case.figures))
    shown = cases
    if len(cases) > _MAX_ROWS:
        bad = [case for case in cases if case.outcome not in ("passed", "skipped")]
        shown = bad[:_MAX_ROWS]
    rows = [["query", "outcome", *names]]
    for case in shown:
        cells = [_cell(case.figures.get(name)) for name in names]
        rows.append([_one_line(case.query_id) or ABSENT, case.outcome, *cells])
    if len(cases) > 1 and (average := means(cases)):
        rows.append(["mean", "", *(figure(average.get(name)) for name in names)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(map(str.ljust, row, widths)).rstrip()
    if len(shown) < len(cases):
        yield f"  and {counted(len(cases) - len(shown), 'case')} more, see the report"


def _cell(value: Figure) -> str:
    if isinstance(value, float):
        return figure(value)
    return ABSENT if value is None else _one_line(str(value))


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
