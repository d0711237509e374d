"""`assay score`: what is printed, what is JSON, what is refused."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.score import score
from assay.cli.verb import VerbCommand
from assay.errors import AssayError, DataError, UsageError

app = VerbCommand("score", score)


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


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> AssayError:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, AssayError), result.output
    return result.exception


def test_the_table_fits_80_columns_and_says_what_was_left_out(run: str, qrels: str) -> None:
    shown = invoke(run, "--qrels", qrels)
    assert max(map(len, shown.splitlines())) <= 80
    for words in ("nDCG@10", "Hit@10", "95% interval", "of ceiling", "3 queries"):
        assert words in shown
    assert "Precision" not in shown
    assert "nDCG(gain=exp)@10" in invoke(run, "--qrels", qrels, "--metrics", "all")
    assert "1 of them without a ranking: they score 0" in shown
    assert "1 of the run without judgments: ignored" in shown
    assert "1 of the run without a relevant document: ignored" in shown


def test_json_holds_the_figures_and_nothing_else(run: str, qrels: str) -> None:
    content = json.loads(
        invoke(run, "--qrels", qrels, "--metrics", "P@2", "--metrics", "r@1", "--json")
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
    done = CliRunner().invoke(app, [run, "--qrels", qrels, *gates, "--json"])
    assert (done.exit_code, "gate failed: mrr@7>=0.4, got 0.3333" in done.stderr) == (1, True)
    assert [each["passed"] for each in json.loads(done.stdout)["gates"]] == [True, False]
    monkeypatch.setenv("ASSAY_GATE", "success_rate>=0.9; ndcg@5>=main-0.01; mrr@7>=0.4")
    done = CliRunner().invoke(app, [run, "--qrels", qrels])
    assert done.exit_code == 1, done.output
    for left_out in ("success_rate>=0.9", "ndcg@5>=main-0.01"):
        assert f"gate left out: gate {left_out!r}" in done.stderr


def test_a_table_is_read_by_its_columns(tmp_path: Path, run: str) -> None:
    table = tmp_path / "fragen.csv"
    table.write_text("Nummer,Frage,docs\nq-1,Wie lange?,a;b\nq-2,Wie heiß?,x\n", encoding="utf-8")
    columns = ("--columns", "query=Frage,ids=docs", "--columns", "query_id=Nummer")
    options = (*columns, "--metrics", "recall@5", "--json")
    found = json.loads(invoke(run, "--dataset", str(table), *options))
    assert found["metrics"]["recall@5"]["mean"] == 0.75


def test_each_query_is_printed_if_wanted(run: str, qrels: str) -> None:
    options = (run, "--qrels", qrels, "--metrics", "mrr@5", "--per-query")
    lines = invoke(*options).splitlines()
    assert lines[-3:] == ["MRR@5\tq-1\t1.0000", "MRR@5\tq-2\t0.0000", "MRR@5\tq-3\t0.0000"]
    first = json.loads(invoke(*options, "--json"))["per_query"][0]
    assert first == {"query_id": "q-1", "mrr@5": 1.0}


def test_violations_are_told_in_words_with_an_example(tmp_path: Path, qrels: str) -> None:
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"q-1": ["[a]", "[a]", "b", "x", "y"]}))
    shown = " ".join(invoke(str(run), "--qrels", qrels, "--top-k", "3").split())
    assert "1 id in 1 query repeated; duplicates score nothing: '[a]' for 'q-1'" in shown
    assert "2 ids in 1 query beyond the first 3; they were cut: 'x' for 'q-1'" in shown
    assert "nDCG@3" in shown


def test_a_data_set_knows_which_documents_exist(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "x"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "x"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    run = tmp_path / "run.json"
    run.write_text('{"q": ["invented", "a"]}')
    arguments = (str(run), "--dataset", str(folder), "--metrics", "mrr@5")
    assert "not in the data set" in invoke(*arguments)
    content = json.loads(invoke(*arguments, "--json"))
    assert content["violations"]["unknown"] == 1
    assert content["metrics"]["mrr@5"]["mean"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("QRELS", "--qrels", "QRELS"), DataError, "must be: query Q0 document"),
        (("OTHER", "--qrels", "QRELS"), DataError, "has no query in common .*'z'.*'q-1'"),
        (("RUN", "--qrels", "QRELS", "--no-cache"), UsageError, "--no-cache has no effect on a ra"),
        (("RUN", "--qrels", "QRELS", "--gate", "P@5>=0.9"), UsageError, r"never pass.* is 0\.2667"),
        (("LOG", "--qrels", "QRELS"), UsageError, "--qrels has no effect on logged answers"),
    ],
)
def test_a_mistake_is_told_in_words(
    arguments: tuple[str, ...], kind: type, message: str, run: str, qrels: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"z": ["a"]}')
    log = tmp_path / "log.jsonl"
    log.write_text('{"question": "Q", "answer": "A"}')
    paths = {"RUN": run, "QRELS": qrels, "OTHER": str(other), "LOG": str(log)}
    error = refused(*(paths.get(each, each) for each in arguments))
    assert isinstance(error, kind)
    with pytest.raises(kind, match=message):
        raise error


def test_a_log_is_not_overwritten_by_its_own_scores(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"question": "How long?", "answer": "Two minutes."}\n')
    (tmp_path / "same.jsonl").symlink_to(log)
    error = refused(str(log), "--out", str(tmp_path / "same.jsonl"))
    assert "is the input, which would be lost" in str(error)
    assert "Two minutes." in log.read_text()
