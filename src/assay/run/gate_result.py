"""How the gates of a run ended, and when none of them can pass."""

from pydantic import BaseModel, ConfigDict


class GateResult(BaseModel):
    """How a gate ended.

    Attributes:
        gate: the condition as it was given.
        value: the figure; None where the run could not give it.
        passed: whether the condition holds, for a run that can be trusted.
        reason: why the gate failed where the figure alone does not tell.
        note: what to know about the figure: who judged it, and whether that was checked.
    """

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    gate: str
    value: float | None
    passed: bool
    reason: str | None = None
    note: str | None = None

    def failed_because(self, reason: str) -> "GateResult":
        """The same gate as one that failed, whatever its figure is."""
        return self.model_copy(update={"passed": False, "reason": reason})

    def noted(self, note: str) -> "GateResult":
        """The same gate with a note about its figure."""
        return self.model_copy(update={"note": note}) if note else self
