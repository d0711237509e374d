"""Run folders of earlier formats open, list, compare and resume."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.system.conftest import Assay
from tests.system.running import run

KEPT = ("target", "dataset", "split", "seed", "top_k", "num_queries")
READS = {"run.json": ("eval", "--resume"), "report.json": ("report",)}
YOUNGER = ("format", "git", "machine", "label", "tags", "note", "embedder", "retriever")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of today."""
    folder = tmp_path_factory.mktemp("today")
    sample = ("--dataset", "notes", "--num-queries", "12", "--answers")
    assert run(folder, "eval", "builtin:bm25", *sample).returncode == 0
    return folder / "runs"


@pytest.fixture(params=[0, 1])
def old(request: pytest.FixtureRequest, runs: Path, tmp_path: Path) -> Path:
    """The same run as format 0 (no number) or 1 (a number in run.json alone) had it."""
    shutil.copytree(runs, tmp_path / "runs")
    (folder,) = (tmp_path / "runs").glob("2*")
    edit(folder / "run.json", lambda value: aged(value, request.param))
    edit(folder / "report.json", lambda value: aged(value, 0))
    return folder.rename(folder.with_name(f"{folder.name[:-4]}0old"))


def aged(value: dict[str, Any], number: int) -> dict[str, Any]:
    """Without what is younger than the format: most settings, provenance, examples."""
    config = {key: value["config"][key] for key in (*KEPT, "answers")}
    older = {key: part for key, part in value.items() if key not in YOUNGER}
    older.pop("failure_examples", None)
    older.pop("labels", None)
    return older | {"config": config} | ({"format": number} if number else {})


def edit(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def test_it_opens(assay: Assay, old: Path) -> None:
    shown = assay("report", str(old), "--json")
    assert shown.returncode == 0, shown.stderr
    report = json.loads(shown.stdout)
    assert report["summary"]["total_queries"] == len(report["per_query_results"])
    assert len(report["answer_results"]) == 12
    page = assay("report", str(old), "--html", "page.html")
    assert page.returncode == 0, page.stderr


def test_it_is_listed(assay: Assay, old: Path) -> None:
    (row,) = json.loads(assay("runs", "--json").stdout)
    assert (row["run"], row["state"], row["target"]) == (old.name, "complete", "builtin:bm25")
    assert row["mean"] == json.loads((old / "report.json").read_text())["metrics"]["ndcg@5"]


def test_it_compares_with_a_run_of_today(assay: Assay, old: Path, runs: Path) -> None:
    (today,) = runs.glob("2*")
    done = assay("compare", str(old), str(today), "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["metrics"]
    assert figures["ndcg@5"]["difference"] == figures["correctness"]["difference"] == 0
    assert figures["ndcg@5"]["n"] == 10


def test_it_resumes_to_the_same_figures(assay: Assay, old: Path) -> None:
    before = json.loads((old / "report.json").read_text())
    (old / "report.json").unlink()
    lines = (old / "calls.jsonl").read_text().splitlines(keepends=True)
    (old / "calls.jsonl").write_text("".join(lines[:5]))
    done = assay("eval", "--resume", str(old), "--json")
    assert done.returncode == 0, done.stderr
    after = json.loads(done.stdout)
    assert after["metrics"] == before["metrics"]
    assert after["answers"]["metrics"] == before["answers"]["metrics"]


@pytest.mark.parametrize("file", READS)
def test_a_newer_format_is_refused(assay: Assay, old: Path, file: str) -> None:
    edit(old / file, lambda value: value | {"format": 99})
    done = assay(*READS[file], str(old), "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
