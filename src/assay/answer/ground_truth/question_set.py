"""Questions about single documents: candidates that a writer proposes, filtered."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.answer.ground_truth.candidates import (
    CandidateFilter,
    QuestionCandidate,
    Rejection,
    States,
)
from assay.answer.ground_truth.writers import QuestionWriter
from assay.data.dataset import Document
from assay.data.text_file import Findings, Record, plain_file, read_by_id
from assay.data.trec_corpus import title_and_text
from assay.errors import DataError, UsageError
from assay.files import read_text_file
from assay.net.gather import gather
from assay.progress import Progress, silent

_PAGES = (".html", ".htm")
_KINDS = (".md", ".txt", *_PAGES)
_MAX_BYTES = 2 * 2**20
# A hard-wrapped line: a long one, with plain text on the next.
_WRAPPED_LINE = re.compile(r"(?<=[^\n]{60})\n(?=[^\s#>|*+-])")
_FORMS = "a data set, a corpus.jsonl, or a folder of .md, .txt and .html files"


def is_dataset(path: Path) -> bool:
    """Whether the path has questions too, so that it is read as a data set."""
    inside = path.is_dir() and next(path.glob("**/queries.jsonl*"), None) is not None
    return inside or path.suffix.lower() == ".zip"


def read_source_documents(path: Path) -> dict[str, Document]:
    """The documents of a corpus.jsonl or of a folder of text files, by id."""
    if not path.exists():
        raise DataError(f"does not exist; pass {_FORMS}", file=path)
    corpus = path / "corpus.jsonl" if path.is_dir() else path
    if corpus.is_file() and corpus.suffix == ".jsonl":
        return read_by_id(plain_file(corpus), "_id", _document, Findings())
    if not path.is_dir():
        raise DataError(f"has no readable documents; pass {_FORMS}", file=path)
    documents = {document.id: document for document in _notes(path)}
    if not documents:
        raise DataError(f"has no documents; pass {_FORMS}", file=path)
    return documents


def _document(record: Record, identifier: str) -> Document:
    return Document(identifier, record.text("title"), record.text("text"))


def _notes(folder: Path) -> Iterator[Document]:
    """The id is the path within the folder. Hidden files and folders are skipped."""
    for path in _files(folder):
        if path.suffix.lower() in _KINDS:
            content = _content(path)
            page = path.suffix.lower() in _PAGES
            title, text = title_and_text(content) if page else _title_and_text(content, path.stem)
            yield Document(path.relative_to(folder).as_posix(), title or path.stem, text)


def files_left_out(folder: Path) -> Counter[str]:
    """How many files of a folder of documents are of a kind that is not read, by suffix."""
    if not folder.is_dir() or (folder / "corpus.jsonl").is_file():
        return Counter()
    suffixes = (path.suffix.lower() for path in _files(folder))
    return Counter(each or "without a suffix" for each in suffixes if each not in _KINDS)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield path


def _content(path: Path) -> str:
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"is larger than {_MAX_BYTES // 2**20} MiB; split it", file=path)
    try:
        return _WRAPPED_LINE.sub(" ", read_text_file(path, encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as UTF-8 text: {error}", file=path) from None


def _title_and_text(content: str, name: str) -> tuple[str, str]:
    """A heading of Markdown on the first line is the title, else the file's name is."""
    first, _, rest = content.lstrip().partition("\n")
    if first.startswith("# "):
        return first[2:].strip(), rest.strip()
    return name, content.strip()


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
