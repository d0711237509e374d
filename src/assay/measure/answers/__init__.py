"""Is the answer right, and if not, whose fault is it?"""

from assay.measure.answers.answer_metrics import (
    ANSWER_METRICS,
    AnswerMetric,
    AnswerScores,
    measure_answers,
)
from assay.measure.answers.calibration import Calibration, calibrate
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.diagnosis import (
    Counterfactuals,
    Diagnosis,
    Failure,
    Half,
    Observation,
    diagnose,
    observe,
)
from assay.measure.answers.fault_report import FaultReport, report_faults
from assay.measure.answers.judge import FactsJudgment, Judge
from assay.measure.answers.judging import Pleading, judge_answers
from assay.measure.answers.prediction_powered import Estimate, prediction_powered_mean
from assay.measure.answers.verdicts import Judgment, Vote, correctness_values, flip_rate

__all__ = [
    "ANSWER_METRICS",
    "AnswerCase",
    "AnswerMetric",
    "AnswerScores",
    "Calibration",
    "Counterfactuals",
    "Diagnosis",
    "Estimate",
    "FactsJudgment",
    "Failure",
    "FaultReport",
    "Half",
    "Judge",
    "Judgment",
    "Observation",
    "Pleading",
    "Vote",
    "calibrate",
    "correctness_values",
    "diagnose",
    "flip_rate",
    "judge_answers",
    "measure_answers",
    "observe",
    "prediction_powered_mean",
    "report_faults",
]
