"""Runs as lines of a list: read, searched and sorted, for `assay runs` and the web UI."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

from assay.errors import AssayError, UsageError
from assay.files import is_locked
from assay.net.redact import printable
from assay.run.folder import RunFolder
from assay.run.models import Report, RunHeader
from assay.run.state import RunState
from assay.text import parse_time

# When `run.json` and `report.json` were written, and `running` while the run goes on.
Signature = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as one line of a list; figures are None if the run has no report."""

    name: str
    state: str
    started: str | None = None
    target: str | None = None
    agent: str | None = None
    dataset: str | None = None
    fingerprint: str | None = None
    split: str | None = None
    track: str | None = None
    top_k: int | None = None
    seed: int | None = None
    sample: int | None = None
    label: str | None = None
    branch: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    tags: Mapping[str, str] | None = None
    note: str | None = None
    process: int | None = None
    baseline_of: str | None = None
    metric: str | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    queries: int | None = None
    failed: int | None = None
    gates: int | None = None
    gates_failed: int | None = None
    latency_p50: float | None = None
    latency_p95: float | None = None
    trouble: str | None = None
    questions: int | None = None
    correctness: float | None = None
    correctness_low: float | None = None
    correctness_high: float | None = None

    @property
    def answered(self) -> int:
        """How many queries were answered."""
        return (self.queries or 0) - (self.failed or 0)


def sample_seed(line: RunLine) -> int | None:
    """The seed that decided which queries were drawn; None if all were asked."""
    return None if line.sample is None else line.seed


def comparable_key(line: RunLine) -> tuple[object, ...]:
    """Equal for runs that were asked the same queries on the same data, measured in one way."""
    data = (line.dataset, line.split, line.fingerprint, line.queries, sample_seed(line))
    return (*data, line.track, line.metric, line.top_k)


def verdict_of(line: RunLine) -> tuple[str, str]:
    """What a run came to in two words, and the tone of it: `good`, `bad`, `plain` or empty."""
    if line.queries and not line.answered:
        return "nothing answered", "bad"
    if line.state != RunState.COMPLETE:
        return line.state, "bad" if line.state == RunState.DAMAGED else "plain"
    if line.gates_failed:
        return "gate failed", "bad"
    if line.trouble:
        return "not judged", "plain"
    return ("passed", "good") if line.gates else ("", "")


# --- the search language -------------------------------------------------------------------------

_TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?P<value>"[^"]*"|\S+)')
_FIELDS = ("target", "label", "branch", "dataset", "track", "split", "agent")
_WORD_FIELDS = ("name", "label", "target", "dataset", "branch", "git_commit", "note")


@dataclass(frozen=True, slots=True)
class RunSearch:
    """`RunSearch.parse("target:bm25 branch:main gate:failed since:7d words")`.

    A value in quotes is the whole field: `label:"k1 0.9"`.
    """

    terms: tuple[Callable[[RunLine], bool], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "RunSearch":
        """Every term must hold. Raises `UsageError` for a date that cannot be read."""
        return cls(tuple(_term(found) for found in _TERM.finditer(text.strip())))

    def __call__(self, line: RunLine) -> bool:
        return all(term(line) for term in self.terms)


def _term(found: re.Match[str]) -> Callable[[RunLine], bool]:
    key, value = found["key"], found["value"].strip('"').lower()
    if key in _FIELDS and found["value"].startswith('"'):
        return lambda line: value == (getattr(line, key) or "").lower()
    if key in _FIELDS:
        return lambda line: value in (getattr(line, key) or "").lower()
    if key == "gate":
        return lambda line: bool(line.gates) and bool(line.gates_failed) == (value == "failed")
    if key == "state":
        return lambda line: line.state.startswith(value)
    if key == "since":
        since = parse_since(value)
        return lambda line: is_since(line, since)
    if key == "failed":
        return something_failed
    words = found[0].strip('"').lower()
    return lambda line: words in " ".join(getattr(line, n) or "" for n in _WORD_FIELDS).lower()


def something_failed(line: RunLine) -> bool:
    """Whether a run ended early, or a gate or a query of it failed."""
    if line.state == RunState.RUNNING:
        return False
    return line.state != RunState.COMPLETE or bool(line.gates_failed) or bool(line.failed)


def is_since(line: RunLine, since: datetime) -> bool:
    """Whether a run was started then or later."""
    try:
        return line.started is not None and parse_time(line.started) >= since
    except ValueError:  # of a damaged header
        return False


_AGE = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """`7d`, `12h`, `2026-11-01` or an ISO 8601 time; UTC if no zone is named.

    Raises `UsageError`.
    """
    if age := _AGE.fullmatch(text.strip()):
        try:
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return parse_time(text.strip())
    except ValueError:
        raise UsageError(
            f"since {text!r} is not a time; write, for example: 2026-11-01, "
            "2026-11-01T08:30:00+00:00, 12h or 7d"
        ) from None


# What a list can be sorted by.
SORTS: Mapping[str, Callable[[RunLine], Any]] = {
    "when": attrgetter("name"),
    "label": lambda line: line.label and line.label.lower(),
    "target": lambda line: line.target and line.target.lower(),
    "dataset": attrgetter("dataset"),
    "branch": attrgetter("branch"),
    "mean": attrgetter("mean"),
    "answers": attrgetter("correctness"),
    "failed": attrgetter("failed"),
    "p50": attrgetter("latency_p50"),
    "p95": attrgetter("latency_p95"),
    "verdict": lambda line: verdict_of(line)[0],
}


def sort_lines(
    lines: Iterable[RunLine], by: str, value: Callable[[RunLine], Any] | None = None
) -> list[RunLine]:
    """Lines by one of SORTS, or by `value`; a minus in front of `by` puts the largest first.

    Runs without a value come last.
    """
    value = value or SORTS.get(by.removeprefix("-"), SORTS["when"])
    ordered = sorted(lines, key=attrgetter("name"))
    having = [line for line in ordered if value(line) is not None]
    having.sort(key=value, reverse=by.startswith("-"))
    return [*having, *(line for line in ordered if value(line) is None)]


# --- reading -------------------------------------------------------------------------------------


def list_lines(folder: Path) -> list[RunLine]:
    """Every run under `folder`."""
    return [
        read_run(RunFolder(folder / name), signature)[0]
        for name, signature in run_signatures(folder).items()
    ]


def run_signatures(folder: Path) -> dict[str, Signature]:
    """What shows whether a run has changed: times of its files, and whether it is being written.

    A folder whose name holds controls or half characters is none of ours, and is passed over: no
    list, page or header could hold its name.
    """
    if not folder.is_dir():
        return {}
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            header = _modified(f"{entry.path}/run.json")
            if header and printable(entry.name) == entry.name:
                report, calls = _modified(f"{entry.path}/report.json"), f"{entry.path}/calls.jsonl"
                # A finished run is not opened: only a report that is missing or older than the
                # calls can belong to a run that continues.
                may_run = not report or _modified(calls) > report
                running = may_run and is_locked(Path(calls))
                found[entry.name] = (header, report, RunState.RUNNING if running else "")
    return found


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 (a list asks thousands of times)
    except OSError:
        return 0


def read_run(
    run: RunFolder, signature: Signature
) -> tuple[RunLine, RunHeader | None, Report | None]:
    """A run with its line. One that cannot be read has a line as well, which says so."""
    _, has_report, state = signature
    line, header = RunLine(run.name, RunState.DAMAGED), None
    try:
        header = run.read_header()
        line = _with_header(line, header)
        if not has_report:
            return replace(line, state=state or RunState.UNFINISHED), header, None
        report = run.read_report()
        return replace(_with_report(line, report), state=state or report.state), header, report
    except (AssayError, OSError):
        return line, header, None


def _with_header(line: RunLine, header: RunHeader) -> RunLine:
    git = header.git
    return replace(
        line,
        started=header.started,
        target=header.target.title,
        agent=header.target.agent,
        dataset=header.dataset.name,
        fingerprint=header.dataset.fingerprint,
        split=header.config.split,
        track=header.track,
        top_k=header.config.top_k,
        seed=header.config.seed,
        sample=header.config.num_queries,
        label=None if header.baseline_of else header.label,
        branch=git.branch if git else None,
        git_commit=git.commit if git else None,
        git_dirty=git.dirty if git else None,
        tags=header.tags or None,
        note=header.note,
        process=header.process,
        baseline_of=header.baseline_of,
    )


def _with_report(line: RunLine, report: Report) -> RunLine:
    metric, score = next(iter(report.statistics.items()))
    answered, answers = report.summary.successful_queries > 0, report.answers
    # None without answers, or without references to compare them with.
    right = answers.statistics.get("correctness") if answers else None
    return replace(
        line,
        metric=metric,
        mean=score.mean,
        low=score.low,
        high=score.high,
        ceiling=score.ceiling,
        queries=report.summary.total_queries,
        failed=report.summary.failed_queries,
        gates=len(report.gates),
        gates_failed=sum(not gate.passed for gate in report.gates),
        latency_p50=report.latency_ms.p50 if answered else None,
        latency_p95=report.latency_ms.p95 if answered else None,
        trouble=answers.trouble if answers else None,
        questions=right.n if right else None,
        correctness=right.mean if right else None,
        correctness_low=right.low if right else None,
        correctness_high=right.high if right else None,
    )
