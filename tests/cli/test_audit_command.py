"""`assay audit`: the sentence, the JSON and the exit code."""

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay.cli.score import audit
from assay.cli.verb import VerbCommand

app = VerbCommand("audit", audit)

TRUE_NDCG = 1 / (1 + 1 / log2(3))


@pytest.fixture
def qrels(tmp_path: Path) -> str:
    path = tmp_path / "judged.qrels"
    path.write_text("".join(f"q{i} 0 a{i} 1\nq{i} 0 b{i} 1\n" for i in range(8)))
    return str(path)


def write(folder: Path, claim: float, *, each: float | None = None) -> str:
    """One of two relevant documents is found for every query, in the first place."""
    rows: list[dict[str, Any]] = [
        {"query_id": f"q{i}", "retrieved_docs": [f"a{i}", "x"]} for i in range(8)
    ]
    for row in rows:
        row |= {} if each is None else {"ndcg_at_5": each}
    path = folder / "report.json"
    summary = {"total_queries": 8, "mean_ndcg_at_5": claim}
    path.write_text(json.dumps({"summary": summary, "per_query_results": rows}))
    return str(path)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_right_report_is_called_correct_with_exit_code_0(tmp_path: Path, qrels: str) -> None:
    result = invoke(write(tmp_path, TRUE_NDCG), "--qrels", qrels)
    assert result.exit_code == 0
    assert "claims nDCG@5 0.6131; its own lists give 0.6131: correct" in result.stdout
    assert invoke(str(tmp_path), "--qrels", qrels).stdout == result.stdout  # the folder of a run


def test_a_wrong_report_is_explained_with_exit_code_1(tmp_path: Path, qrels: str) -> None:
    report = write(tmp_path, 1.0, each=1.0)
    result = invoke(report, "--qrels", qrels)
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "its own lists give 0.6131: the ideal ranking was taken from the retrieved" in words
    assert "q0: says 1.0000, is 0.6131" in words
    assert "and 3 more queries (all: --json)" in words
    content = json.loads(invoke(report, "--qrels", qrels, "--json").stdout)
    (claim,) = content["claims"]
    assert (content["correct"], content["queries"], claim["metric"]) == (False, 8, "ndcg@5")
    assert claim["flaws"] == ["the ideal ranking was taken from the retrieved documents"]
    assert len(claim["disagreements"]) == 8


def test_an_unexplained_claim_names_the_mean_of_its_own_rows(tmp_path: Path, qrels: str) -> None:
    result = invoke(write(tmp_path, 0.8, each=0.613147), "--qrels", qrels)
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "no known mistake explains the difference" in words
    assert "the mean of its per-query figures is 0.6131" in words


def test_the_judgments_are_those_of_the_data_set_that_the_report_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "qrels").mkdir(parents=True)
    (tmp_path / "mine" / "corpus.jsonl").write_text(
        "".join(f'{{"_id": "{kind}{i}", "text": "t"}}\n' for i in range(8) for kind in "ab")
    )
    (tmp_path / "mine" / "queries.jsonl").write_text(
        "".join(f'{{"_id": "q{i}", "text": "query {i}"}}\n' for i in range(8))
    )
    rows = "".join(f"q{i}\ta{i}\t1\nq{i}\tb{i}\t1\n" for i in range(8))
    (tmp_path / "mine" / "qrels" / "dev.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    path = Path(write(tmp_path, TRUE_NDCG))
    named = {"config": {"dataset": "mine"}, "dataset": {"name": "mine", "split": "dev"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | named))
    result = invoke(str(path))
    assert result.exit_code == 0, result.output
    assert "judged by mine dev" in result.stdout
