"""`assay score` over logged answers: what is printed, what is JSON, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay.cli.score import score
from assay.cli.verb import VerbCommand
from assay.net.retry import RetryPolicy

app = VerbCommand("score", score)

ROW: dict[str, Any] = {
    "user_input": "How long does green tea steep?",
    "retrieved_contexts": ["Steep green tea for 3 minutes."],
    "response": "Green tea steeps for 3 minutes.",
    "reference": "3 minutes",
    "facts": ["3 minutes"],
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW | {'response': 'Nine hours.'})}\n")
    return path


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_the_table_has_every_metric_that_the_rows_allow(log: Path) -> None:
    result = invoke(log)
    assert result.exit_code == 0, result.output
    for words in ("correctness", "faithfulness", "fact recall", "2 of 2 answered"):
        assert words in result.stdout
    assert "citation precision" not in result.stdout
    assert "no row has citations" in result.stdout


def test_json_holds_the_figures_the_gates_and_what_was_left_out(log: Path) -> None:
    log.write_text(log.read_text() + "{oops\n")
    rows = log.with_name("rows.jsonl")
    result = invoke(log, "--json", "--gate", "correctness>=0.4", "--out", rows)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["answers"]["metrics"]["correctness"] == 0.5
    assert content["gates"] == [{"gate": "correctness>=0.4", "value": 0.5, "passed": True}]
    assert content["skipped"][0].startswith(f"{log}:3: is not valid JSON")
    assert f"warning: left out: {log}:3" in result.stderr
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [line["correctness"] for line in lines] == [1.0, 0.0]


def test_a_judge_that_answers_no_call_leaves_no_verdict(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.llm.providers.opening.RETRIES", RetryPolicy(1, 5.0))
    result = invoke(log, "--judge", "openai:m@http://127.0.0.1:9", "--json")
    assert result.exit_code == 3, result.output
    content = json.loads(result.stdout)["answers"]
    assert "correctness" not in content["metrics"]
    assert content["trouble"]


@pytest.mark.parametrize(
    ("name", "content", "answers"),
    [
        ("a.jsonl", '{"question": "Q", "answer": "A"}', True),
        ("a.jsonl", '{oops\n{"question": "Q", "answer": "A"}', True),
        ("a.csv", "question,answer\nQ,A\n", True),
        ("a.json", '{"q1": ["d1"], "q2": ["d2"]}', False),
        ("a.json", '[{"query_id": "q", "doc_ids": ["d"]}]', False),
        ("a.run", "q Q0 d 1 2.5 t", False),
    ],
)
def test_answers_are_told_from_rankings(
    tmp_path: Path, name: str, content: str, answers: bool
) -> None:
    path = tmp_path / name
    path.write_text(content)
    done = invoke(path)
    assert (done.exit_code == 0) is answers
    assert answers or "pass --qrels FILE" in str(done.exception)
