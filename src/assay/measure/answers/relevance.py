"""Whether an answer is about its question, as far as words alone can tell."""

from assay.measure.answers.abstention import abstained
from assay.text import stems


def answer_relevance(question: str, answer: str) -> float:
    """The share of the question's content words that the answer takes up; 0 for one that declines.

    A hint and no more: a terse right answer ("42.") takes up nothing, and one that repeats the
    question takes up everything. Compare it between agents, on the same questions.
    """
    wanted = set(stems(question))
    if not wanted or abstained(answer):
        return 0.0
    return len(wanted.intersection(stems(answer))) / len(wanted)
