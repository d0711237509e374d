"""The documents of one question, with links: retrieved, needed, and cited from elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from assay.report.html_queries import LISTED, QueryPainter, Remark, ShownDocument

_CITED = Remark("cited")
_NEEDED = Remark("needed", "good")
_RETRIEVED = Remark("retrieved", "good")
_MISSED = Remark("not retrieved", "bad")
_INVENTED = Remark("does not exist", "bad")


@dataclass(frozen=True)
class QuestionDocuments:
    """`anchor` begins the address of each document on the page; ids are those of documents."""

    painter: QueryPainter
    query_id: str
    anchor: str
    retrieved: Sequence[str]
    cited: Sequence[str]
    needed: Sequence[str]

    def shown_retrieved(self) -> list[ShownDocument]:
        shown = self.painter.retrieved(self.query_id, self.retrieved)
        first = [each.doc_id not in self.retrieved[:place] for place, each in enumerate(shown)]
        return [
            replace(each, anchor=self._anchor(each.doc_id), remarks=self._uses(each.doc_id))
            if is_first
            else each
            for each, is_first in zip(shown, first, strict=True)
        ]

    def shown_needed(self) -> list[ShownDocument]:
        had = set(self.retrieved)
        return [
            replace(each, remarks=(_RETRIEVED if each.doc_id in had else _MISSED,))
            for each in self.painter.documents(self.query_id, self.needed)
        ]

    def shown_others(self) -> list[ShownDocument]:
        """What is cited and does not stand in the list of what was retrieved."""
        return [
            replace(
                each,
                anchor=self._anchor(each.doc_id),
                remarks=(_INVENTED,) if self.invented(each.doc_id) else (),
            )
            for each in self.painter.documents(self.query_id, self._others)
        ]

    def invented(self, doc_id: str) -> bool:
        """Cannot be told without the data set."""
        dataset = self.painter.dataset
        return dataset is not None and doc_id not in dataset.documents

    def href(self, doc_id: str) -> str:
        """Empty where the document is not on the page."""
        return f"#{self._anchor(doc_id)}" if doc_id in self._places else ""

    @cached_property
    def _others(self) -> list[str]:
        listed = set(self.retrieved[:LISTED])
        return [each for each in dict.fromkeys(self.cited) if each not in listed]

    @cached_property
    def _places(self) -> dict[str, int]:
        listed = dict.fromkeys((*self.retrieved[:LISTED], *self._others[:LISTED]))
        return {doc_id: place for place, doc_id in enumerate(listed, start=1)}

    def _anchor(self, doc_id: str) -> str:
        return f"{self.anchor}-{self._places[doc_id]}"

    def _uses(self, doc_id: str) -> tuple[Remark, ...]:
        uses = ((_NEEDED, self.needed), (_CITED, self.cited))
        return tuple(remark for remark, ids in uses if doc_id in ids)
