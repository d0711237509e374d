"""What came of each case of a session, as far as it got."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeGuard

import pytest

from assay.pytest_plugin.telling import without_passwords

Figure = float | str | None

PREFIX = "rag."
"""Before the names of what a test records, so that it can be told from other plugins' properties
in a JUnit file."""

QUERY = f"{PREFIX}query_id"
NOT_RUN = "not run"
NO_CASES = "rag_case: "
"""What a failure to collect begins with, where it is that there are no cases: the report has to
know it from others, also when a worker of a distributed session sends it."""
_LONGEST_REASON = 1000


@dataclass(slots=True)
class CaseResult:
    """`outcome` as pytest has it: passed, failed, skipped; and error where a fixture failed."""

    test: str
    query_id: str
    outcome: str = NOT_RUN
    seconds: float = 0.0
    figures: dict[str, Figure] = field(default_factory=dict)
    reason: str = ""

    @property
    def name(self) -> str:
        """The test without its parameters: what its cases have in common."""
        return self.test.partition("[")[0]


class CaseResults:
    """By test, in the order of collection. A test that is run again is told as it was last."""

    def __init__(self) -> None:
        self._cases: dict[str, CaseResult] = {}
        self.all_collected = True

    @property
    def complete(self) -> bool:
        return self.all_collected and NOT_RUN not in self.counts()

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self._cases.values())

    def __len__(self) -> int:
        return len(self._cases)

    def expect(self, test: str, query_id: str) -> None:
        self._cases[test] = CaseResult(test, query_id)

    def add(self, report: pytest.TestReport) -> None:
        """Reports of setup and teardown count where they are not plainly good."""
        properties: dict[str, Any] = dict(report.user_properties)
        if QUERY not in properties:
            return
        known = self._cases.get(report.nodeid)
        case = known or CaseResult(report.nodeid, str(properties[QUERY]))
        self._cases[report.nodeid] = case
        case.seconds += report.duration
        if report.when != "call" and report.passed:
            return
        case.outcome = "error" if report.when != "call" and report.failed else report.outcome
        case.reason = "" if report.passed else _told(_reason(report))
        case.figures = {
            name.removeprefix(PREFIX): value
            for name, value in properties.items()
            if name.startswith(PREFIX) and name != QUERY
        }

    def add_uncollected(self, report: pytest.CollectReport) -> None:
        """A module whose cases could not be found is one that failed, or nobody would be told."""
        if report.failed and (reason := report.longreprtext).startswith(NO_CASES):
            told = _told(reason.removeprefix(NO_CASES))
            self._cases[report.nodeid] = CaseResult(report.nodeid, "", "error", reason=told)
            self.all_collected = False

    def counts(self) -> dict[str, int]:
        outcomes = [case.outcome for case in self]
        return {each: outcomes.count(each) for each in dict.fromkeys(outcomes)}

    def by_test(self) -> dict[str, list[CaseResult]]:
        names = dict.fromkeys(case.name for case in self)
        return {name: [case for case in self if case.name == name] for name in names}


def means(cases: list[CaseResult]) -> dict[str, float]:
    """Of each figure, over the cases that have it."""
    columns: dict[str, list[float]] = {}
    for name, value in (pair for case in cases for pair in case.figures.items()):
        if is_number(value):
            columns.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in columns.items()}


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(figures: Mapping[str, Any]) -> dict[str, Figure]:
    """Without the types of other libraries: workers of a distributed session send these home."""
    return {
        name: value if value is None or isinstance(value, str | int) else float(value)
        for name, value in figures.items()
    }


def _told(reason: str) -> str:
    return without_passwords(reason)[:_LONGEST_REASON]


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # where it was skipped, and why
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message) if crash else report.longreprtext
