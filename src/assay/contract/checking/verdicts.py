"""What a conformance check says."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from assay.contract.checking.probes import Observation


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class Finding:
    """`detail` says what was seen; it quotes names and numbers, never content."""

    verdict: Verdict
    detail: str = ""


PASS = Finding(Verdict.PASS)


def fail(detail: str) -> Finding:
    return Finding(Verdict.FAIL, detail)


def warn(detail: str) -> Finding:
    return Finding(Verdict.WARN, detail)


def not_applicable(detail: str) -> Finding:
    return Finding(Verdict.NOT_APPLICABLE, detail)


def fail_if(problems: list[str]) -> Finding:
    return fail("; ".join(problems)) if problems else PASS


@dataclass(frozen=True, slots=True)
class Check:
    """`rule` is the sentence of the contract that the check stands for."""

    name: str
    rule: str
    judge: Callable[[Observation], Finding]


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    rule: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True)
class TargetReport:
    """`unreachable` says why nothing could be checked; None when the agent answered."""

    url: str
    task_type: str
    results: tuple[CheckResult, ...] = ()
    unreachable: str | None = None

    @property
    def passed(self) -> bool:
        return self.unreachable is None and not self.with_verdict(Verdict.FAIL)

    def with_verdict(self, *verdicts: Verdict) -> list[CheckResult]:
        return [result for result in self.results if result.verdict in verdicts]

    def counts(self) -> dict[str, int]:
        found = Counter(result.verdict for result in self.results)
        return {verdict.value: found[verdict] for verdict in Verdict}
