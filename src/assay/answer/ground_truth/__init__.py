"""Reference answers and questions for a data set that has none."""

from assay.answer.ground_truth.generation import Generated, Order, generate_ground_truth
from assay.answer.ground_truth.loading import load_ground_truth
from assay.answer.ground_truth.record import GroundTruth

__all__ = [
    "Generated",
    "GroundTruth",
    "Order",
    "generate_ground_truth",
    "load_ground_truth",
]
