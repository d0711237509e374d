"""`assay judge grade`: runs and pools, files that say who judged, and models that are refused."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.llm_providers.model_server import ModelServer, openai_model

import assay
from assay.cli.app import app
from assay.errors import AssayError
from assay.text import stems

QUERY = re.compile(r"Query:\n<question \w+>\n(.*?)\n</question", re.DOTALL)
PASSAGE = re.compile(r"Passage:\n<document \w+>\n(.*?)\n</document", re.DOTALL)


def reply(prompt: str) -> str:
    """Grades by the share of the query's words that the passage has."""
    (query,), (passage,) = QUERY.findall(prompt), PASSAGE.findall(prompt)
    wanted = set(stems(query))
    share = len(wanted & set(stems(passage))) / len(wanted)
    return "3" if share > 0.7 else "2" if share > 0.4 else "1" if share > 0.2 else "0"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelServer]:
    with openai_model(monkeypatch, tmp_path, reply) as running:
        yield running


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["judge", "grade", *map(str, arguments), "--judge", "openai:m"])


def evaluate(**more: object) -> str:
    run = assay.evaluate("builtin:bm25", "notes", num_queries=8, **more)  # type: ignore[arg-type]
    return run.folder.name


def test_unjudged_documents_of_runs_are_graded_and_agreement_is_measured(
    server: ModelServer,
) -> None:
    runs = [evaluate(), evaluate(bm25={"b": 0.0, "k1": 5.0})]
    result = invoke(*runs, "--depth", 3, "--check", 500, "--json", "--dataset-out", "filled")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["judged_by"] == "openai:m"
    assert summary["agreement"]["labelled"] > 20
    assert set(summary["agreement"]["confusion"]) == {"0", "1", "2"}
    with Path("grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == summary["graded"]
    assert {row["judged_by"] for row in rows} == {"openai:m"}
    assert all(int(row["grade"]) != 1 for row in rows)  # related is not relevant

    calls = len(server.requests)
    again = invoke(
        *runs, "--depth", 3, "--check", 500, "--json", "--resume", "--judge-set", "controls=0"
    )
    assert json.loads(again.stdout)["kept"] == summary["graded"]
    assert len(server.requests) == calls

    filled = assay.load_dataset("filled")
    assert re.fullmatch(r"\d+ of \d+ judgments are model-made \(openai:m\)", filled.judged_by)
    run = assay.evaluate("builtin:bm25", filled, num_queries=8, gates="ndcg@5>=0.01")
    assert run.report.dataset.judged_by == filled.judged_by
    assert run.report.gates[0].note == filled.judged_by
    assert filled.judged_by in run.folder.page_file.read_text()
    shown = CliRunner().invoke(app, ["report", run.folder.name])
    assert "model-made judgments" in shown.stdout
    assert run.compare(run).warnings == [filled.judged_by]


def test_a_score_by_such_qrels_says_so(server: ModelServer) -> None:
    name = evaluate()
    invoke(name, "--depth", 3)
    CliRunner().invoke(app, ["export", name, "--format", "trec", "--out", "run.trec"])
    plain = CliRunner().invoke(app, ["score", "run.trec", "--qrels", "grades.qrels"])
    assert "judgments are model-made (openai:m)" in plain.stdout
    as_json = CliRunner().invoke(app, ["score", "run.trec", "--qrels", "grades.qrels", "--json"])
    assert "model-made" in json.loads(as_json.stdout)["judged_by"]


def test_a_table_of_grades_is_a_data_set_that_says_so(server: ModelServer) -> None:
    Path("pool.csv").write_text(
        "query_id,query,doc_id,passage,label\n"
        "q1,green tea,d1,green tea steeps,1\nq1,green tea,d2,black coffee,0\n"
        "q2,full moon,d3,the full moon rises,\n"
    )
    result = invoke("pool.csv")
    assert result.exit_code == 0, result.output
    assert "only 2 labels: below 30 the agreement says little" in result.stderr
    data = assay.load_dataset("grades.csv")
    assert data.judged_by == "all 3 judgments are model-made (openai:m)"
    assert data.judgments["test"] == {"q1": {"d1": 3, "d2": 0}, "q2": {"d3": 3}}
    assert data.queries["q1"].tags == ()


def test_a_model_that_says_3_to_everything_is_refused(server: ModelServer) -> None:
    server.reply = lambda prompt: "3"
    result = invoke(evaluate())
    assert result.exit_code == 3
    assert "about something else relevant in 5 of 5 controls" in result.stderr
    assert not Path("grades.csv").exists()


def test_a_model_that_answers_rubbish_is_refused(server: ModelServer) -> None:
    server.reply = lambda prompt: "Relevance: high"
    result = invoke(evaluate(), "--depth", 1, "--check", 2, "--judge-set", "controls=0")
    assert result.exit_code == 3
    assert "no readable grade for" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run.trec",), "a run file has no texts; add --dataset"),
        (("pool.csv", "other.csv"), "give one table of passages, or runs"),
        (("nowhere",), "nowhere"),
    ],
)
def test_sources_that_cannot_be_graded_are_refused(
    server: ModelServer, arguments: tuple[str, ...], message: str
) -> None:
    Path("run.trec").write_text("q1 Q0 d1 1 1.0 x\n")
    Path("pool.csv").write_text("query,doc_id,passage\na,b,c\n")
    result = invoke(*arguments)
    assert isinstance(result.exception, AssayError)
    assert message in str(result.exception)
