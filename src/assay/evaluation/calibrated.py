"""Whether the judge behind a gated figure was calibrated on the data that it judges."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import AssayError, GateError
from assay.evaluation.gates import Gate
from assay.measure.answers.answer_metrics import JUDGED_METRICS, NUGGET_METRICS, OUTCOME_METRICS
from assay.run.config import RunConfig

if TYPE_CHECKING:  # a run without a judge imports nothing of it
    from assay.measure.answers.calibration_files import CalibrationStatus

CORRECTNESS = "correctness"
NUGGETS = "nuggets"
_CRITERION = "criterion."
_BY_PARTS = ("judged_facts", "judged_faithfulness")
_NEVER = (
    "no labels calibrate the judge {judge} for {name}, which it decides by single sentences and "
    "facts; write a criterion about it, which labels can calibrate (--criteria)"
)


def gate_calibration(
    gate: Gate, config: RunConfig, questions: Collection[str]
) -> "CalibrationStatus | None":
    """What is known of the judge behind a gate; None for a figure that no judge decides.

    Args:
        gate: the gate.
        config: names the judge, and the file of calibrations if there is one.
        questions: the texts of the data's questions.
    """
    return figure_calibration(gate.name, config, questions) if gate.answers else None


def figure_calibration(
    name: str, config: RunConfig, questions: Collection[str]
) -> "CalibrationStatus | None":
    """The same for a figure of answers by its name."""
    kind = _kind(name) if config.judge else None
    if kind is None:
        return None
    from assay.measure.answers.calibration_files import (
        CalibrationStatus,
        calibration_status,
        read_calibrations,
    )

    if kind in _BY_PARTS:
        return CalibrationStatus(False, _NEVER.format(judge=judge_model(config.judge), name=kind))
    known = read_calibrations(Path(config.judge_calibration)) if config.judge_calibration else []
    votes, prompts = _asked(kind, config)
    return calibration_status(known, kind, judge_model(config.judge), votes, prompts, questions)


def refuse_uncalibrated(
    gates: Sequence[Gate], config: RunConfig, questions: Collection[str]
) -> None:
    """With `--require-calibrated`, raise `GateError` for a gate whose judge is not calibrated."""
    if config.judge_calibration:
        from assay.measure.answers.calibration_files import read_calibrations

        read_calibrations(Path(config.judge_calibration))  # a wrong file is an error at once
    if not config.require_calibrated:
        return
    for gate in gates:
        status = gate_calibration(gate, config, questions)
        if status is not None and not status.calibrated:
            label = "; label some answers of this data and pass --judge-calibration FILE"
            raise GateError(
                f"gate {gate.text!r} is refused by --require-calibrated: {status.words}"
                + ("" if gate.name in _BY_PARTS else label)
            )


def calibration_note(gate: Gate, config: RunConfig, questions: Collection[str]) -> str:
    """What a gate's verdict says about its judge; empty where there is none."""
    status = gate_calibration(gate, config, questions)
    return "" if status is None else status.words


def _kind(name: str) -> str | None:
    """What has to be calibrated for a figure; None where no judge decides it."""
    if name == "correctness" or name in OUTCOME_METRICS:
        return CORRECTNESS
    if name in NUGGET_METRICS:
        return NUGGETS
    return name if name in JUDGED_METRICS or name.startswith(_CRITERION) else None


def _asked(kind: str, config: RunConfig) -> tuple[int, tuple[str, ...]]:
    """The number of votes and the ids of the prompts that decide about a kind of figure."""
    from assay.answer.prompt import load_prompt
    from assay.measure.answers import criteria, nuggets
    from assay.measure.answers.judge import correctness_prompts

    votes = config.judge_votes + config.judge_votes % 2
    if kind == CORRECTNESS:
        return votes, correctness_prompts(votes)
    if kind == NUGGETS:
        return votes, (load_prompt(nuggets.PROMPT).id,)
    if not kind.startswith(_CRITERION) or not config.criteria:
        return votes, ()
    asked = next(
        (each for each in criteria.read_criteria(Path(config.criteria)) if each.metric == kind),
        None,
    )
    return criteria.VOTES, () if asked is None else criteria.criterion_prompts(asked)


def judge_model(spec: str) -> str:
    """`KIND:MODEL` of the judge that a setting names; the name of a caller's own as it is."""
    from assay.answer.providers.opening import open_model

    try:
        return open_model(spec).name
    except AssayError:  # a caller's own, or one whose key is missing: that is said elsewhere
        return spec
