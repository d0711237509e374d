"""Figures of a report by name: metrics of rankings, or figures of answers."""

from dataclasses import dataclass

from assay.measure.answers.answer_metrics import answer_metric_name
from assay.measure.metrics import Metric, parse_metric


@dataclass(frozen=True, repr=False, slots=True)
class AnswerFigure:
    """A figure of answers, which has one name everywhere."""

    key: str

    @property
    def slug(self) -> str:
        """The name among the figures of a report."""
        return self.key

    def __repr__(self) -> str:
        return self.key


def parse_figure(text: str) -> Metric | AnswerFigure:
    """The figure of that name; `UsageError` if there is none."""
    name = answer_metric_name(text)
    return parse_metric(text) if name is None else AnswerFigure(name)
