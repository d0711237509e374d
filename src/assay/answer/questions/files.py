"""A set of made questions as files: a folder in BEIR's layout, or one table of JSON lines."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import orjson

from assay.answer.questions.kinds import MadeQuestion, QuestionKind
from assay.answer.questions.making import MadeQuestions
from assay.data.beir import write_beir
from assay.data.dataset import Dataset, Document, Query
from assay.errors import DataError, UsageError
from assay.files import atomic_write
from assay.net.json import JsonObject

TABLE = "questions.jsonl"
"""The table with the provenance of every question, also in a folder."""

_GRADE = 1


def check_output(out: Path) -> None:
    """Refuse what is there before a model is paid: nothing is ever overwritten."""
    if is_table_output(out):
        if out.exists():
            raise UsageError(f"{str(out)!r} already exists; choose another file")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{str(out)!r} already exists and is not an empty folder; choose another")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created: {error.strerror}", file=out.parent) from error


def is_table_output(out: Path) -> bool:
    """Whether the result is one table, for a service that has its documents itself."""
    return out.suffix == ".jsonl"


def write_questions(
    made: MadeQuestions, documents: Mapping[str, Document], origin: Mapping[str, str], out: Path
) -> JsonObject:
    """Write everything or nothing; the summary, which is also in `summary.json` of a folder."""
    check_output(out)
    if not made.questions:
        reasons = "; ".join(f"{number} times {each}" for each, number in made.rejected.items())
        why = f" ({reasons})" if reasons else ""
        raise DataError(
            f"all {made.drafted} candidates were rejected{why}, so nothing was written; try other "
            "kinds, other documents or a better model"
        )
    questions = {f"q-{place:04}": each for place, each in enumerate(made.questions, 1)}
    table = b"".join(
        orjson.dumps(_row(query_id, each, origin), option=orjson.OPT_APPEND_NEWLINE)
        for query_id, each in questions.items()
    )
    summary = _summary(made, documents, origin)
    if is_table_output(out):
        atomic_write(out, table)
        return summary
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as part:
        folder = Path(part) / "data"
        write_beir(_dataset(questions, documents), folder)
        answers = (
            orjson.dumps(_answer(query_id, each, origin), option=orjson.OPT_APPEND_NEWLINE)
            for query_id, each in questions.items()
            if each.has_reference
        )
        if written := b"".join(answers):
            (folder / "answers.jsonl").write_bytes(written)
        (folder / TABLE).write_bytes(table)
        (folder / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        if out.exists():
            out.rmdir()
        shutil.move(folder, out)
    return summary


def _dataset(questions: Mapping[str, MadeQuestion], documents: Mapping[str, Document]) -> Dataset:
    queries = {id_: Query(id_, each.text, _tags(each)) for id_, each in questions.items()}
    judgments = {
        id_: dict.fromkeys(each.documents, _GRADE)
        for id_, each in questions.items()
        if each.documents
    }
    return Dataset("questions", documents, queries, {"test": judgments})


def _tags(question: MadeQuestion) -> tuple[str, ...]:
    model = question.how.startswith("written by a model")
    how = "written by a model" if model else question.how.partition(" ")[0]
    return (*question.tags, how)


def _row(query_id: str, question: MadeQuestion, origin: Mapping[str, str]) -> JsonObject:
    """One line of the table. Every column that is not known to `--dataset` is a tag."""
    kept = [tag for tag in _tags(question) if not tag.startswith(("kind=", "hops="))]
    return {
        "query_id": query_id,
        "query": question.text,
        "doc_ids": list(question.documents),
        "answer": question.answer,
        "kind": str(question.kind),
        "hops": question.hops,
        "tags": kept,
        "provenance": _provenance(question, origin),
    }


def _provenance(question: MadeQuestion, origin: Mapping[str, str]) -> JsonObject:
    quotes = [{"doc_id": each.document_id, "text": each.text} for each in question.quotes]
    changed = {"changed": question.changed} if question.changed else {}
    by_model = question.how.startswith("written by a model")
    return {"how": question.how, "quotes": quotes, **changed, **(origin if by_model else {})}


def _answer(query_id: str, question: MadeQuestion, origin: Mapping[str, str]) -> JsonObject:
    sources = {each.text: each.text for each in question.quotes}
    facts: list[JsonObject] = []
    for place, fact in enumerate(question.facts):
        quote = question.quotes[min(place, len(question.quotes) - 1)].text
        facts.append(
            {
                "text": fact.text,
                "accept": list(fact.accept),
                "quote": sources.get(fact.text, quote),
            }
        )
    quoted = list(dict.fromkeys(each.document_id for each in question.quotes))
    return {
        "query_id": query_id,
        "answer": question.answer,
        "facts": facts,
        "documents": [] if question.kind is QuestionKind.UNANSWERABLE else quoted,
        "provenance": {**origin, **_provenance(question, origin)},
    }


def _summary(
    made: MadeQuestions, documents: Mapping[str, Document], origin: Mapping[str, str]
) -> JsonObject:
    kinds = Counter(str(each.kind) for each in made.questions)
    return {
        "questions": len(made.questions),
        "kinds": dict(kinds),
        "ambiguous": sum(each.ambiguous for each in made.questions),
        "drafted": made.drafted,
        "dropped": {each.name.lower(): number for each, number in made.rejected.items()},
        "from_memory_checked": made.from_memory_checked,
        "documents": len(documents),
        **origin,
        "created": datetime.now(UTC).date().isoformat(),
        "assay": version("agent-assay"),
    }
