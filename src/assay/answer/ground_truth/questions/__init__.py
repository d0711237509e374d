"""New questions from documents, and the sieve that they go through."""

from assay.answer.ground_truth.questions.draft import Draft, Drop
from assay.answer.ground_truth.questions.folder import write_folder
from assay.answer.ground_truth.questions.making import QuestionSet, make_questions
from assay.answer.ground_truth.questions.own_documents import read_own_documents
from assay.answer.ground_truth.questions.writers import (
    ClozeWriter,
    ModelQuestionWriter,
    QuestionWriter,
)

__all__ = [
    "ClozeWriter",
    "Draft",
    "Drop",
    "ModelQuestionWriter",
    "QuestionSet",
    "QuestionWriter",
    "make_questions",
    "read_own_documents",
    "write_folder",
]
