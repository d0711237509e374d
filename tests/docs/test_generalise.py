"""`make generalise`: every data set of a folder in one table."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from assay.evaluation.bench import BenchCell, BenchReport, BenchSystem

SCRIPT = Path(__file__).parents[2] / "scripts" / "generalise.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generalise", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, splits in {"soups": ["test"], "teas": ["test", "train"]}.items():
        home = tmp_path / name
        (home / "qrels").mkdir(parents=True)
        (home / "corpus.jsonl").write_text('{"_id": "d", "title": "T", "text": "tea"}\n')
        (home / "queries.jsonl").write_text('{"_id": "q", "text": "tea"}\n')
        for split in splits:
            (home / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    (tmp_path / "notes.txt").write_text("no data set")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_finds_every_data_set_of_the_folder_and_always_notes(
    script: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = dict(script.find_datasets(folder))
    assert list(found) == ["notes", "soups", "teas"]
    assert [name for name, (_, splits) in found.items() if "train" in splits] == ["teas"]
    assert "empty is left out" in capsys.readouterr().err
    assert list(dict(script.find_datasets(None))) == ["notes"]


def test_writes_a_suite(script: ModuleType, folder: Path) -> None:
    datasets = {name: spec for name, (spec, _) in script.find_datasets(folder)}
    read = tomllib.loads(script.suite(("bm25", "hybrid"), datasets, 7))
    assert read["targets"] == {"bm25": "builtin:bm25", "hybrid": "builtin:hybrid"}
    assert read["datasets"]["teas"] == {"dataset": str(folder / "teas"), "num_queries": 7}
    assert list(read["datasets"]) == ["notes", "soups", "teas"]


FIGURES = {"mean": 0.6, "low": 0.5, "high": 0.7}


def report(name: str, **cell: Any) -> BenchReport:
    """Of `hybrid`, which was measured, and of another system whose cell this is."""
    hybrid = BenchSystem(name="hybrid", target="builtin:hybrid", ranks="1")
    measured = {"dataset": "notes", "state": "complete", "queries": 9, **FIGURES}
    return BenchReport(
        suite="generalise",
        metric="nDCG@10",
        finished="now",
        datasets=["notes"],
        systems=[
            hybrid.model_copy(update=FIGURES),
            BenchSystem(name=name, target=f"builtin:{name}"),
        ],
        cells=[
            BenchCell.model_validate({"system": "hybrid", **measured}),
            BenchCell(system=name, dataset="notes", error="no", **cell),
        ],
    )


def test_the_table_has_intervals_means_and_ranks(script: ModuleType) -> None:
    assert list(script.table(report("bm25", state="failed"))) == [
        "| nDCG@10 | queries | hybrid | bm25 |",
        "|---|---|---|---|",
        "| notes | 9 | 0.6000 (0.5000 to 0.7000) | no |",
        "| mean over the data sets | | 0.6000 (0.5000 to 0.7000) |  |",
        "| rank | | 1 |  |",
        "",
    ]
