"""Figures of rankings, answers and searches by name, and which direction is better."""

from dataclasses import dataclass

from assay.answers.answer_metrics import LOWER_IS_BETTER, answer_metric_name
from assay.metrics.metric import Metric, parse_metric
from assay.metrics.searches import SEARCH_FIGURES


@dataclass(frozen=True, repr=False, slots=True)
class AnswerFigure:
    """A figure of answers: `key` for programs, and in words where people read it."""

    key: str

    @property
    def slug(self) -> str:
        """The name among the figures of a report."""
        return self.key

    def __repr__(self) -> str:
        return self.key

    def __str__(self) -> str:
        return self.key.replace("_", " ")

    @property
    def title(self) -> str:
        """As a heading or the first cell of a row."""
        return f"{str(self)[:1].upper()}{str(self)[1:]}"

    @property
    def higher_is_better(self) -> bool:
        """False for rates of faults, such as the hallucination rate."""
        return self.key not in LOWER_IS_BETTER


class SearchMeasure(AnswerFigure):
    """A figure of an agent's searches, such as `evidence_recall`."""

    @property
    def higher_is_better(self) -> bool:
        """False for losses and amounts."""
        return SEARCH_FIGURES[self.key]


def parse_figure(text: str) -> Metric | AnswerFigure:
    """The figure of that name; `UsageError` if there is none."""
    if text in SEARCH_FIGURES:
        return SearchMeasure(text)
    name = answer_metric_name(text)
    return parse_metric(text) if name is None else AnswerFigure(name)


def improvement(figure: Metric | AnswerFigure, difference: float) -> float:
    """How much better a figure is that is higher by `difference`: above 0 for better."""
    return difference if figure.higher_is_better else -difference
