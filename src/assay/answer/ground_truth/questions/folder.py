"""Questions as a data set of their own, in the form of BEIR with reference answers."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from assay.answer.ground_truth.questions.draft import Draft
from assay.answer.ground_truth.questions.making import QuestionSet
from assay.answer.ground_truth.questions.sieve import holders
from assay.data.dataset import Document
from assay.errors import DataError, UsageError

_GRADE = 1


def check_folder(out: Path) -> None:
    """Told before a model is paid: nothing that is there is ever overwritten."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{str(out)!r} is there already and not an empty folder; choose another")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made: {error.strerror}", file=out.parent) from error


def write_folder(
    made: QuestionSet, documents: Mapping[str, Document], origin: Mapping[str, str], out: Path
) -> dict[str, Any]:
    """Whole or not at all. Gives back the summary, which `summary.json` holds too."""
    check_folder(out)
    if not made.questions:
        reasons = "; ".join(f"{count} times {drop}" for drop, count in made.dropped.items())
        raise DataError(
            f"no question is left of {made.drafted} drafts ({reasons}), so nothing was written; "
            "try a better model or other documents"
        )
    named = [(f"q-{place:04}", draft) for place, draft in enumerate(made.questions, 1)]
    relevant = {query_id: holders(draft, documents) for query_id, draft in named}
    summary = _summary(made, documents, origin)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as part:
        folder = Path(part) / "data"
        (folder / "qrels").mkdir(parents=True)
        _write_lines(folder / "corpus.jsonl", map(_corpus_line, documents.values()))
        _write_lines(folder / "queries.jsonl", (_query_line(*one, origin) for one in named))
        _write_lines(
            folder / "answers.jsonl", (_answer_line(i, d, relevant[i], origin) for i, d in named)
        )
        rows = [f"{i}\t{doc_id}\t{_GRADE}" for i, ids in relevant.items() for doc_id in ids]
        table = "\n".join(["query-id\tcorpus-id\tscore", *rows, ""])
        (folder / "qrels" / "test.tsv").write_text(table, encoding="utf-8")
        (folder / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
        if out.exists():
            out.rmdir()
        shutil.move(folder, out)
    return summary


def _summary(
    made: QuestionSet, documents: Mapping[str, Document], origin: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "questions": len(made.questions),
        "drafted": made.drafted,
        "dropped": {drop.name.lower(): count for drop, count in made.dropped.items()},
        "from_memory_checked": made.from_memory_checked,
        "documents": len(documents),
        **origin,
        "created": datetime.now(UTC).date().isoformat(),
        "assay": version("agent-assay"),
    }


def _corpus_line(document: Document) -> dict[str, Any]:
    fields = {"_id": document.id, "title": document.title, "text": document.text}
    return fields | ({"metadata": dict(document.metadata)} if document.metadata else {})


def _query_line(query_id: str, draft: Draft, origin: Mapping[str, str]) -> dict[str, Any]:
    kind = "cloze" if origin["model"] == "none" else "written by a model"
    return {"_id": query_id, "text": draft.question, "metadata": {"tags": ["generated", kind]}}


def _answer_line(
    query_id: str, draft: Draft, documents: list[str], origin: Mapping[str, str]
) -> dict[str, Any]:
    facts = [
        {"text": fact.text, "accept": list(fact.accept), "quote": quote}
        for fact, quote in zip(draft.facts, draft.quotes, strict=True)
    ]
    return {
        "query_id": query_id,
        "answer": draft.answer,
        "facts": facts,
        "documents": documents[:1],
        "provenance": dict(origin),
    }


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    with path.open("wb") as file:
        file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
