"""`--nuggets`: in a run, in a log, in gates, comparisons and on the page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.llm_providers.model_server import openai_model

import assay
from assay.data import Dataset
from assay.errors import DataError, UsageError
from assay.labels.references import nugget_hash
from assay.report.terminal import plain_text, render_report

DATA = Dataset.from_dicts(
    {"open": "When does the pool open?", "ride": "What does the ride cost?", "zoo": "Which zoo?"},
    {"open": {"pool": 2}, "ride": {"fare": 1}, "zoo": {"pool": 1}},
    {"pool": "The pool opens at 7:00 and closes at 21:00.", "fare": "The ride costs 2.80 euros."},
    name="town",
)
FACT = re.compile(r"Fact \d+:\n<fact \w+>\n(.*?)\n</fact", re.DOTALL)
ANSWER = re.compile(r"Answer:\n<answer \w+>\n(.*?)\n</answer", re.DOTALL)


def made(id: str, text: str, importance: str, doc_id: str) -> dict[str, object]:
    hashed = nugget_hash(text, importance)
    fields = {"id": id, "text": text, "importance": importance, "documents": [doc_id]}
    return {**fields, "by": "model", "hash": hashed}


LINES: list[dict[str, Any]] = [
    {
        "query_id": "open",
        "query": "When does the pool open?",
        "provenance": {"provider": "openai", "model": "m", "dataset": "town"},
        "nuggets": [
            made("open.1", "The pool opens at 7:00", "vital", "pool"),
            made("open.2", "The pool closes at 21:00", "okay", "pool"),
        ],
    },
    {
        "query_id": "ride",
        "query": "What does the ride cost?",
        "provenance": {"provider": "openai", "model": "m", "dataset": "town"},
        "nuggets": [{"text": "The ride costs 2.80 euros", "importance": "vital"}],
    },
]


@pytest.fixture
def nuggets(tmp_path: Path) -> Path:
    path = tmp_path / "nuggets.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)))
    return path


def agent(query: str, top_k: int) -> dict[str, Any]:
    answer = "The pool opens at 7:00." if "open" in query else "Nothing is known about that."
    return {"doc_ids": ["pool"], "answer": answer}


def silent(query: str, top_k: int) -> dict[str, Any]:
    return {"doc_ids": ["pool"], "answer": "I do not know."}


def evaluate(nuggets: Path, tmp_path: Path, target: Any = agent, **more: Any) -> assay.Run:
    return assay.evaluate(
        target, DATA, answers=True, references=nuggets, out=tmp_path / "runs", **more
    )


def test_a_run_says_which_nuggets_its_answers_state(nuggets: Path, tmp_path: Path) -> None:
    run = evaluate(nuggets, tmp_path, gates=["nugget_recall_vital>=0.5", "nugget recall >= 0.9"])
    answers = run.report.answers
    assert answers is not None
    assert answers.metrics["nugget_recall"] == 0.25  # a half of one question, nothing of the other
    assert answers.metrics["nugget_recall_vital_strict"] == 0.5
    assert answers.statistics["nugget_recall"].n == 2  # the third question has no nugget
    found = answers.nuggets
    assert found is not None
    assert (found.nuggets, found.vital) == (3, 2)
    assert found.makers == {"model": 2, "human": 1}
    assert found.made == "2 by model, 1 by human"
    assert "2 by model" in answers.statistics["nugget_recall"].how
    assert [gate.passed for gate in run.report.gates] == [True, False]
    (row, *_) = run.folder.read_answers()
    assert [(each.id, each.support) for each in row.nuggets] == [
        *[("open.1", "support"), ("open.2", "none")]
    ]
    assert "The pool closes at 21:00" in run.folder.page_file.read_text()
    text = " ".join(plain_text(render_report(run.report, path="")).split())
    assert "3 for 2 questions, 2 of them vital: 2 by model, 1 by human" in text


def test_runs_compare_in_nuggets_only_where_these_are_the_same(
    nuggets: Path, tmp_path: Path
) -> None:
    first, second = evaluate(nuggets, tmp_path, silent), evaluate(nuggets, tmp_path)
    compared = second.compare(first)
    assert compared.metrics["nugget_recall"].difference == 0.25
    content = nuggets.read_text().replace("2.80 euros", "3 euros")
    nuggets.write_text(content)
    other = evaluate(nuggets, tmp_path).compare(first)
    assert "nugget_recall" not in other.metrics
    assert any("the nuggets, or how they were assigned, differ" in each for each in other.warnings)


def test_a_private_run_keeps_no_text_of_nuggets(nuggets: Path, tmp_path: Path) -> None:
    run = evaluate(nuggets, tmp_path, private=True)
    kept = b"".join(path.read_bytes() for path in run.folder.path.rglob("*") if path.is_file())
    assert b"21:00" not in kept
    assert run.report.answers is not None
    assert run.report.answers.metrics["nugget_recall"] == 0.25


def test_facts_that_cannot_be_used_are_refused_before_the_first_call(
    nuggets: Path, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    with pytest.raises(UsageError, match="needs facts: --references FILE"):
        assay.evaluate(agent, DATA, answers=True, gates="nugget_recall>=0.5", out=out)
    with pytest.raises(UsageError, match="references needs --answers"):
        assay.evaluate(agent, DATA, references="n.jsonl", out=out)
    with pytest.raises(DataError, match="no question of data set 'notes'"):
        assay.evaluate(agent, "notes", answers=True, references=nuggets, out=out)
    nuggets.write_text(json.dumps({**LINES[0], "nuggets": []}) + "\n" + json.dumps(LINES[1]))
    with pytest.raises(DataError, match="none of 1 questions has a nugget"):
        evaluate(nuggets, tmp_path, num_queries=1, seed=1)
    assert not out.exists()


def judge_reply(prompt: str) -> str:
    """Supports what the answer says word for word; TRUE for all that is not about nuggets."""
    if not prompt.startswith("Decide for each of"):
        return "TRUE"
    (answer,) = ANSWER.findall(prompt)
    return json.dumps(["support" if f in answer else "none" for f in FACT.findall(prompt)])


def test_a_judge_assigns_where_there_is_one(
    nuggets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with openai_model(monkeypatch, tmp_path, judge_reply):
        run = evaluate(nuggets, tmp_path, judge="openai:j", judge_set={"controls": 0})
    assert run.report.answers is not None
    found = run.report.answers.nuggets
    assert found is not None
    assert found.flip_rate == 0
    assert "judge openai:j" in found.assigned_by
    assert run.report.answers.metrics["nugget_recall"] == 0.25


def test_logged_rows_are_found_by_id_or_by_their_question(nuggets: Path) -> None:
    rows = [
        {"question": "When does the pool  open?", "answer": "At 7:00. It closes at 21:00."},
        {"id": "ride", "question": "What does the ride cost?", "answer": "5 euros."},
        {"id": "open", "question": "Something else?", "answer": "At 7:00."},
    ]
    scored = assay.score_answers(rows, references=nuggets, gates="nugget_recall_vital>=0.5")
    assert scored.metrics["nugget_recall"] == 0.5
    assert scored.gates_passed
    assert [[each.support for each in row.nuggets] for row in scored.rows()] == [
        *[["support", "support"], ["none"], []]
    ]
