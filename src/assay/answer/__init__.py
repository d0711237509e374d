"""Answers from documents: what is asked, what was found, what may be said about it."""

from assay.answer.passages import NOT_FOUND, Answer, Answerer, Passage

__all__ = ["NOT_FOUND", "Answer", "Answerer", "Passage"]
