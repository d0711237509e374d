"""`assay export`: what other tools read is what the run has."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from assay import Dataset, Document, Query, Run, evaluate
from assay.cli.app import app
from assay.data.dataset import Fact, ReferenceAnswer
from assay.errors import AssayError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bm25(folder: Path) -> Run:
    return evaluate("builtin:bm25", "notes", label="bm25 & co")


@pytest.fixture
def nothing(folder: Path) -> Run:
    return evaluate(lambda query, top_k: [], "notes", label="nothing")


def export(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["export", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_trec_file_scores_as_the_run_did(bm25: Run) -> None:
    export("latest", "--format", "trec", "--out", "bm25.run")
    first = Path("bm25.run").read_text().splitlines()[0].split(" ")
    assert (len(first), first[1], first[3], first[5]) == (6, "Q0", "1", "bm25-&-co")
    options = ["--dataset", "notes", "--top-k", "5", "--metrics", "ndcg@5", "--json"]
    done = CliRunner().invoke(app, ["score", "bm25.run", *options])
    assert done.exit_code == 0, done.output
    scored, ours = json.loads(done.stdout)["metrics"]["ndcg@5"], bm25.report.statistics["ndcg@5"]
    assert (scored["mean"], scored["low"], scored["high"]) == (ours.mean, ours.low, ours.high)


def test_repeated_ids_are_written_once_and_blanks_are_refused(folder: Path) -> None:
    evaluate(lambda query, top_k: ["a", "a", "b"], "notes", num_queries=1)
    lines = export("latest", "--format", "trec").splitlines()
    assert [line.split()[2:5] for line in lines] == [["a", "1", "2"], ["b", "2", "1"]]
    evaluate(lambda query, top_k: ["a b"], "notes", num_queries=1, out="other")
    done = CliRunner().invoke(app, ["export", "latest", "--runs", "other", "--format", "trec"])
    assert "id 'a b' is empty or holds a blank" in str(done.exception)


def test_shards_are_one_submission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = [
        evaluate("builtin:bm25", "notes", num_queries=6, shard_index=n, num_shards=2).name
        for n in range(2)
    ]
    monkeypatch.setenv("AGENTBEATS_AGENT_ID", "id-1")
    document = json.loads(export(*shards, "--format", "agentbeats"))
    assert document["participants"] == {"retrieval_agent": "id-1"}
    merged = CliRunner().invoke(app, ["merge", *shards, "--json"])
    assert json.loads(merged.stdout)["summary"]["total_queries"] == 6


def test_tables_have_a_row_for_each_run_or_query(bm25: Run, nothing: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(export(bm25.name, nothing.name, "--format", "csv"))))
    assert [row["run"] for row in rows] == [bm25.name, nothing.name]
    score = bm25.report.statistics["ndcg@5"]
    assert (float(rows[0]["ndcg@5"]), float(rows[0]["ndcg@5_low"])) == (score.mean, score.low)
    lines = [json.loads(line) for line in export(bm25.name, "--format", "jsonl").splitlines()]
    expected = list(bm25.rows())
    assert [line["query_id"] for line in lines] == [row.query_id for row in expected]
    assert lines[0]["retrieved_docs"] == expected[0].retrieved_docs
    assert lines[0]["ndcg_at_5"] == expected[0].score("ndcg@5")
    export(bm25.name, "--format", "parquet", "--out", "rows.parquet")
    assert parquet.read_table("rows.parquet").to_pylist() == lines


def test_latex_has_booktabs_bold_and_marks(bm25: Run, nothing: Run) -> None:
    page = export(nothing.name, bm25.name, "--format", "latex", "--metrics", "ndcg@5")
    score = f"{bm25.report.metrics['ndcg@5']:.4f}"
    assert page.splitlines()[2:] == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"System & nDCG@5 \\",
        r"\midrule",
        r"nothing & 0.0000 \\",
        rf"bm25 \& co & \textbf{{{score}}}$^{{\dagger}}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "trec", "--table", "runs"), "--format trec writes the rankings of one run"),
        (("--format", "markdown", "--table", "queries"), "markdown writes a table of runs"),
        (("--format", "latex", "--metrics", "ndcg@10"), "has no ndcg@10; it has: ndcg@5"),
        (("--format", "csv", "--out", "runs"), "cannot write 'runs'"),
    ],
)
def test_a_mistake_is_refused(bm25: Run, arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["export", "latest", *arguments])
    assert isinstance(done.exception, AssayError)
    assert message in str(done.exception)


def answering(right: int, wrong: int) -> Callable[[str, int], dict[str, object]]:
    """Of every ten questions so many are answered right, so many wrong; the others not at all."""

    def agent(query: str, top_k: int) -> dict[str, object]:
        place = int(query.split()[1]) % 10
        answers = ["fact"] * right + ["a lie"] * wrong + ["I do not know."] * 10
        return {"doc_ids": ["d1"], "answer": answers[place]}

    return agent


def test_the_best_cell_is_the_best_number_in_the_direction_of_its_figure(folder: Path) -> None:
    queries = {f"q{n}": Query(f"q{n}", f"question {n}") for n in range(40)}
    dataset = Dataset(
        "facts",
        {"d1": Document("d1", "", "the fact")},
        queries,
        {"test": {query: {"d1": 1} for query in queries}},
        answers={
            each: ReferenceAnswer(each, "fact", (Fact("fact", ("fact",)),)) for each in queries
        },
    )
    bad, worse = (
        evaluate(answering(*each), dataset, answers=True, label=name).name
        for name, each in {"bad": (1, 3), "worse": (1, 4)}.items()
    )
    figures = ("--metrics", "truthfulness", "--metric", "hallucination_rate", "--metric", "ndcg@5")
    page = export(worse, bad, "--format", "markdown", *figures)
    rows = [line.replace("†", "") for line in page.splitlines()[2:4]]
    assert rows == [
        "| worse | -0.3000 | 0.4000 | **1.0000** |",
        "| bad | **-0.2000** | **0.3000** | **1.0000** |",
    ]


def test_runs_on_other_queries_are_listed_without_marks(bm25: Run) -> None:
    other = evaluate(lambda query, top_k: ["note-001"], "notes", num_queries=5)
    done = CliRunner().invoke(app, ["export", bm25.name, other.name, "--format", "markdown"])
    assert done.exit_code == 0, done.output
    assert "nothing is bold or marked in the table: " in done.stderr
    assert "asked for different queries" in done.stderr
    assert not {"**", "†"} & set(done.stdout.split())


def test_scores_of_every_run_have_their_columns(bm25: Run) -> None:
    deep = evaluate("builtin:bm25", "notes", top_k=10, num_queries=3)
    table = export(bm25.name, deep.name, "--table", "queries", "--format", "csv")
    rows = list(csv.DictReader(table.splitlines()))
    assert not rows[0]["ndcg_at_10"]
    expected = next(deep.rows())
    assert rows[-3]["query_id"] == expected.query_id
    assert float(rows[-3]["ndcg_at_10"]) == expected.score("ndcg@10")
