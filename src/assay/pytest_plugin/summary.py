"""The report of a session as a few lines for the terminal."""

from collections.abc import Iterator, Sequence

from assay.pytest_plugin.case_results import CaseResult, CaseResults, Figure, means
from assay.pytest_plugin.settings import Settings
from assay.pytest_plugin.telling import without_passwords
from assay.report.numbers import ABSENT, counted, figure

_MOST_ROWS = 20


def summary_lines(results: CaseResults, settings: Settings) -> Iterator[str]:
    outcomes = ", ".join(f"{number} {what}" for what, number in results.counts().items())
    cases = counted(len(results), "case")
    target = without_passwords(settings.target)
    yield f"{target} on {settings.dataset}: {cases}: {outcomes}"
    for test, its_cases in results.by_test().items():
        yield ""
        yield test
        yield from _alike(its_cases) or _table(its_cases)
    yield ""


def _alike(cases: list[CaseResult]) -> list[str]:
    """One line where nothing was measured, because all were skipped or failed for one reason."""
    if len({(case.outcome, case.reason) for case in cases}) > 1 or any(c.figures for c in cases):
        return []
    reason = f": {cases[0].reason}" if cases[0].reason else ""
    return [f"  {counted(len(cases), 'case')} {cases[0].outcome}{reason}"]


def _table(cases: list[CaseResult]) -> Iterator[str]:
    names = list(dict.fromkeys(name for case in cases for name in case.figures))
    shown = _shown(cases)
    rows = [["query", "outcome", *names]]
    rows += [[case.query_id or ABSENT, case.outcome, *_cells(case, names)] for case in shown]
    if len(cases) > 1 and (average := means(cases)):
        rows.append(["mean", "", *(figure(average.get(name)) for name in names)])
    yield from _aligned(rows)
    if len(shown) < len(cases):
        yield f"  and {counted(len(cases) - len(shown), 'case')} more, which the report holds"


def _shown(cases: list[CaseResult]) -> list[CaseResult]:
    """All of a few; of many those that somebody has to look at."""
    if len(cases) <= _MOST_ROWS:
        return cases
    return [case for case in cases if case.outcome not in ("passed", "skipped")][:_MOST_ROWS]


def _cells(case: CaseResult, names: Sequence[str]) -> list[str]:
    return [_cell(case.figures.get(name)) for name in names]


def _cell(value: Figure) -> str:
    if isinstance(value, float):
        return figure(value)
    return ABSENT if value is None else str(value)


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  " + "  ".join(cells).rstrip()
