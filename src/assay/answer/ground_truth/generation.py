"""A reference answer for each question: written from its most relevant documents, and kept at once.

The journal is the truth while the work goes on; the result is written whole at its end.
"""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assay.answer.ground_truth.journal import Journal
from assay.answer.ground_truth.record import GroundTruth, read_records, to_json
from assay.answer.ground_truth.result_file import writable, write_json
from assay.answer.ground_truth.selection import MOST, expected_ids, source_documents
from assay.answer.ground_truth.writing import ExtractWriter, ReferenceWriter
from assay.data.dataset import Dataset, Document, Query
from assay.errors import DataError, ProviderError, ProviderFailure, UsageError
from assay.net.gather import gather
from assay.progress import Progress, silent

# What must be the same for an answer that is there already to stand.
_ORIGIN = ("provider", "model", "prompt", "document_ids")


@dataclass(frozen=True, slots=True)
class Order:
    """Which questions of which split, and from how many documents each answer is made."""

    dataset: Dataset
    split: str
    queries: Sequence[Query]
    documents: int = MOST


@dataclass(frozen=True, slots=True)
class Generated:
    """`left_out` says for each query without an answer why; `cut` are answers without their end."""

    truths: list[GroundTruth]
    written: int
    kept: int
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def cut(self) -> list[str]:
        return [each.query_id for each in self.truths if each.provenance.get("cut")]


async def generate_ground_truth(
    order: Order,
    writer: ReferenceWriter,
    out: Path,
    *,
    resume: bool = False,
    text: bool = True,
    progress: Progress = silent,
) -> Generated:
    """Writes `out`. Where a model fails or the budget ends, what is written stays in the journal.

    With `resume`, answers that `out` or its journal hold are kept: those of the same origin, and
    those without any, which a person wrote. Without `text` the file holds hashes in its place.
    """
    if not text and not isinstance(writer, ExtractWriter):
        raise UsageError(
            "only extracts can be left out of the file, since only they can be made anew from the "
            "documents: choose the provider 'extractive', or keep the text"
        )
    writable(out)
    journal = Journal(out)
    earlier = _earlier(out, journal, resume)
    # Text that may not be in the file has no business in a journal beside it; it costs nothing.
    desk = _Desk(order, writer, journal if text else None, progress)
    await desk.write(earlier)
    truths = [desk.done[query.id] for query in order.queries if query.id in desk.done]
    if not truths:
        raise DataError(
            f"none of {len(order.queries)} queries got a reference answer, so nothing was written: "
            + "; ".join(sorted(set(desk.left_out.values())))
        )
    others = [each for query_id, each in earlier.items() if query_id not in desk.asked]
    write_json([to_json(each, text=text) for each in [*truths, *others]], out)
    journal.remove()
    return Generated(truths, desk.written, len(truths) - desk.written, desk.left_out)


class _Desk:
    def __init__(
        self, order: Order, writer: ReferenceWriter, journal: Journal | None, progress: Progress
    ) -> None:
        self.asked = {query.id for query in order.queries}
        self.done: dict[str, GroundTruth] = {}
        self.left_out: dict[str, str] = {}
        self.written = 0
        self._order = order
        self._writer = writer
        self._journal = journal
        self._progress = progress

    async def write(self, earlier: Mapping[str, GroundTruth]) -> None:
        left: list[Coroutine[Any, Any, None]] = []
        for query in self._order.queries:
            known = earlier.get(query.id)
            if known is not None and self._stands(known, query):
                self.done[query.id] = known
            else:
                left.append(self._one(query))
        self._tell()
        await gather(left)

    async def _one(self, query: Query) -> None:
        sources = self._sources(query)
        try:
            written = await self._writer.write(query.text, sources)
            why = "" if written.text else self._writer.no_answer
        except ProviderError as error:
            if error.kind is not ProviderFailure.REFUSAL:
                raise
            why = str(error)
        if why:
            self.left_out[query.id] = why
        else:
            truth = self._truth(query, written.text, cut=written.cut)
            if self._journal:
                self._journal.append(truth)
            self.done[query.id] = truth
            self.written += 1
        self._tell()

    def _truth(self, query: Query, answer: str, *, cut: bool) -> GroundTruth:
        expected = expected_ids(self._order.dataset, self._order.split, query.id)
        provenance = {
            **self._origin(query),
            "dataset": self._order.dataset.name,
            "split": self._order.split,
            "created": datetime.now(UTC).date().isoformat(),
            "assay": version("agent-assay"),
            **({"cut": True} if cut else {}),
        }
        return GroundTruth(query.id, query.text, answer, expected, len(expected), provenance)

    def _origin(self, query: Query) -> dict[str, Any]:
        ids = [document.id for document in self._sources(query)]
        return {**self._writer.origin, "document_ids": ids}

    def _sources(self, query: Query) -> list[Document]:
        order = self._order
        return source_documents(order.dataset, order.split, query.id, order.documents)

    def _stands(self, known: GroundTruth, query: Query) -> bool:
        if not known.ground_truth_answer:
            return False
        origin = self._origin(query)
        same = all(known.provenance.get(key) == origin[key] for key in _ORIGIN)
        return not known.provenance or same

    def _tell(self) -> None:
        done = len(self.done) + len(self.left_out)
        self._progress("writing reference answers", done, len(self._order.queries))


def _earlier(out: Path, journal: Journal, resume: bool) -> dict[str, GroundTruth]:
    if resume:
        known = [*(read_records(out) if out.exists() else []), *journal.read()]
        return {truth.query_id: truth for truth in known}
    for path in (out, journal.path):
        if path.exists():
            raise UsageError(
                f"{str(path)!r} is there already: --resume keeps its answers and adds what is "
                "missing; to begin anew, remove it or choose another --out"
            )
    return {}
