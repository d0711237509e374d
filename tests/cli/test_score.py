"""`assay score` and `assay audit`: what is printed, what is JSON, exit codes, what is refused."""

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.tiny_dataset import tiny_dataset

from assay.cli.app import app
from assay.data.beir import write_beir
from assay.errors import DataError, UsageError
from assay.net.retry import RetryPolicy

ROW: dict[str, Any] = {
    "user_input": "How long does green tea steep?",
    "retrieved_contexts": ["Steep green tea for 3 minutes."],
    "response": "Green tea steeps for 3 minutes.",
    "reference": "3 minutes",
    "facts": ["3 minutes"],
}
RIGHT_NDCG = 2 / (2 + 1 / log2(3))  # of two relevant documents, the better one is found first


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def score(*arguments: object) -> str:
    result = invoke("score", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


# --- rankings ------------------------------------------------------------------------------------


@pytest.fixture
def qrels(tmp_path: Path) -> str:
    path = tmp_path / "judged.qrels"
    path.write_text("q-1 0 a 2\nq-1 0 b 1\nq-2 0 c 1\nq-3 0 d 1\nq-4 0 e 0\n")
    return str(path)


@pytest.fixture
def run(tmp_path: Path) -> str:
    path = tmp_path / "system.run"
    path.write_text(
        "q-1 Q0 a 1 3.5 t\nq-1 Q0 x 2 3.0 t\nq-2 Q0 x 1 9 t\nq-9 Q0 x 1 9 t\nq-4 Q0 e 1 9 t\n"
    )
    return str(path)


def test_the_table_fits_80_columns_and_says_what_was_left_out(run: str, qrels: str) -> None:
    shown = score(run, "--qrels", qrels)
    assert max(map(len, shown.splitlines())) <= 80
    for words in (
        *("nDCG@10", "Hit@10", "95% interval", "of ceiling", "3 queries"),
        *("1 of them without a ranking", "1 of the run without judgments"),
        "1 of the run without a relevant document",
    ):
        assert words in shown
    assert "Precision" not in shown
    assert "nDCG(gain=exp)@10" in score(run, "--qrels", qrels, "--metrics", "all")


def test_json_holds_the_figures_and_nothing_else(run: str, qrels: str) -> None:
    content = json.loads(
        score(run, "--qrels", qrels, "--metrics", "P@2", "--metrics", "r@1", "--json")
    )
    assert list(content["metrics"]) == ["precision@2", "recall@1"]
    assert content["metrics"]["precision@2"]["mean"] == pytest.approx(1 / 6)
    assert content["metrics"]["precision@2"]["ceiling"] == pytest.approx(2 / 3)
    assert (content["queries"], content["queries_without_ranking"]) == (3, 1)
    assert "per_query" not in content


def test_gates_decide_the_exit_code_and_those_of_a_variable_for_agents_are_left_out(
    run: str, qrels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates = ("--gate", "mrr@7>=0.3", "--gate", "mrr@7>=0.4")
    done = invoke("score", run, "--qrels", qrels, *gates, "--json")
    assert (done.exit_code, "gate failed: mrr@7>=0.4, got 0.3333" in done.stderr) == (1, True)
    assert [each["passed"] for each in json.loads(done.stdout)["gates"]] == [True, False]
    monkeypatch.setenv("ASSAY_GATE", "success_rate>=0.9; ndcg@5>=main-0.01; mrr@7>=0.4")
    done = invoke("score", run, "--qrels", qrels)
    assert done.exit_code == 1, done.output
    for left_out in ("success_rate>=0.9", "ndcg@5>=main-0.01"):
        assert f"gate left out: gate {left_out!r}" in done.stderr


def test_a_table_is_read_by_its_columns(tmp_path: Path, run: str) -> None:
    table = tmp_path / "fragen.csv"
    table.write_text("Nummer,Frage,docs\nq-1,Wie lange?,a;b\nq-2,Wie heiß?,x\n", encoding="utf-8")
    columns = ("--columns", "query=Frage,ids=docs", "--columns", "query_id=Nummer")
    found = json.loads(score(run, "--dataset", table, *columns, "--metrics", "recall@5", "--json"))
    assert found["metrics"]["recall@5"]["mean"] == 0.75


def test_each_query_is_printed_if_wanted(run: str, qrels: str) -> None:
    options = (run, "--qrels", qrels, "--metrics", "mrr@5", "--per-query")
    lines = score(*options).splitlines()
    assert lines[-3:] == ["MRR@5\tq-1\t1.0000", "MRR@5\tq-2\t0.0000", "MRR@5\tq-3\t0.0000"]
    first = json.loads(score(*options, "--json"))["per_query"][0]
    assert first == {"query_id": "q-1", "mrr@5": 1.0}


def test_violations_are_told_with_an_example(tmp_path: Path, qrels: str) -> None:
    write_beir(tiny_dataset(2), tmp_path / "tiny")
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"q1": ["[x]", "d1", "d1", "d0", "d2"]}))
    options = (run, "--dataset", tmp_path / "tiny", "--top-k", "3")
    shown = " ".join(score(*options).split())
    assert "1 id in 1 query repeated; duplicates score nothing: 'd1' for 'q1'" in shown
    assert "2 ids in 1 query beyond the first 3; they were cut: 'd0' for 'q1'" in shown
    assert "not in the data set; they score nothing: '[x]' for 'q1'" in shown
    content = json.loads(score(*options, "--metrics", "mrr@5", "--json"))
    assert content["violations"] == {"duplicate": 1, "unknown": 1, "surplus": 2}
    assert content["metrics"]["mrr@5"]["mean"] == 0.25  # q0 has no ranking


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("QRELS", "--qrels", "QRELS"), DataError, "must be: query Q0 document"),
        (("OTHER", "--qrels", "QRELS"), DataError, "no query in common .*'z'.*'q-1'"),
        (("RUN", "--qrels", "QRELS", "--no-cache"), UsageError, "--no-cache has no effect"),
        (("RUN", "--qrels", "QRELS", "--gate", "P@5>=0.9"), UsageError, r"never pass.* is 0\.2667"),
        (("LOG", "--qrels", "QRELS"), UsageError, "--qrels has no effect on logged answers"),
        (("LOG", "--out", "LOG"), UsageError, "is the input, which would be lost"),
    ],
)
def test_a_mistake_is_refused_and_changes_no_file(
    arguments: tuple[str, ...], kind: type[Exception], message: str, run: str, qrels: str
) -> None:
    log, other = Path(run).with_name("log.jsonl"), Path(run).with_name("other.json")
    log.write_text('{"question": "Q", "answer": "A"}')
    other.write_text('{"z": ["a"]}')
    paths = {"RUN": run, "QRELS": qrels, "OTHER": other, "LOG": log}
    error = invoke("score", *(paths.get(each, each) for each in arguments)).exception
    with pytest.raises(kind, match=message):
        raise error or AssertionError
    assert log.read_text() == '{"question": "Q", "answer": "A"}'


# --- logged answers ------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW | {'response': 'Nine hours.'})}\n")
    return path


def test_the_table_has_every_metric_that_the_rows_allow(log: Path) -> None:
    shown = score(log)
    for words in ("correctness", "faithfulness", "fact recall", "2 of 2 answered"):
        assert words in shown
    assert "citation precision" not in shown
    assert "no row has citations" in shown


def test_json_holds_the_figures_the_gates_and_what_was_left_out(log: Path) -> None:
    log.write_text(log.read_text() + "{oops\n")
    rows = log.with_name("rows.jsonl")
    result = invoke("score", log, "--json", "--gate", "correctness>=0.4", "--out", rows)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["answers"]["metrics"]["correctness"] == 0.5
    assert content["gates"] == [{"gate": "correctness>=0.4", "value": 0.5, "passed": True}]
    assert content["skipped"][0].startswith(f"{log}:3: ")
    assert f"warning: left out: {log}:3" in result.stderr
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [line["correctness"] for line in lines] == [1.0, 0.0]


def test_a_silent_judge_leaves_no_verdict(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.llm.providers.opening.RETRIES", RetryPolicy(1, 5.0))
    result = invoke("score", log, "--judge", "openai:m@http://127.0.0.1:9", "--json")
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
def test_answers_told_from_rankings(tmp_path: Path, name: str, content: str, answers: bool) -> None:
    path = tmp_path / name
    path.write_text(content)
    done = invoke("score", path)
    assert (done.exit_code == 0) is answers
    assert answers or "pass --qrels FILE" in str(done.exception)


# --- audit ---------------------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.chdir(tmp_path)
    write_beir(tiny_dataset(8), tmp_path / "mine")
    return "--qrels", str(tmp_path / "mine" / "qrels" / "test.tsv")


def write(claim: float, *, each: float | None = None) -> str:
    """A report that names `mine`, with what it claims for the mean and for each query."""
    row: dict[str, Any] = {} if each is None else {"ndcg_at_5": each}
    rows = [{"query_id": f"q{i}", "retrieved_docs": [f"d{i}", "x"], **row} for i in range(8)]
    report = {
        "summary": {"total_queries": 8, "mean_ndcg_at_5": claim},
        "per_query_results": rows,
        "config": {"dataset": "mine"},
        "dataset": {"name": "mine", "split": "test"},
    }
    Path("report.json").write_text(json.dumps(report))
    return "report.json"


def test_a_right_report_is_correct_by_given_and_by_named_judgments(mine: tuple[str, str]) -> None:
    result = invoke("audit", write(RIGHT_NDCG), *mine)
    assert result.exit_code == 0
    assert "claims nDCG@5 0.7602; its own lists give 0.7602: correct" in result.stdout
    assert invoke("audit", ".", *mine).stdout == result.stdout  # the folder of a run
    named = invoke("audit", "report.json")
    assert (named.exit_code, "judged by mine test" in named.stdout) == (0, True)


def test_a_wrong_report_is_explained_with_exit_code_1(mine: tuple[str, str]) -> None:
    report = write(1.0, each=1.0)
    result = invoke("audit", report, *mine)
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "its own lists give 0.7602: the ideal ranking was taken from the retrieved" in words
    assert "q0: says 1.0000, is 0.7602" in words
    assert "and 3 more queries (all: --json)" in words
    content = json.loads(invoke("audit", report, *mine, "--json").stdout)
    (claim,) = content["claims"]
    assert (content["correct"], content["queries"], claim["metric"]) == (False, 8, "ndcg@5")
    assert claim["flaws"] == ["the ideal ranking was taken from the retrieved documents"]
    assert len(claim["disagreements"]) == 8


def test_an_unexplained_claim_names_the_mean_of_its_own_rows(mine: tuple[str, str]) -> None:
    result = invoke("audit", write(0.8, each=0.760188), *mine)
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "no known mistake explains the difference" in words
    assert "the mean of its per-query figures is 0.7602" in words
