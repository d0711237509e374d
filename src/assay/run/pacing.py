"""How the queries of a run were asked: the warm-up before them, how many at once, how long."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _PacingModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)


class WarmUpRecord(_PacingModel):
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


class PacingRecord(_PacingModel):
    """How a run asked its queries.

    Parameters:
        warm_up: what was done before the first query; None where nothing was.
        concurrency: how many at once were asked for.
        lowest_concurrency: how many at once were left after timeouts had come in clusters.
        asked_again: queries that timed out and were asked once more, alone, at the end.
        answered_again: how many of these were answered then.
    """

    warm_up: WarmUpRecord | None = None
    concurrency: int
    lowest_concurrency: int
    asked_again: int = 0
    answered_again: int = 0


class Latency(_PacingModel):
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
