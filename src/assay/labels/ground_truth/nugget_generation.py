"""Generates nuggets for each question of a data set from its judged documents; resumable."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assay.answers.nugget_file import (
    Nugget,
    NuggetMaker,
    QuestionNuggets,
    nuggets_from_json,
    nuggets_to_json,
    read_nuggets,
    write_nuggets,
)
from assay.data.dataset import Document, Query
from assay.data.journal import Journal, check_writable
from assay.errors import DataError
from assay.labels.ground_truth.generation import (
    GenerationTask,
    ranked_documents,
    refuse_existing,
)
from assay.labels.ground_truth.nugget_extraction import NuggetExtractor, NuggetRejection
from assay.net.gather import for_each
from assay.net.json import JsonObject
from assay.progress import Progress, silent
from assay.text import text_hash

MAX_DOCUMENTS = 10
"""Documents of one question that nuggets are extracted from, where no other number is asked for."""

_AT_ONCE = 8
# An existing question is kept if these are the same.
_ORIGIN = ("provider", "model", "prompt", "documents")


@dataclass
class NuggetResult:
    """What was extracted; `left_out` has the reason for each question without a nugget."""

    questions: list[QuestionNuggets] = field(default_factory=list)
    extracted: int = 0
    kept: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    rejected: Counter[NuggetRejection] = field(default_factory=Counter)


async def generate_nuggets(
    task: GenerationTask,
    extractor: NuggetExtractor,
    out: Path,
    *,
    resume: bool = False,
    progress: Progress = silent,
) -> NuggetResult:
    """Write the nuggets of every question to `out`.

    If the model fails or the budget is used up, the questions so far stay in the journal.

    Parameters:
        task: the questions.
        extractor: who extracts them.
        out: the result file.
        resume: keep questions of `out` and its journal that were extracted in the same way from the
            same documents; of the others keep what people wrote.
    """
    task.dataset.require_documents("--nuggets")
    check_writable(out)
    journal = Journal(out)
    earlier = _earlier(out, journal, resume)
    run = _Extraction(task, extractor, journal, progress)
    await run.extract(earlier)
    result = run.result
    result.questions = [run.done[query.id] for query in task.queries if query.id in run.done]
    if not any(each.nuggets for each in result.questions):
        raise DataError(
            f"none of {len(task.queries)} questions has a nugget, so nothing was written: "
            + "; ".join(sorted(set(result.left_out.values())))
        )
    asked = {query.id for query in task.queries}
    others = [each for query_id, each in earlier.items() if query_id not in asked]
    write_nuggets(out, [*result.questions, *others])
    journal.remove()
    return result


def _earlier(out: Path, journal: Journal, resume: bool) -> dict[str, QuestionNuggets]:
    if resume:
        known = read_nuggets(out, partial=True) if out.exists() else []
        known += [nuggets_from_json(each, journal.path) for each in journal.read()]
        return {each.query_id: each for each in known}
    refuse_existing("nuggets", out, journal.path)
    return {}


class _Extraction:
    def __init__(
        self, task: GenerationTask, extractor: NuggetExtractor, journal: Journal, progress: Progress
    ) -> None:
        self.done: dict[str, QuestionNuggets] = {}
        self.result = NuggetResult()
        self._task = task
        self._extractor = extractor
        self._journal = journal
        self._progress = progress
        self._finished = 0

    async def extract(self, earlier: Mapping[str, QuestionNuggets]) -> None:
        left = []
        for query in self._task.queries:
            known = earlier.get(query.id)
            if known is not None and self._is_current(known, query):
                self.done[query.id] = known
                self.result.kept += 1
                self._finished += 1
            else:
                left.append((query, known.by_people if known else ()))
        self._progress("extracting nuggets", self._finished, len(self._task.queries))
        await for_each(left, self._one, _AT_ONCE)

    async def _one(self, item: tuple[Query, Sequence[Nugget]]) -> None:
        query, own = item
        documents = self._documents(query)
        extracted = await self._extractor.extract(query.text, documents)
        self.result.rejected.update(extracted.rejected)
        made = [*own, *extracted.nuggets]
        if made:
            provenance = {
                **self._origin(query),
                "dataset": self._task.dataset.name,
                "fingerprint": self._task.dataset.fingerprint,
                "split": self._task.split,
                "created": datetime.now(UTC).date().isoformat(),
                "assay": version("agent-assay"),
                "candidates": extracted.candidates,
                "rejected": {each.name.lower(): n for each, n in extracted.rejected.items() if n},
                **({"cut_documents": extracted.cut} if extracted.cut else {}),
            }
            numbered = tuple(_numbered(made, query.id))
            question = QuestionNuggets(query.id, query.text, numbered, provenance)
            self._journal.append(nuggets_to_json(question))
            self.done[query.id] = question
            self.result.extracted += 1
        else:
            self.result.left_out[query.id] = _why_none(extracted.candidates, extracted.rejected)
        self._finished += 1
        self._progress("extracting nuggets", self._finished, len(self._task.queries))

    def _origin(self, query: Query) -> JsonObject:
        hashes = {each.id: text_hash(each.full_text) for each in self._documents(query)}
        return {**self._extractor.origin, "documents": hashes}

    def _documents(self, query: Query) -> list[Document]:
        task = self._task
        return ranked_documents(task.dataset, task.split, query.id)[: task.documents]

    def _is_current(self, known: QuestionNuggets, query: Query) -> bool:
        origin: dict[str, Any] = self._origin(query)
        same = all(known.provenance.get(key) == origin[key] for key in _ORIGIN)
        return not known.provenance or same


def _numbered(nuggets: Sequence[Nugget], query_id: str) -> list[Nugget]:
    """With ids in their order; people's nuggets keep theirs."""
    taken = {each.id for each in nuggets if each.by is NuggetMaker.HUMAN}
    numbered, number = [], 0
    for each in nuggets:
        if each.by is not NuggetMaker.HUMAN:
            number += 1
            while f"{query_id}.{number}" in taken:
                number += 1
            each = replace(each, id=f"{query_id}.{number}")
        numbered.append(each)
    return numbered


def _why_none(candidates: int, rejected: Counter[NuggetRejection]) -> str:
    none = "no nugget could be extracted from its documents"
    if not candidates and not rejected:
        return none
    reason, _ = max(rejected.items(), key=lambda item: item[1], default=(None, 0))
    return f"no nugget is left: {reason}" if reason else none
