"""The report of a session: written whatever became of it, for machines and for people."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

from assay.errors import AssayError
from assay.pytest_plugin.case_results import (
    PREFIX,
    QUERY,
    CaseResults,
    means,
    plain,
)
from assay.pytest_plugin.settings import Settings, report_path
from assay.pytest_plugin.telling import without_passwords

MARKER = "rag"


def record_figures(item: pytest.Item, figures: Mapping[str, Any]) -> None:
    item.user_properties.extend((PREFIX + name, value) for name, value in plain(figures).items())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before anything can skip or fail: the report is to tell that as well."""
    if item.get_closest_marker(MARKER):
        item.user_properties.append((QUERY, _query_id(item)))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers of pytest-xdist report to the one that asks
        config.pluginmanager.register(SessionReport(config), "assay-session-report")


class SessionReport:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._results = CaseResults()
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()
        self._told = ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._config.option.collectonly:
            return
        for item in session.items:
            if item.get_closest_marker(MARKER):
                self._results.expect(item.nodeid, _query_id(item))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not self._config.option.collectonly:
            self._results.add_uncollected(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._results.add(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Called for interrupted sessions, too."""
        if not len(self._results):
            return
        path = report_path(self._config)
        try:
            _write(path, self._as_json(exitstatus))
            self._told = f"report: {path}"
        except AssayError as error:
            self._told = f"NO REPORT WAS WRITTEN: {error}"
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not len(self._results):
            return
        from assay.pytest_plugin.summary import summary_lines

        terminalreporter.write_sep("=", "evaluation of retrieval and answers")
        for line in summary_lines(self._results, Settings.of(self._config)):
            terminalreporter.write_line(line)
        terminalreporter.write_line(self._told)

    def _as_json(self, exit_status: int) -> dict[str, Any]:
        settings = Settings.of(self._config)
        return {
            "target": without_passwords(settings.target),
            "dataset": settings.dataset,
            "all_queries": settings.all_queries,
            "started_at": self._started.isoformat(timespec="seconds"),
            "seconds": time.perf_counter() - self._clock,
            "exit_status": int(exit_status),
            "complete": self._results.complete,
            "outcomes": self._results.counts(),
            "means": {name: means(cases) for name, cases in self._results.by_test().items()},
            "cases": [asdict(case) for case in self._results],
        }


def _query_id(item: pytest.Item) -> str:
    """Empty for a test that is about all queries together."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("rag_case") or "") if callspec else ""


def _write(path: Any, report: dict[str, Any]) -> None:
    import orjson

    from assay.data.text_file import write_file

    write_file(path, orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
