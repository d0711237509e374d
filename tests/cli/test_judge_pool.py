"""`assay judge pool`: from runs to a table that people grade, which is a data set."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import assay
from assay.cli.app import app
from assay.data import load_dataset
from assay.labels.pool import combine_labels, grader_agreement


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs that return judged and unjudged documents of `notes`."""
    monkeypatch.chdir(tmp_path)
    for k1 in (0.4, 2.5):
        assay.evaluate("builtin:bm25", "notes", num_queries=5, bm25={"k1": k1}, out="runs")
    return tmp_path


def _invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["judge", *words])
    return result.exit_code, result.stdout, result.stderr or str(result.exception or "")


def _grade(path: Path, copy: Path, grades: list[int | str]) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for place, row in enumerate(rows):
        row["label"] = str(grades[place % len(grades)])
    with copy.open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def test_a_pool_becomes_judgments(project: Path) -> None:
    runs = sorted(str(path) for path in Path("runs").iterdir())
    code, out, error = _invoke("pool", *runs, "--out", "pool.csv", "--depth", "5", "--json")
    assert code == 0, error
    known = load_dataset("notes").judgments["test"]
    rows = _grade(Path("pool.csv"), Path("ann.csv"), [0, 1, 2])
    assert json.loads(out)["pairs"] == len(rows)
    assert all(row["doc_id"] not in known.get(row["query_id"], {}) for row in rows)
    returned = {
        (row.query_id, doc_id)
        for path in runs
        for row in assay.load_run(path).rows()
        for doc_id in row.retrieved_docs[:5]
    }
    assert {(row["query_id"], row["doc_id"]) for row in rows} <= returned
    graded = load_dataset("ann.csv").judgments["test"]
    assert graded[rows[1]["query_id"]][rows[1]["doc_id"]] == 1


def test_the_median_counts_and_strangers_have_nothing_in_common() -> None:
    one, other = ("q", "d"), ("q", "e")
    assert combine_labels([{one: 2}, {one: 0}, {one: 3, other: 1}]) == {one: 2, other: 1}
    assert combine_labels([{one: 2}, {one: 0}]) == {one: 0}
    assert grader_agreement({one: 1}, {other: 1}).both == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pool", "latest", "--out", "pool.txt"), "a pool is written to a .csv file"),
        (("labels", "empty.csv"), "'labels' was removed"),
        (("bench",), "'bench' was removed"),
        (("pool", "latest", "--out", "empty.csv"), "exists, perhaps with grades in it"),
    ],
)
def test_mistakes_are_named(project: Path, words: tuple[str, ...], message: str) -> None:
    Path("empty.csv").write_text("query_id,query,doc_id,passage,label\nq,how,d,text,\n")
    assert message in _invoke(*words)[2]


def test_a_text_that_begins_like_a_formula_is_text(tmp_path: Path) -> None:
    from assay.labels.pool import PassagePair, read_pool, write_pool

    write_pool(tmp_path / "pool.csv", [PassagePair("q", "how", "d", "=cmd()")])
    assert ",'=cmd()," in (tmp_path / "pool.csv").read_text()
    assert read_pool(tmp_path / "pool.csv")[0][0].passage == "=cmd()"


def test_a_data_set_without_documents_is_graded_by_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fragen.csv").write_text("Frage;Seiten\nWas?;a\nWer?;b\n")
    columns = ["query=Frage,ids=Seiten"]
    assay.evaluate(lambda query, top_k: ["a", "c"], "fragen.csv", columns=columns, out="runs")
    code, _, error = _invoke("pool", "latest", "--out", "pool.csv")
    assert code == 0, error
    assert "no documents" in error
    rows = _grade(Path("pool.csv"), Path("ann.csv"), [1])
    assert sorted((row["query"], row["doc_id"], row["passage"]) for row in rows) == [
        ("Was?", "c", ""),
        ("Wer?", "a", ""),
        ("Wer?", "c", ""),
    ]
    code, _, error = _invoke("grade", "pool.csv", "--judge", "openai:m")
    assert "has no passage" in error
