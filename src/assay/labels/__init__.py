"""Judgments and references: grading, ground truth, and questions written by a model."""
