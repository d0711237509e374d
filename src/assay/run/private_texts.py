"""What a private run writes of a call: ids and figures, no word of an answer or of a failure.

Answers stay in memory as long as the run goes on, to be measured. An id that the data set does not
know may be anything, a title or a name: a keyed hash stands for it.
"""

import hashlib
import secrets
from collections.abc import Collection, Container
from dataclasses import dataclass, field, replace

from assay.data.dataset import Dataset
from assay.privacy import WITHHELD
from assay.run.calls import Call


@dataclass(frozen=True, slots=True)
class PrivateTexts:
    """The texts of one private run.

    Parameters:
        known: the ids of the data set, which may be written.
    """

    known: Container[str]
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _answers: dict[str, Call] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, dataset: Dataset, also: Collection[str] = ()) -> "PrivateTexts":
        """For a run on `dataset`: its documents and whatever its judgments name, and `also`."""
        judged = {
            doc_id
            for split in dataset.judgments.values()
            for grades in split.values()
            for doc_id in grades
        }
        return cls(judged | dataset.documents.keys() | set(also))

    def withhold(self, call: Call) -> Call:
        """The call as it may be written; its answer is remembered here."""
        self._answers[call.query_id] = replace(call, citations=tuple(map(self._id, call.citations)))
        # By name: what a call may have in a later version is text until somebody knows better.
        return Call(
            query_id=call.query_id,
            doc_ids=tuple(map(self._id, call.doc_ids)),
            latency_ms=call.latency_ms,
            attempts=call.attempts,
            at=call.at,
            failure=call.failure,
            message=WITHHELD if call.message else "",
            returned=call.returned,
            scores=call.scores,
            asked_again=call.asked_again,
        )

    def restore(self, call: Call) -> Call:
        """The call with the answer that it had, if it was asked in this process."""
        kept = self._answers.get(call.query_id)
        return call if kept is None else replace(kept, doc_ids=call.doc_ids, message=call.message)

    def _id(self, doc_id: str) -> str:
        if doc_id in self.known:
            return doc_id
        digest = hashlib.blake2b(doc_id.encode("utf-8", "surrogatepass"), key=self._key)
        return f"unknown-{digest.hexdigest()[:12]}"
