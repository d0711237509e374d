"""Questions about documents: candidates are generated and filtered, and written as a data set.

The data set has the layout of BEIR, with reference answers.
"""

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import orjson

from assay.answer.ground_truth.candidates import (
    CandidateFilter,
    QuestionCandidate,
    Rejection,
    States,
    documents_with_quotes,
)
from assay.answer.ground_truth.writers import QuestionWriter
from assay.data.beir import write_beir
from assay.data.dataset import Dataset, Document, Query
from assay.errors import DataError, UsageError
from assay.net.gather import gather
from assay.net.json import JsonObject
from assay.progress import Progress, silent

_GRADE = 1
CANDIDATES_PER_QUESTION = 5
"""Bounds what a model that writes nothing useful can cost."""
_MIN_CHARACTERS = 40
"""A shorter document says too little for a question."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The accepted questions, how many candidates there were, and why others were rejected.

    `from_memory_checked` is False if there is no model that could know the answers.
    """

    questions: list[QuestionCandidate]
    candidates: int
    rejected: Mapping[Rejection, int]
    from_memory_checked: bool


async def generate_questions(
    documents: Mapping[str, Document],
    writer: QuestionWriter,
    number: int,
    *,
    states: States,
    seed: int = 42,
    taken: Sequence[str] = (),
    progress: Progress = silent,
) -> QuestionSet:
    """Up to `number` questions, at most one about each document.

    Args:
        documents: what to ask about, by id.
        writer: who proposes questions.
        states: whether a text states a fact.
        seed: decides the order of the documents.
        taken: questions that exist already.
    """
    if number < 1:
        raise UsageError(f"the number of questions must be >= 1, got {number!r}")
    selection = _Selection(CandidateFilter(documents, states, taken), writer, seed)
    order = _order(documents, seed)[: number * CANDIDATES_PER_QUESTION]
    while order and len(selection.kept) < number:
        wave = number - len(selection.kept)
        await selection.extend(order[:wave])
        order = order[wave:]
        progress("writing questions", len(selection.kept), number)
    rejected = {each: selection.rejected[each] for each in Rejection if selection.rejected[each]}
    return QuestionSet(
        selection.kept, selection.candidates, rejected, selection.from_memory_checked
    )


def _order(documents: Mapping[str, Document], seed: int) -> list[Document]:
    usable = [each for each in documents.values() if len(each.text) >= _MIN_CHARACTERS]
    if not usable:
        raise UsageError(
            f"none of the {len(documents)} documents has {_MIN_CHARACTERS} characters of text, so "
            "there is nothing to ask about"
        )
    usable.sort(key=lambda document: document.id)  # the same sample in any order of the files
    random.Random(seed).shuffle(usable)
    return usable


class _Selection:
    def __init__(
        self, candidate_filter: CandidateFilter, writer: QuestionWriter, seed: int
    ) -> None:
        self.kept: list[QuestionCandidate] = []
        self.rejected: Counter[Rejection] = Counter()
        self.candidates = 0
        self.from_memory_checked = False
        self._filter = candidate_filter
        self._writer = writer
        self._seed = seed

    async def extend(self, documents: Sequence[Document]) -> None:
        """Proposals and checks run concurrently, decisions in order: the result is repeatable."""
        proposals = await gather([self._writer.propose(each, self._seed) for each in documents])
        self.candidates += len(proposals)
        passed = [
            (candidate, document)
            for proposal, document in zip(proposals, documents, strict=True)
            if (candidate := self._filtered(proposal)) is not None
        ]
        reasons = await gather([self._tried(*each) for each in passed])
        for (candidate, _), reason in zip(passed, reasons, strict=True):
            # Only accepted questions count as duplicates: a rejected one blocks no other.
            if reason is None and self._filter.is_duplicate(candidate):
                reason = Rejection.DUPLICATE
            if reason is None:
                self._filter.accept(candidate)
                self.kept.append(candidate)
            else:
                self.rejected[reason] += 1

    def _filtered(self, proposal: QuestionCandidate | Rejection) -> QuestionCandidate | None:
        reason = proposal if isinstance(proposal, Rejection) else self._filter.rejection(proposal)
        if reason is not None:
            self.rejected[reason] += 1
        return None if reason is not None or isinstance(proposal, Rejection) else proposal

    async def _tried(self, candidate: QuestionCandidate, document: Document) -> Rejection | None:
        """The writer has to find the facts with the document, and must not know them without."""
        answer = await self._writer.answer_from(candidate.question, document)
        if not self._filter.states_all(answer, candidate):
            return Rejection.UNANSWERED
        remembered = await self._writer.answer_from_memory(candidate.question)
        self.from_memory_checked |= remembered is not None
        known = remembered and self._filter.states_all(remembered, candidate)
        return Rejection.FROM_MEMORY if known else None


def check_output_folder(out: Path) -> None:
    """Refuse a folder with content before a model is paid: nothing is ever overwritten."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{str(out)!r} already exists and is not an empty folder; choose another")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created: {error.strerror}", file=out.parent) from error


def write_question_set(
    made: QuestionSet, documents: Mapping[str, Document], origin: Mapping[str, str], out: Path
) -> JsonObject:
    """Write a data set, completely or not at all; the summary, which is also in `summary.json`."""
    check_output_folder(out)
    if not made.questions:
        reasons = "; ".join(f"{count} times {each}" for each, count in made.rejected.items())
        raise DataError(
            f"all {made.candidates} candidates were rejected ({reasons}), so nothing was written; "
            "try a better model or other documents"
        )
    questions = {f"q-{place:04}": each for place, each in enumerate(made.questions, 1)}
    summary = _summary(made, documents, origin)
    answers = (_answer(query_id, each, origin) for query_id, each in questions.items())
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as part:
        folder = Path(part) / "data"
        write_beir(_dataset(questions, documents, origin), folder)
        lines = (orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in answers)
        (folder / "answers.jsonl").write_bytes(b"".join(lines))
        (folder / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        if out.exists():
            out.rmdir()
        shutil.move(folder, out)
    return summary


def _dataset(
    questions: Mapping[str, QuestionCandidate],
    documents: Mapping[str, Document],
    origin: Mapping[str, str],
) -> Dataset:
    tags = ("generated", "cloze" if origin["model"] == "none" else "written by a model")
    queries = {id_: Query(id_, each.question, tags) for id_, each in questions.items()}
    judgments = {
        id_: dict.fromkeys(documents_with_quotes(each, documents), _GRADE)
        for id_, each in questions.items()
    }
    return Dataset("questions", documents, queries, {"test": judgments})


def _summary(
    made: QuestionSet, documents: Mapping[str, Document], origin: Mapping[str, str]
) -> JsonObject:
    return {
        "questions": len(made.questions),
        "drafted": made.candidates,
        "dropped": {each.name.lower(): count for each, count in made.rejected.items()},
        "from_memory_checked": made.from_memory_checked,
        "documents": len(documents),
        **origin,
        "created": datetime.now(UTC).date().isoformat(),
        "assay": version("agent-assay"),
    }


def _answer(query_id: str, candidate: QuestionCandidate, origin: Mapping[str, str]) -> JsonObject:
    facts = [
        {"text": fact.text, "accept": list(fact.accept), "quote": quote}
        for fact, quote in zip(candidate.facts, candidate.quotes, strict=True)
    ]
    return {
        "query_id": query_id,
        "answer": candidate.answer,
        "facts": facts,
        "documents": [candidate.document_id],
        "provenance": dict(origin),
    }
