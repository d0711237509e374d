"""Whatever a report has a figure for, by its name: a metric of rankings, or one of answers."""

from dataclasses import dataclass

from assay.measure.answers.answer_metrics import answer_metric_name
from assay.measure.metrics import Metric, parse_metric


@dataclass(frozen=True, repr=False, slots=True)
class AnswerFigure:
    """Stands under its own name in the rows of `answers.jsonl`."""

    key: str

    @property
    def slug(self) -> str:
        return self.key

    def __repr__(self) -> str:
        return self.key


def parse_figure(text: str) -> Metric | AnswerFigure:
    name = answer_metric_name(text)
    return parse_metric(text) if name is None else AnswerFigure(name)
