"""`make generalise`: every data set of a folder in one table."""

import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_dataset import tiny_dataset

from assay.data.beir import write_beir
from assay.evaluation.bench import BenchCell, BenchReport, BenchSystem

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "generalise.py"))


def test_every_data_set_of_the_folder_and_always_notes_are_in_the_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("soups", "teas"):
        write_beir(tiny_dataset(2), tmp_path / name)
    qrels = tmp_path / "teas" / "qrels" / "test.tsv"
    qrels.with_name("train.tsv").write_text(qrels.read_text())
    (tmp_path / "notes.txt").write_text("no data set")
    (tmp_path / "empty").mkdir()
    found = dict(SCRIPT["find_datasets"](tmp_path))
    assert list(found) == ["notes", "soups", "teas"]
    assert [name for name, (_, splits) in found.items() if "train" in splits] == ["teas"]
    assert "empty is left out" in capsys.readouterr().err
    assert list(dict(SCRIPT["find_datasets"](None))) == ["notes"]
    datasets = {name: spec for name, (spec, _) in found.items()}
    read = tomllib.loads(SCRIPT["suite"](("bm25", "hybrid"), datasets, 7))
    assert read["targets"] == {"bm25": "builtin:bm25", "hybrid": "builtin:hybrid"}
    assert read["datasets"]["teas"] == {"dataset": str(tmp_path / "teas"), "num_queries": 7}


def test_the_table_has_intervals_means_and_ranks() -> None:
    figures: dict[str, Any] = {"mean": 0.6, "low": 0.5, "high": 0.7}
    measured = BenchCell(system="hybrid", dataset="notes", state="complete", queries=9, **figures)
    failed = BenchCell(system="bm25", dataset="notes", state="failed", error="no")
    hybrid = BenchSystem(name="hybrid", target="builtin:hybrid", ranks="1", **figures)
    bm25 = BenchSystem(name="bm25", target="builtin:bm25")
    named: dict[str, Any] = {"suite": "s", "metric": "nDCG@10", "datasets": ["notes"]}
    report = BenchReport(systems=[hybrid, bm25], cells=[measured, failed], finished="", **named)
    assert list(SCRIPT["table"](report)) == [
        "| nDCG@10 | queries | hybrid | bm25 |",
        "|---|---|---|---|",
        "| notes | 9 | 0.6000 (0.5000 to 0.7000) | no |",
        "| mean over the data sets | | 0.6000 (0.5000 to 0.7000) |  |",
        "| rank | | 1 |  |",
        "",
    ]
