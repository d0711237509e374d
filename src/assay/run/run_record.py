"""`RunRecord`, which all typed values of a run extend, and some of them: gates, pacing, latency."""

import math
import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from assay.errors import AssayError
from assay.metrics.figures import parse_figure
from assay.metrics.metric import parse_metric
from assay.net.json import is_extreme


class RunRecord(BaseModel):
    """Strict, so that damage is found where it is; unknown keys are kept for newer readers."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)


def _readable_by(parse: Callable[[str], object]) -> AfterValidator:
    def check(name: str) -> str:
        try:
            parse(name)
        except AssayError as error:
            raise ValueError(str(error)) from None
        return name

    return AfterValidator(check)


MetricName = Annotated[str, _readable_by(parse_metric)]
FigureName = Annotated[str, _readable_by(parse_figure)]

# A condition on a figure; one that names another run has another shape.
GATE_SHAPE = re.compile(r"(?P<name>[^<>]+)(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?[\d.]+(e-?\d+)?)")


class GateResult(RunRecord):
    """How a gate ended.

    Attributes:
        gate: the condition as it was given.
        value: the figure; None where the run could not give it.
        passed: whether the condition holds, for a run that can be trusted.
        reason: why the gate failed where the figure alone does not tell.
        note: what to know about the figure: who judged it, and whether that was checked.
    """

    gate: str
    value: float | None
    passed: bool
    reason: str | None = None
    note: str | None = None

    @property
    def limit(self) -> tuple[str, float] | None:
        """The figure's name and its bound; None where the bound depends on another run."""
        found = GATE_SHAPE.fullmatch(self.gate.strip())
        try:
            bound = float(found["bound"]) if found is not None else math.inf
        except ValueError:
            return None
        return None if found is None or is_extreme(bound) else (found["name"].strip(), bound)

    def failed_because(self, reason: str) -> "GateResult":
        """The same gate as one that failed, whatever its figure is."""
        return self.model_copy(update={"passed": False, "reason": reason})

    def noted(self, note: str) -> "GateResult":
        """The same gate with a note about its figure."""
        return self.model_copy(update={"note": note}) if note else self


class LabelCoverage(RunRecord):
    """How far the judgments of a run's questions are about documents that exist.

    Attributes:
        judged: different documents that the questions' judgments name.
        in_corpus: how many of them the data set has; None if it comes without documents.
        returned: how many of them were returned, for whichever question.
    """

    judged: int
    in_corpus: int | None
    returned: int


class WarmUpRecord(RunRecord):
    """What was done before the first timed query.

    Parameters:
        way: `readiness` where the agent's own `/health/ready` was asked, `call` for a query that
            was sent and not counted.
        ready: whether the agent was ready when the first query was sent, as far as is known.
        seconds: how long it took.
        calls: how many untimed queries were sent.
        message: why it is not known to be ready; empty otherwise.
    """

    way: Literal["readiness", "call"]
    ready: bool
    seconds: float
    calls: int = 0
    message: str = ""


class PacingRecord(RunRecord):
    """How a run asked its queries.

    Parameters:
        warm_up: what was done before the first query; None where nothing was.
        asked_again: queries that timed out and were asked once more, alone, at the end.
        answered_again: how many of these were answered then.
    """

    warm_up: WarmUpRecord | None = None
    asked_again: int = 0
    answered_again: int = 0


class Latency(RunRecord):
    """Milliseconds of answered queries, and of timeouts at their limit; 0 if nothing was timed.

    `queries` is None in runs that are older than the count.
    """

    p50: float
    p90: float
    p95: float
    p99: float
    max: float
    queries: int | None = None
    timeouts: int = 0
