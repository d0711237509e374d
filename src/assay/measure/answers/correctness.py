"""Right or wrong without a judge: every key fact stated, or declined where there is no answer."""

from assay.measure.answers.abstention import abstained
from assay.measure.answers.case import AnswerCase
from assay.measure.answers.facts import fact_recall

BY_FACTS = "every key fact stated by an accepted wording; declined where there is no answer"


def correct_by_facts(case: AnswerCase) -> bool | None:
    """None where there is nothing to hold the answer against: no facts, or no reference at all."""
    if not case.answerable:
        return case.answer is not None and abstained(case.answer)
    if not case.reference.facts:
        return None
    if case.answer is None or abstained(case.answer):
        return False
    return fact_recall(case.answer, case.reference.facts) == 1.0
