"""A finding of its own: answers in capital letters."""

from assay.answers.checks import Check


def _capitals(case):
    return case.said if case.said.isupper() else None


shouts = Check("shouts", "are in capital letters", _capitals, severity="form")
