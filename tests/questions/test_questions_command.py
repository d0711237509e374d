"""`assay data questions`: what the command writes, prints and refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import app
from assay.data import load_dataset
from assay.errors import AssayError, DataError, UsageError
from assay.evaluation.api import evaluate
from assay.search.bm25_index import Bm25Index

NOTES = load_dataset("notes")


def questions(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["data", "questions", *map(str, arguments), "--json"])
    if isinstance(done.exception, AssayError):
        raise done.exception
    assert done.exit_code == 0, done.output
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def test_the_folder_is_a_data_set_with_slices_answers_and_provenance() -> None:
    summary = questions("notes", "--count", 24, "--out", "mine")
    made = load_dataset("mine")
    assert made.warnings == ()
    assert summary["questions"] == len(made.queries) == 24
    assert sum(summary["kinds"].values()) == 24
    tags = {query.id: query.tags for query in made.queries.values()}
    for query_id, those in tags.items():
        assert sum(tag.startswith("kind=") for tag in those) == 1
        assert sum(tag.startswith("hops=") for tag in those) == 1
        if "kind=unanswerable" in those:
            assert made.answers[query_id].answer is None
            assert query_id not in made.judgments["test"]
        elif "kind=known-item" in those:
            assert query_id not in made.answers
        else:
            reference = made.answers[query_id]
            assert reference.answer
            assert set(reference.documents) <= set(made.judgments["test"][query_id])
            hops = 2 if "hops=2" in those else 1
            assert len(reference.documents) == hops
    rows = [json.loads(line) for line in Path("mine/questions.jsonl").read_text().splitlines()]
    assert all(row["provenance"]["quotes"] for row in rows)
    with pytest.raises(UsageError, match="not an empty folder"):
        questions("notes", "--out", "mine")


def test_the_table_is_read_by_dataset_for_a_service_with_its_own_documents() -> None:
    questions("notes", "--count", 12, "--out", "mine.jsonl")
    table = load_dataset("mine.jsonl")
    assert not table.documents
    assert len(table.queries) == 12
    kinds = {tag for query in table.queries.values() for tag in query.tags if "kind=" in tag}
    assert len(kinds) == 6
    none = [each for each in table.answers.values() if each.answer is None]
    assert len(none) == 2
    run = evaluate(lambda query, top_k: ["note-001"], table, out="runs")
    assert run.report.summary.total_queries == 10
    with pytest.raises(UsageError, match="already exists"):
        questions("notes", "--out", "mine.jsonl")


def test_a_known_item_gate_needs_no_labels() -> None:
    questions("notes", "--count", 50, "--kinds", "known-item", "--out", "known.jsonl")
    items = load_dataset("known.jsonl")
    index = Bm25Index(NOTES.documents.values())

    def search(query: str, top_k: int) -> list[str]:
        return [doc_id for doc_id, _ in index.search(query, top_k)]

    good = evaluate(search, items, out="runs", gates="hit@5>=0.9")
    assert good.gates_passed
    half = {each for place, each in enumerate(sorted(NOTES.documents)) if place % 2}

    def forgets(query: str, top_k: int) -> list[str]:
        return [each for each in search(query, 50) if each in half][:top_k]

    assert not evaluate(forgets, items, out="runs", gates="hit@5>=0.9").gates_passed


def test_the_earlier_spelling_makes_the_same_questions() -> None:
    done = CliRunner().invoke(
        app, ["ground-truth", "notes", "--questions", "6", "--out", "old", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert "assay data questions" in done.stderr
    questions("notes", "--count", 6, "--kinds", "single-hop", "--out", "new")
    assert Path("old/queries.jsonl").read_bytes() == Path("new/queries.jsonl").read_bytes()
    assert Path("old/answers.jsonl").read_bytes() == Path("new/answers.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("notes", "--kinds", "riddle"), "unknown kind of question 'riddle'"),
        (("notes", "--kinds", "paraphrased"), "are written by a model; add --provider"),
        (("notes", "--count", 10_000_000), "between 1 and 100,000"),
        (("nowhere",), "no data set 'nowhere'"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(AssayError, match=message):
        questions(*arguments)
    assert not Path("questions").exists()


def test_documents_without_anything_to_ask_write_nothing() -> None:
    Path("docs").mkdir()
    Path("docs/a.txt").write_text("...")
    with pytest.raises(DataError, match="nothing was written"):
        questions("docs", "--kinds", "multi-hop,temporal", "--out", "new")
    assert not Path("new").exists()
