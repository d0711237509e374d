"""Which runs a list shows, and in which order: by label, branch, time, failure or figure."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from assay.errors import UsageError
from assay.run.run_line import COMPLETE, RUNNING, RunLine

_AGE = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_last = float("inf")
ORDERS: Mapping[str, Callable[[RunLine], tuple[object, ...]]] = {
    "started": lambda line: (line.name,),
    "score": lambda line: (_last if line.mean is None else -line.mean, line.name),
    "latency": lambda line: (_last if line.latency_p50 is None else line.latency_p50, line.name),
    "label": lambda line: (line.label is None, line.label or "", line.name),
    "branch": lambda line: (line.branch is None, line.branch or "", line.name),
}
"""How lines are sorted: newest last, best first, fastest first, by name."""


@dataclass(frozen=True, slots=True)
class RunSelection:
    """What to list; None takes every run.

    Attributes:
        label: the runs with this label.
        branch: the runs that were made on this branch.
        since: the runs that were started then or later.
        failed: only runs in which something failed, see `something_failed`.
    """

    label: str | None = None
    branch: str | None = None
    since: datetime | None = None
    failed: bool = False

    def choose(self, lines: Iterable[RunLine], order: str = "started") -> list[RunLine]:
        """Those of `lines` that are meant, in one of ORDERS. Raises `UsageError`."""
        if order not in ORDERS:
            raise UsageError(f"--sort must be one of {', '.join(ORDERS)}, got {order!r}")
        return sorted(filter(self._takes, lines), key=ORDERS[order])

    def _takes(self, line: RunLine) -> bool:
        return (
            (self.label is None or line.label == self.label)
            and (self.branch is None or line.branch == self.branch)
            and (self.since is None or _is_since(line, self.since))
            and (not self.failed or something_failed(line))
        )


def something_failed(line: RunLine) -> bool:
    """Whether a run ended early, or a gate or a query of it failed."""
    if line.state == RUNNING:
        return False
    return line.state != COMPLETE or bool(line.gates_failed) or bool(line.failed)


def _is_since(line: RunLine, since: datetime) -> bool:
    if line.started is None:
        return False
    try:
        started = datetime.fromisoformat(line.started)
    except ValueError:  # of a damaged header
        return False
    return (started if started.tzinfo else started.replace(tzinfo=UTC)) >= since


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """`7d`, `12h`, `2026-11-01` or an ISO 8601 time; UTC where no zone is named.

    Raises `UsageError`.
    """
    if age := _AGE.fullmatch(text.strip()):
        back = timedelta(**{_UNITS[age[2]]: int(age[1])})
        try:
            return (now or datetime.now(UTC)) - back
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"--since {text!r} is not a time; write, for example: 2026-11-01, "
            "2026-11-01T08:30:00+00:00, 12h or 7d"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
