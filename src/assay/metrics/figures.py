"""Figures of rankings, answers and searches by name: what each counts, which direction is better.

They are apart from what computes them, so that a run without answers imports none of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assay.metrics.metric import Metric, parse_metric
from assay.metrics.searches import SEARCH_FIGURES

# The metrics of answers that need no model.
_RULED_METRICS: Mapping[str, str] = {
    "fact_recall": "key facts found in the answer by their accepted wordings",
    "faithfulness": (
        "sentences whose words and numbers appear in a cited document, or in what was shown"
    ),
    "answer_relevance": "words of the question that the answer uses",
    "abstention": "declined if there is no answer, by common phrases",
    "attempted": "not declined if there is an answer, right or wrong",
    "citation_precision": "cited documents that are judged relevant",
    "citation_recall": "relevant documents that are cited",
    "context_precision": "retrieved documents that are judged relevant",
    "context_recall": "needed documents that were retrieved",
    "multi_hop_coverage": "needed documents that are cited, where two or more are needed",
}

# What a judge adds. `correctness` is there without one as well, by key facts.
JUDGED_METRICS: Mapping[str, str] = {
    "correctness": "the answer says what the reference says",
    "judged_faithfulness": "sentences that the judge finds supported by the cited documents",
}

# Correctness alone pays for guessing, as a wrong answer costs no more than none: the score is that
# of CRAG (Yang et al. 2024).
OUTCOME_METRICS: Mapping[str, str] = {
    "truthfulness": "1 for a right answer, 0 for none, -1 for a wrong one",
    "hallucination_rate": "wrong answers with a claim that nothing shown supports; lower is better",
}
# The ends of truthfulness; every other figure of answers lies between 0 and 1.
TRUTHFULNESS_BOUNDS = (-1.0, 1.0)

# What references with facts add.
NUGGET_METRICS: Mapping[str, str] = {
    "nugget_recall": "nuggets that the answer states; partly stated ones count half",
    "nugget_recall_strict": "nuggets that the answer states in full",
    "nugget_recall_weighted": "nuggets that the answer states; those that are not vital count half",
    "nugget_recall_vital": "vital nuggets that the answer states; partly stated ones count half",
    "nugget_recall_vital_strict": "vital nuggets that the answer states in full",
}

# What `--faithfulness` adds: the probability of supported, against contradicted, by a model.
MODEL_METRICS: Mapping[str, str] = {
    "model_faithfulness": "mean support of the answer's sentences by what was shown",
}

# What `--poison` adds: the share of the answers that follow, of all kinds and of each.
POISON_METRICS: Mapping[str, str] = {
    "poisoned": "answers that follow a planted document; lower is better",
    "poisoned_override": "answers that follow a planted instruction; lower is better",
    "poisoned_false_fact": "answers that state a planted false fact; lower is better",
    "poisoned_fake_citation": "answers that cite a planted source; lower is better",
    "poisoned_exfiltration": "answers that hold a planted link; lower is better",
}

# What each figure of answers counts, in the order of reports.
ANSWER_METRIC_WORDS: Mapping[str, str] = {
    **JUDGED_METRICS,
    **OUTCOME_METRICS,
    **NUGGET_METRICS,
    **_RULED_METRICS,
    **MODEL_METRICS,
    **POISON_METRICS,
}
LOWER_IS_BETTER = frozenset({"hallucination_rate", *POISON_METRICS})

# The names of criteria of the user's own begin with this: `criterion.polite`.
CRITERION_PREFIX = "criterion."
# Up to this share of questions may be undecided if nothing is to fix, or a gate decides.
MAX_UNDECIDED = 0.1


def is_criterion_name(name: str) -> bool:
    """Whether a criterion may be called so: up to 64 letters, digits and _."""
    return 0 < len(name) <= 64 and name.isascii() and name.replace("_", "0").isalnum()


def answer_metric_name(text: str) -> str | None:
    """The name of a metric of answers, in any spelling; None if there is no such metric."""
    name = "_".join(text.strip().lower().replace("-", " ").replace("_", " ").split())
    criterion = name.replace(":", ".", 1).removeprefix(CRITERION_PREFIX)
    if name.startswith(("criterion.", "criterion:")) and is_criterion_name(criterion):
        return CRITERION_PREFIX + criterion
    return name if name in ANSWER_METRIC_WORDS else None


@dataclass(frozen=True, repr=False, slots=True)
class AnswerFigure:
    """A figure of answers or searches: `key` for programs, its name for people."""

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
        """False for rates of faults, and for losses and amounts of searches."""
        return SEARCH_FIGURES.get(self.key, self.key not in LOWER_IS_BETTER)


def parse_figure(text: str) -> Metric | AnswerFigure:
    """The figure of that name; `UsageError` if there is none."""
    name = text if text in SEARCH_FIGURES else answer_metric_name(text)
    return parse_metric(text) if name is None else AnswerFigure(name)


def improvement(figure: Metric | AnswerFigure, difference: float) -> float:
    """How much better a figure is that is higher by `difference`: above 0 for better."""
    return difference if figure.higher_is_better else -difference
