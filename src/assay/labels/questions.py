"""Questions that a model writes about documents, each checked against them, as a data set.

made = await write_questions(documents, ModelQuestionWriter(provider), 50)
save_questions(made, documents, Path("questions"))
"""

import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from assay.answers.outcome import states
from assay.data.beir import read_documents, write_beir
from assay.data.dataset import Dataset, Document, Fact, Query
from assay.data.html_text import title_and_text
from assay.data.text_file import Findings
from assay.errors import DataError, ProviderError, ProviderFailure, UsageError
from assay.files import atomic_write, read_text_file
from assay.llm.answerer import ModelAnswerer
from assay.llm.passages import Passage
from assay.llm.prompt import delimited, delimiter_code, load_prompt, writer_origin
from assay.llm.providers.provider import LLMProvider
from assay.net.gather import gather
from assay.net.json import JsonObject, parse_json
from assay.progress import Progress, silent
from assay.search.bm25_index import Bm25Index
from assay.text import stems

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
        return dict(read_documents([corpus], Findings()))
    if not path.is_dir():
        raise DataError(f"has no readable documents; pass {_FORMS}", file=path)
    documents = {document.id: document for document in _text_files(path)}
    if not documents:
        raise DataError(f"has no documents; pass {_FORMS}", file=path)
    return documents


def _text_files(folder: Path) -> Iterator[Document]:
    """The id is the path within the folder; a Markdown heading on the first line is the title."""
    for path in _files(folder):
        if path.suffix.lower() not in _KINDS:
            continue
        if path.stat().st_size > _MAX_BYTES:
            raise DataError(f"is larger than {_MAX_BYTES // 2**20} MiB; split it", file=path)
        try:
            content = _WRAPPED_LINE.sub(" ", read_text_file(path, encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read as UTF-8 text: {error}", file=path) from None
        title, text = "", content.strip()
        if path.suffix.lower() in _PAGES:
            title, text = title_and_text(content)
        elif text.startswith("# "):
            title, _, text = (part.strip() for part in text[2:].partition("\n"))
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


_QUOTED = str.maketrans("’‘“”–—", "''\"\"--")


def quoted_in(quote: str, document: Document) -> bool:
    """Word for word: only white space, case and the style of quotation marks may differ."""
    return _plain(quote) in _plain(f"{document.title}\n{document.text}")


def _plain(text: str) -> str:
    return " ".join(text.translate(_QUOTED).casefold().split())


class Rejection(StrEnum):
    """Why a candidate was rejected, in the order of the checks."""

    REFUSED = "the model refused"
    UNREADABLE = "the reply was not the JSON that was asked for"
    FALSE_QUOTE = "a quote is not in the document"
    UNSTATED = "the answer does not state its own facts"
    GIVEN_AWAY = "the question states its own answer"
    NAMES_DOCUMENT = "the question names the document"
    DUPLICATE = "nearly the same question exists"
    NOT_FOUND = "search does not find the document"
    UNANSWERED = "the document alone does not answer it"
    FROM_MEMORY = "the model answers it without any document"


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """A question about a document. `quotes` from the document support the facts, one for each."""

    document_id: str
    question: str
    answer: str
    facts: tuple[Fact, ...]
    quotes: tuple[str, ...]


_CANDIDATE_TOKENS = 600
_ANSWER_TOKENS = 200
# Of a long document the model is shown a part, from a place that the seed decides.
_PART = 6000
_PROMPTS = ("question_writing", "question_alone", "answer_system", "answer_question")


class ModelQuestionWriter:
    """Has a language model write questions about documents, and try to answer them."""

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider
        self._answerer = ModelAnswerer(provider)
        note = "Written by a language model and checked by rules; no person read it."
        self.origin = writer_origin(provider.name, _PROMPTS, note)

    async def propose(self, document: Document, seed: int) -> QuestionCandidate | Rejection:
        """A question about the document, or why there is none."""
        try:
            prompt = candidate_prompt(document, seed)
            reply = await self._provider.generate(prompt, _CANDIDATE_TOKENS)
        except ProviderError as error:
            _require_refusal(error)
            return Rejection.REFUSED
        return parse_candidate(reply, document.id) or Rejection.UNREADABLE

    async def answer_from(self, question: str, document: Document) -> str:
        """The model's answer from this document; empty if it refuses."""
        passage = Passage(document.id, document.title, document.text)
        try:
            return (await self._answerer.answer(question, [passage], _ANSWER_TOKENS)).text
        except ProviderError as error:
            _require_refusal(error)
            return ""

    async def answer_from_memory(self, question: str) -> str:
        """The model's answer without a document; empty if it does not know."""
        try:
            answer = await self._answerer.answer_from_memory(question, _ANSWER_TOKENS)
        except ProviderError as error:
            _require_refusal(error)
            return ""
        return answer.text if answer.found else ""


def _require_refusal(error: ProviderError) -> None:
    """A model that refuses has answered; any other failure is raised again."""
    if error.kind is not ProviderFailure.REFUSAL:
        raise error


def candidate_prompt(document: Document, seed: int) -> str:
    """Asks a model for one question about the document, as JSON."""
    text = document.text
    if len(text) > _PART:
        start = random.Random(f"{seed}:{document.id}").randrange(len(text) - _PART)
        text = text[start : start + _PART].partition(" ")[2]
    shown = f"{document.title}\n\n{text}".strip()
    code = delimiter_code(shown)
    return load_prompt("question_writing").fill(
        code=code, document=delimited("document", code, shown)
    )


def parse_candidate(reply: str, document_id: str) -> QuestionCandidate | None:
    """The candidate in a model's reply; None if that is not the JSON which was asked for."""
    try:
        fields = parse_json(reply[reply.index("{") : reply.rindex("}") + 1])
        facts = [_fact(each) for each in fields["facts"]]
        candidate = QuestionCandidate(
            document_id,
            _text(fields["question"]),
            _text(fields["answer"]),
            tuple(fact for fact, _ in facts),
            tuple(quote for _, quote in facts),
        )
    except (ValueError, KeyError, TypeError):  # also what orjson raises
        return None
    return candidate if candidate.facts else None


def _fact(fields: Any) -> tuple[Fact, str]:
    text = _text(fields["text"])
    accept = tuple(_text(each) for each in fields.get("accept") or [text])
    return Fact(text, accept), _text(fields["quote"])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a non-empty string")
    return " ".join(value.split())


FOUND_WITHIN = 20
"""The rank up to which lexical search has to find the document: a question that only the best
search finds is worth having, and below are mostly questions about nothing."""
CANDIDATES_PER_QUESTION = 5
"""Bounds what a model that writes nothing useful can cost."""
MAX_QUESTIONS = 10_000
_MIN_CHARACTERS = 40  # a shorter document says too little for a question
_SAME = 0.75
_AS_HIGH = 0.99
_THING = (
    r"(?:document|text|passage|article|excerpt|abstract|paper|authors?|study|studies|note|file)"
)
_NAMES_DOCUMENT = re.compile(
    rf"\b(?:the|this|that|these|given|provided|following|above)\s+(?:\w+\s+)?{_THING}\b"
    r"|\baccording to (?:the|this|it)\b|\bmentioned (?:above|here|in)\b",
    re.IGNORECASE,
)


class QuestionChecks:
    """Checks candidates against the documents and against questions that exist (`taken`)."""

    def __init__(self, documents: Mapping[str, Document], taken: Sequence[str] = ()) -> None:
        self.documents = documents
        self._index = Bm25Index(documents.values())
        self._taken = [frozenset(stems(each)) for each in taken]

    def rejection(self, candidate: QuestionCandidate) -> Rejection | None:
        """The first check that a candidate fails, cheap checks first; None if it passes."""
        document = self.documents[candidate.document_id]
        if not all(quoted_in(quote, document) for quote in candidate.quotes):
            return Rejection.FALSE_QUOTE
        if not states_all(candidate.answer, candidate):
            return Rejection.UNSTATED
        if any(states(candidate.question, fact) for fact in candidate.facts):
            return Rejection.GIVEN_AWAY
        if _NAMES_DOCUMENT.search(candidate.question):
            return Rejection.NAMES_DOCUMENT
        if self.is_taken(candidate.question):
            return Rejection.DUPLICATE
        hits = dict(self._index.search(candidate.question, FOUND_WITHIN))
        return None if candidate.document_id in hits else Rejection.NOT_FOUND

    def is_taken(self, question: str) -> bool:
        """Whether a question that shares three quarters of its words was accepted before."""
        said = frozenset(stems(question))
        return any(len(said & old) >= _SAME * len(said | old) for old in self._taken)

    def accept(self, question: str) -> None:
        """Count the question as taken."""
        self._taken.append(frozenset(stems(question)))

    def expected(self, candidate: QuestionCandidate) -> list[str]:
        """The candidate's document, and any other with all its quotes: copies are right too."""
        copies = [
            each.id
            for each in self.documents.values()
            if each.id != candidate.document_id
            and all(quoted_in(quote, each) for quote in candidate.quotes)
        ]
        return [candidate.document_id, *copies]

    def is_ambiguous(self, candidate: QuestionCandidate) -> bool:
        """Whether BM25 ranks another document as high as those expected."""
        expected = self.expected(candidate)
        hits = dict(self._index.search(candidate.question, FOUND_WITHIN))
        best = max(hits.get(each, 0.0) for each in expected)
        others = [score for doc_id, score in hits.items() if doc_id not in expected]
        return best == 0.0 or max(others, default=0.0) >= _AS_HIGH * best


def states_all(answer: str, candidate: QuestionCandidate) -> bool:
    """Whether the answer states all facts of the candidate."""
    return all(states(answer, fact) for fact in candidate.facts)


@dataclass
class WrittenQuestions:
    """The questions that passed all checks, who wrote them, and why others did not pass."""

    origin: Mapping[str, str]
    questions: list[QuestionCandidate] = field(default_factory=list)
    drafted: int = 0
    rejected: Counter[Rejection] = field(default_factory=Counter)


async def write_questions(
    checks: QuestionChecks,
    writer: ModelQuestionWriter,
    number: int,
    *,
    seed: int = 42,
    progress: Progress = silent,
) -> WrittenQuestions:
    """Up to `number` questions, at most one about each document; `seed` decides their order."""
    if not 1 <= number <= MAX_QUESTIONS:
        raise UsageError(f"ask for 1 to {MAX_QUESTIONS:,} questions, got {number}")
    made = WrittenQuestions(writer.origin)
    order = _order(checks.documents, seed)[: number * CANDIDATES_PER_QUESTION]
    while order and len(made.questions) < number:
        wave = order[: number - len(made.questions)]
        await _extend(made, checks, writer, wave, seed)
        order = order[len(wave) :]
        progress("writing questions", len(made.questions), number)
    return made


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


async def _extend(
    made: WrittenQuestions,
    checks: QuestionChecks,
    writer: ModelQuestionWriter,
    documents: Sequence[Document],
    seed: int,
) -> None:
    """Proposals and checks run concurrently, decisions in order: the result is repeatable."""

    async def tried(candidate: QuestionCandidate | Rejection) -> Rejection | None:
        if isinstance(candidate, Rejection):
            return candidate
        if failed := checks.rejection(candidate):
            return failed
        # The model has to find the facts with the document, and must not know them without.
        document = checks.documents[candidate.document_id]
        if not states_all(await writer.answer_from(candidate.question, document), candidate):
            return Rejection.UNANSWERED
        remembered = await writer.answer_from_memory(candidate.question)
        return Rejection.FROM_MEMORY if states_all(remembered, candidate) else None

    proposals = await gather([writer.propose(each, seed) for each in documents])
    reasons = await gather([tried(each) for each in proposals])
    made.drafted += len(proposals)
    for candidate, reason in zip(proposals, reasons, strict=True):
        if isinstance(candidate, Rejection) or reason is not None:
            made.rejected[reason or Rejection.UNREADABLE] += 1
        elif checks.is_taken(candidate.question):
            made.rejected[Rejection.DUPLICATE] += 1
        else:
            checks.accept(candidate.question)
            made.questions.append(candidate)


TABLE = "questions.jsonl"
"""The table with the provenance of every question, also in a folder."""


def require_free(out: Path) -> None:
    """Raise `UsageError` before a model is paid: nothing is ever overwritten."""
    if out.suffix == ".jsonl":
        if out.exists():
            raise UsageError(f"{str(out)!r} already exists; choose another file")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{str(out)!r} already exists and is not an empty folder; choose another")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created: {error.strerror}", file=out.parent) from error


def save_questions(made: WrittenQuestions, checks: QuestionChecks, out: Path) -> JsonObject:
    """Write a BEIR folder, or one table if `out` ends in .jsonl; returns the summary."""
    require_free(out)
    if not made.questions:
        reasons = "; ".join(f"{number} times {each}" for each, number in made.rejected.items())
        raise DataError(
            f"all {made.drafted} candidates were rejected ({reasons}), so nothing was written; try "
            "other documents or a better model"
        )
    rows = [_row(f"q-{place:04}", each, checks) for place, each in enumerate(made.questions, 1)]
    summary: JsonObject = {
        "questions": len(rows),
        "ambiguous": sum("ambiguous" in row["tags"] for row in rows),
        "drafted": made.drafted,
        "dropped": {each.name.lower(): number for each, number in made.rejected.items()},
        "documents": len(checks.documents),
        **made.origin,
        "created": datetime.now(UTC).date().isoformat(),
        "assay": version("agent-assay"),
    }
    table = _lines({**row, "provenance": {**row["provenance"], **made.origin}} for row in rows)
    if out.suffix == ".jsonl":
        atomic_write(out, table)
        return summary
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as part:
        folder = Path(part) / "data"
        write_beir(_dataset(rows, checks.documents), folder)
        answers = (_answer(*each, made.origin) for each in zip(rows, made.questions, strict=True))
        (folder / "answers.jsonl").write_bytes(_lines(answers))
        (folder / TABLE).write_bytes(table)
        (folder / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        if out.exists():
            out.rmdir()
        shutil.move(folder, out)
    return summary


def _lines(rows: Iterable[JsonObject]) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _row(query_id: str, question: QuestionCandidate, checks: QuestionChecks) -> JsonObject:
    """One line of the table. Every column that is not known to `--dataset` is a tag."""
    quotes = [{"doc_id": question.document_id, "text": each} for each in question.quotes]
    return {
        "query_id": query_id,
        "query": question.question,
        "doc_ids": checks.expected(question),
        "answer": question.answer,
        "tags": ["generated", *(["ambiguous"] if checks.is_ambiguous(question) else [])],
        "provenance": {"quotes": quotes},
    }


def _dataset(rows: Sequence[JsonObject], documents: Mapping[str, Document]) -> Dataset:
    queries = {
        row["query_id"]: Query(row["query_id"], row["query"], tuple(row["tags"])) for row in rows
    }
    judgments = {row["query_id"]: dict.fromkeys(row["doc_ids"], 1) for row in rows}
    return Dataset("questions", documents, queries, {"test": judgments})


def _answer(row: JsonObject, question: QuestionCandidate, origin: Mapping[str, str]) -> JsonObject:
    pairs = zip(question.facts, question.quotes, strict=True)
    return {
        "query_id": row["query_id"],
        "answer": question.answer,
        "facts": [
            {"text": fact.text, "accept": list(fact.accept), "quote": quote}
            for fact, quote in pairs
        ],
        "documents": [question.document_id],
        "provenance": {**origin, **row["provenance"]},
    }
