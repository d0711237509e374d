"""The fields of the form that starts an evaluation, and what they mean as settings of a run."""

from collections.abc import Mapping
from typing import Any

from assay.errors import UsageError
from assay.evaluation.gates import parse_gate
from assay.evaluation.plan import RunConfig

DEFAULTS = {
    "target": "",
    "dataset": "nfcorpus",
    "split": "test",
    "num_queries": "",
    "top_k": "5",
    "seed": "42",
    "concurrency": "8",
    "timeout": "60",
    "track": "undeclared",
    "gates": "",
    "baseline": "",
    "mapping": "",
    "answers": "",
    "judge": "",
    "judge_votes": "3",
    "max_cost": "",
    "counterfactuals": "",
}
CHECKED = "on"
"""What a browser sends for a box that is ticked; for one that is not, it sends nothing."""


def defaults() -> dict[str, str]:
    """The judge that the environment names stands in the form, to be seen before it is used."""
    from assay.answer.extractive import EXTRACTIVE
    from assay.answer.providers.opening import configured_spec

    spec = configured_spec() or ""
    return {**DEFAULTS, "judge": "" if spec == EXTRACTIVE else spec}


def read_config(given: Mapping[str, str]) -> RunConfig:
    """Refuses what the run itself would refuse, before anything is started."""
    answers = given["answers"] == CHECKED
    config = RunConfig(
        target=given["target"].strip(),
        dataset=given["dataset"].strip(),
        split=given["split"].strip(),
        num_queries=_whole(given, "num_queries") if given["num_queries"].strip() else None,
        seed=_whole(given, "seed"),
        top_k=_whole(given, "top_k"),
        concurrency=_whole(given, "concurrency"),
        timeout=_number(given, "timeout"),
        gates=tuple(line.strip() for line in given["gates"].splitlines() if line.strip()),
        track=given["track"],
        baseline=given["baseline"].strip(),
        mapping=given["mapping"].strip(),
        answers=answers,
        judge=_judge(given, answers),
        judge_votes=_whole(given, "judge_votes"),
        max_cost=_number(given, "max_cost") if given["max_cost"].strip() else None,
        counterfactuals=given["counterfactuals"] == CHECKED,
    )
    for gate in config.gates:
        parse_gate(gate, config.top_k)
    return config


def require_model(judge: str) -> None:
    """A wrong name is to be told before the run, not after it."""
    from assay.answer.providers.opening import open_model

    if judge:
        open_model(judge)


def form_fields(config: Mapping[str, Any]) -> dict[str, str]:
    """The form filled in as for a run that there was: what differs from an empty one, and the
    judge, which the environment could fill in otherwise.
    """
    fields = {name: _written(config[name]) for name in DEFAULTS if name in config}
    return {
        name: value
        for name, value in fields.items()
        if value != DEFAULTS[name] or (name == "judge" and config["answers"])
    }


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return CHECKED if value else ""
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _whole(given: Mapping[str, str], name: str) -> int:
    try:
        return int(given[name])
    except ValueError:
        raise UsageError(f"{name} must be a whole number, got {given[name]!r}") from None


def _number(given: Mapping[str, str], name: str) -> float:
    try:
        return float(given[name])
    except ValueError:
        raise UsageError(f"{name} must be a number, got {given[name]!r}") from None


def _judge(given: Mapping[str, str], answers: bool) -> str:
    """Without answers the environment's judge is no wish of anybody's; another one is."""
    spec = given["judge"].strip()
    if not answers and spec not in ("", defaults()["judge"]):
        raise UsageError("a judge judges answers: tick 'Evaluate the answers too'")
    return spec if answers else ""
