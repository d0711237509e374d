"""Conditions on a run's figures that decide the exit code: `ndcg@5>=0.30`, `success_rate>=0.99`."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import GateError, UsageError
from assay.measure.answers.answer_metrics import ANSWER_NAMES, answer_metric_name
from assay.measure.metrics import Metric, parse_metric
from assay.report.numbers import figure

_SHAPE = re.compile(r"(?P<name>.+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?[\d.]+(e-?\d+)?)")
# A blank parts two gates only where a number ends: "ndcg@5 >= 0.3" is one.
_BETWEEN = re.compile(r"[;,\n]|(?<=[\d.])\s+(?=[a-zA-Z])")
_COMPARE = {
    ">=": lambda value, bound: value >= bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    "<": lambda value, bound: value < bound,
}

_REACHES_1 = "use a metric that can reach 1, such as ndcg or capped_recall"

SUMMARY_FIGURES = ("success_rate", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms")


@dataclass(frozen=True, slots=True)
class Gate:
    """`metric` is None where the gate is on one of SUMMARY_FIGURES, or on a metric of answers."""

    text: str
    name: str
    metric: Metric | None
    sign: str
    bound: float
    answers: bool = False

    def passes(self, value: float) -> bool:
        return bool(_COMPARE[self.sign](value, self.bound))


@dataclass(frozen=True, slots=True)
class Verdict:
    """`value` is None for a figure that the run could not give."""

    gate: str
    value: float | None
    passed: bool


def split_gates(text: str) -> list[str]:
    """Several conditions in one text: apart by `;`, `,`, a new line, or by blanks between two."""
    return [each.strip() for each in _BETWEEN.split(text) if each.strip()]


def parse_gate(text: str, top_k: int) -> Gate:
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"gate {text!r} is not a condition; write for example: ndcg@5>=0.30 or "
            f"success_rate>=0.99"
        )
    try:
        bound = float(match["bound"])
    except ValueError:
        raise UsageError(f"gate {text!r} does not end in a number") from None
    name = match["name"].strip()
    if name.lower() in SUMMARY_FIGURES:
        return Gate(text, name.lower(), None, match["sign"], bound)
    if answer_metric := answer_metric_name(name):
        return Gate(text, answer_metric, None, match["sign"], bound, answers=True)
    if near := difflib.get_close_matches(name.lower(), ANSWER_NAMES, n=1, cutoff=0.8):
        raise UsageError(f"gate {text!r}: no metric is called {name!r}; did you mean {near[0]}?")
    metric = parse_metric(name)
    if metric.cutoff is not None and metric.cutoff > top_k:
        raise UsageError(
            f"gate {text!r} looks at {metric.cutoff} documents, but the run asks for {top_k}; "
            f"add --top-k {metric.cutoff}"
        )
    return Gate(text, str(metric), metric, match["sign"], bound)


def refuse_impossible(gate: Gate, ceiling: float) -> None:
    """A gate that no system could pass says nothing about the one under test."""
    if gate.sign in (">=", ">") and not gate.passes(ceiling):
        advice = "ask for more documents with --top-k" if gate.answers else _REACHES_1
        raise GateError(
            f"gate {gate.text!r} can never pass: with these judgments the best possible "
            f"{gate.name} is {figure(ceiling)}; lower the gate, or {advice}"
        )


def judge(
    gate: Gate,
    metrics: Mapping[str, float],
    summary: Mapping[str, Any],
    answers: Mapping[str, float] | None = None,
) -> Verdict:
    """A figure that the run could not give, such as a judge's that never spoke, passes no gate."""
    if gate.answers:
        value = (answers or {}).get(gate.name)
        return Verdict(gate.text, value, value is not None and gate.passes(value))
    figure = float(summary[gate.name] if gate.metric is None else metrics[gate.metric.slug])
    # The latency of nothing is no good latency.
    answered = gate.metric is not None or summary.get("successful_queries", 1) > 0
    return Verdict(gate.text, figure, answered and gate.passes(figure))
