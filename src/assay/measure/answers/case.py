"""One question, what a right answer needs, and what an agent made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.data.dataset import ReferenceAnswer


@dataclass(frozen=True, slots=True)
class AnswerCase:
    """`answer` is None where the agent failed. `relevant` are the judgments of the question;
    `retrieved` and `citations` are document ids as the agent gave them.
    """

    query_id: str
    question: str
    reference: ReferenceAnswer
    relevant: Mapping[str, int] = field(default_factory=dict)
    answer: str | None = None
    retrieved: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()

    @property
    def answerable(self) -> bool:
        return self.reference.answer is not None

    @property
    def relevant_ids(self) -> frozenset[str]:
        return frozenset(doc_id for doc_id, grade in self.relevant.items() if grade > 0)

    @property
    def needed(self) -> frozenset[str]:
        """The documents that the reference answer rests on, else all that are judged relevant."""
        return frozenset(self.reference.documents) or self.relevant_ids
