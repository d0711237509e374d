"""Questions that a model writes about documents, each checked against them, as a data set.

checks = QuestionChecks(documents)
made = await write_questions(checks, provider, 50)
save_questions(made, checks, Path("questions"))
"""

import random
import re
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import orjson

from assay.answers.outcome import stated_facts
from assay.data.beir import read_documents, write_new_beir
from assay.data.dataset import Dataset, Document, Fact, Query, ReferenceAnswer
from assay.data.text_file import Findings
from assay.errors import DataError, ProviderError, ProviderFailure, UsageError
from assay.files import read_text_file
from assay.llm.answerer import ModelAnswerer
from assay.llm.passages import Passage
from assay.llm.prompt import delimited, delimiter_code, load_prompt, writer_origin
from assay.llm.providers.provider import LLMProvider
from assay.net.gather import gather
from assay.net.json import JsonObject, parse_json
from assay.progress import Progress, silent
from assay.search.bm25 import Bm25Index
from assay.text import stems

_Reply = TypeVar("_Reply")

_KINDS = (".md", ".txt")
_MAX_BYTES = 2 * 2**20


def is_dataset(path: Path) -> bool:
    """Whether the path has questions too, so that it is read as a data set."""
    inside = path.is_dir() and next(path.glob("**/queries.jsonl*"), None) is not None
    return inside or path.suffix.lower() == ".zip"


def read_source_documents(path: Path) -> tuple[dict[str, Document], int]:
    """The documents of a corpus.jsonl or of a folder of text files, by id or path; and how many
    files of other kinds were left out. A Markdown heading on the first line is the title.
    """
    corpus = path / "corpus.jsonl" if path.is_dir() else path
    if corpus.is_file() and corpus.suffix == ".jsonl":
        return dict(read_documents([corpus], Findings())), 0
    documents: dict[str, Document] = {}
    left_out = 0
    for file in sorted(path.rglob("*")):
        inner = file.relative_to(path)
        if not file.is_file() or any(part.startswith(".") for part in inner.parts):
            continue
        if file.suffix.lower() not in _KINDS:
            left_out += 1
            continue
        try:
            text = read_text_file(file, encoding="utf-8-sig", limit=_MAX_BYTES).strip()
        except (OSError, ValueError) as error:
            raise DataError(f"cannot be read as UTF-8 text: {error}", file=file) from None
        title = ""
        if text.startswith("# "):
            title, _, text = (part.strip() for part in text[2:].partition("\n"))
        documents[inner.as_posix()] = Document(inner.as_posix(), title or file.stem, text)
    if not documents:
        raise DataError("has no documents; pass a folder of .md and .txt files", file=path)
    return documents, left_out


_QUOTED = str.maketrans("’‘“”–—", "''\"\"--")


def quoted_in(quote: str, document: Document) -> bool:
    """Word for word: only white space, case and the style of quotation marks may differ."""
    said, held = (
        " ".join(text.translate(_QUOTED).casefold().split())
        for text in (quote, f"{document.title}\n{document.text}")
    )
    return said in held


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

    def is_stated_in(self, answer: str) -> bool:
        """Whether the answer states all its facts."""
        return len(stated_facts(answer, self.facts)) == len(self.facts)


_CANDIDATE_TOKENS = 600  # a question, an answer and some facts with their quotes, as JSON
_ANSWER_TOKENS = 200
# Of a long document the model is shown a part, from a place that the seed decides.
_PART = 6000
_PROMPTS = ("question_writing", "question_alone", "answer_system", "answer_question")


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
    """The candidate in a model's reply; None if it has another shape."""
    try:
        fields = json_in(reply, "{}")
        facts = [
            Fact(text, tuple(map(_text, each.get("accept") or [text])))
            for each in fields["facts"]
            if (text := _text(each["text"]))
        ]
        quotes = tuple(_text(each["quote"]) for each in fields["facts"])
        question, answer = _text(fields["question"]), _text(fields["answer"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not facts:
        return None
    return QuestionCandidate(document_id, question, answer, tuple(facts), quotes)


def json_in(reply: str, brackets: str) -> Any:
    """`json_in("Sure: {...}", "{}")`: the JSON in a model's reply. Raises `ValueError`."""
    return parse_json(reply[reply.index(brackets[0]) : reply.rindex(brackets[1]) + 1])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a non-empty string")
    return " ".join(value.split())


# The rank up to which lexical search has to find the document: a question that only the best
# search finds is worth having, and below are mostly questions about nothing.
FOUND_WITHIN = 20
CANDIDATES_PER_QUESTION = 5  # bounds what a model that writes nothing useful can cost
MAX_QUESTIONS = 10_000
_MIN_CHARACTERS = 40  # a shorter document says too little for a question
_SAME_SHARE = 0.75
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
        if not candidate.is_stated_in(candidate.answer):
            return Rejection.UNSTATED
        if stated_facts(candidate.question, candidate.facts):
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
        return any(len(said & old) >= _SAME_SHARE * len(said | old) for old in self._taken)

    def accept(self, question: str) -> None:
        """Count the question as taken."""
        self._taken.append(frozenset(stems(question)))

    def expected(self, candidate: QuestionCandidate) -> list[str]:
        """The candidate's document, and any other with all its quotes: copies are right too."""
        having = (
            each.id
            for each in self.documents.values()
            if all(quoted_in(quote, each) for quote in candidate.quotes)
        )
        return list(dict.fromkeys([candidate.document_id, *having]))


@dataclass
class WrittenQuestions:
    """The questions that passed all checks, who wrote them, and why others did not pass."""

    origin: Mapping[str, str]
    questions: list[QuestionCandidate] = field(default_factory=list)
    drafted: int = 0
    rejected: Counter[Rejection] = field(default_factory=Counter)


async def write_questions(
    checks: QuestionChecks,
    provider: LLMProvider,
    number: int,
    *,
    seed: int = 42,
    progress: Progress = silent,
) -> WrittenQuestions:
    """Up to `number` questions, at most one about each document; `seed` decides their order."""
    if not 1 <= number <= MAX_QUESTIONS:
        raise UsageError(f"ask for 1 to {MAX_QUESTIONS:,} questions, got {number}")
    usable = [each for each in checks.documents.values() if len(each.text) >= _MIN_CHARACTERS]
    if not usable:
        raise UsageError(
            f"none of {len(checks.documents)} documents has {_MIN_CHARACTERS} characters of text: "
            "there is nothing to ask about"
        )
    usable.sort(key=lambda document: document.id)  # the same sample in any order of the files
    random.Random(seed).shuffle(usable)
    note = "Written by a language model and checked by rules; no person read it."
    made = WrittenQuestions(writer_origin(provider.name, _PROMPTS, note))
    order = usable[: number * CANDIDATES_PER_QUESTION]
    while order and len(made.questions) < number:
        size = number - len(made.questions)
        # Proposals and checks run concurrently, decisions in order: the result is repeatable.
        tried = await gather(_try(checks, provider, each, seed) for each in order[:size])
        made.drafted += len(tried)
        for found in tried:
            if isinstance(found, QuestionCandidate) and checks.is_taken(found.question):
                found = Rejection.DUPLICATE
            if isinstance(found, Rejection):
                made.rejected[found] += 1
            else:
                checks.accept(found.question)
                made.questions.append(found)
        order = order[size:]
        progress("writing questions", len(made.questions), number)
    return made


async def _try(
    checks: QuestionChecks, provider: LLMProvider, document: Document, seed: int
) -> QuestionCandidate | Rejection:
    """A question about the document; or the first check that it fails, those by a model last."""
    asked = provider.generate(candidate_prompt(document, seed), _CANDIDATE_TOKENS)
    if (reply := await unless_refused(asked)) is None:
        return Rejection.REFUSED
    if (candidate := parse_candidate(reply, document.id)) is None:
        return Rejection.UNREADABLE
    if (failed := checks.rejection(candidate)) is not None:
        return failed
    # The model has to find the facts with the document, and must not know them without.
    question, answerer = candidate.question, ModelAnswerer(provider)
    passage = Passage(document.id, document.title, document.text)
    shown = await unless_refused(answerer.answer(question, [passage], _ANSWER_TOKENS))
    if shown is None or not candidate.is_stated_in(shown.text):
        return Rejection.UNANSWERED
    known = await unless_refused(answerer.answer_from_memory(question, _ANSWER_TOKENS))
    remembers = known is not None and known.found and candidate.is_stated_in(known.text)
    return Rejection.FROM_MEMORY if remembers else candidate


async def unless_refused(call: Awaitable[_Reply]) -> _Reply | None:
    """None if the model refuses, which is an answer; any other failure is raised."""
    try:
        return await call
    except ProviderError as error:
        if error.kind is not ProviderFailure.REFUSAL:
            raise
        return None


def save_questions(made: WrittenQuestions, checks: QuestionChecks, out: Path) -> JsonObject:
    """Write a new BEIR folder with answers, quotes to review, and a summary, which is returned."""
    if not made.questions:
        reasons = "; ".join(f"{number} times {reason}" for reason, number in made.rejected.items())
        raise DataError(f"all {made.drafted} candidates were rejected: {reasons}")
    queries: dict[str, Query] = {}
    judgments: dict[str, dict[str, int]] = {}
    answers: dict[str, ReferenceAnswer] = {}
    rows = b""
    for number, question in enumerate(made.questions, 1):
        query_id, documents = f"q-{number:04}", checks.expected(question)
        queries[query_id] = Query(query_id, question.question, ("generated",))
        judgments[query_id] = dict.fromkeys(documents, 1)
        sources = (question.document_id,)
        answers[query_id] = ReferenceAnswer(query_id, question.answer, question.facts, sources)
        row = {
            "query_id": query_id,
            "query": question.question,
            "doc_ids": documents,
            "answer": question.answer,
            "tags": ["generated"],
            "quotes": question.quotes,
        }
        rows += orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    summary: JsonObject = {
        "questions": len(queries),
        "drafted": made.drafted,
        "dropped": {reason.name.lower(): number for reason, number in made.rejected.items()},
        "documents": len(checks.documents),
        **made.origin,
        "created": datetime.now(UTC).date().isoformat(),
        "assay": version("agent-assay"),
    }
    files = {
        "questions.jsonl": rows,
        "summary.json": orjson.dumps(summary, option=orjson.OPT_INDENT_2),
    }
    dataset = Dataset("questions", checks.documents, queries, {"test": judgments}, answers)
    write_new_beir(dataset, out, files)
    return summary
