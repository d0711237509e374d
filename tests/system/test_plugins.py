"""The six example plug-ins, built as a wheel, installed into a folder and used by commands."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2] / "examples" / "plugins"
JUDGE = """
import re, sys
sections = re.findall(r"<(\\w+) \\w+>\\n(.*?)\\n</", sys.stdin.read(), re.DOTALL)
texts = [text for name, text in sections if name != "question"]
print("TRUE" if len(set(texts)) == 1 else "FALSE")
"""
DOCUMENTS = {
    "tea": "How long does green tea steep?\nGreen tea steeps for 3 minutes.",
    "key": "Where is the spare key?\nTHE SPARE KEY IS BELOW THE FLOWER POT.",
}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the project, as `pip install --target` unpacks a wheel."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True, timeout=60)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    for name, text in DOCUMENTS.items():
        (tmp_path / f"{name}.txt").write_text(text)

    def run(*arguments: str, path: Path = installed) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "assay", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(path)},
            capture_output=True,
            text=True,
            timeout=110,
        )

    return run


def test_one_run_uses_all_six_plugins(run: Run, tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(JUDGE)
    done = run(
        *("eval", "files:.", "--dataset", "titles:.", "--answers", "--listener", "scores-file"),
        *("--judge", f"command:{sys.executable} judge.py", "--gate", "rbp@5>=0.15", "--json"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["metrics"]["rbp@5"] == pytest.approx(0.2)
    assert report["answers"]["metrics"]["correctness"] == 1.0
    assert "shouts" in {finding["kind"] for finding in report["answers"]["findings"]}
    (line,) = (tmp_path / "scores.jsonl").read_text().splitlines()
    assert json.loads(line)["metrics"]["rbp@5"] == pytest.approx(0.2)


def test_a_metric_of_a_plugin_scores_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"tea": ["key", "tea"], "key": ["key"]}))
    (tmp_path / "qrels.txt").write_text("tea 0 tea 1\nkey 0 key 1\n")
    done = run("score", "run.json", "--qrels", "qrels.txt", "--metric", "RBP@5", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["metrics"]["rbp@5"]
    assert figures["mean"] == pytest.approx((0.2 + 0.16) / 2)
    assert figures["ceiling"] == pytest.approx(0.2)


def test_doctor_lists_plugins_and_what_failed_to_load(run: Run, tmp_path: Path) -> None:
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stderr
    plugins = json.loads(done.stdout)["plugins"]
    assert {each["group"].removeprefix("assay.") for each in plugins} == {
        *("targets", "metrics", "datasets", "providers", "answer_checks", "listeners")
    }
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[assay.metrics]\nlost = broken:lost\n")
    done = run("doctor", path=tmp_path)
    assert done.returncode == 1
    assert "assay.metrics: failed to load, from broken 1.0" in done.stdout
    done = run("score", "tea.txt", "--qrels", "q", "--metric", "lost", path=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "plug-in 'lost' of assay.metrics" in done.stderr
    assert "No module named 'broken'" in done.stderr


def test_a_plugin_that_returns_something_else_is_named(run: Run, tmp_path: Path) -> None:
    about = tmp_path / "odd-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[assay.datasets]\nwiki = odd:load\n[assay.metrics]\ndouble = odd:double\n"
    )
    (tmp_path / "odd.py").write_text("def load(name): return {}\ndef double(*_): return 2\n")
    wrong = run("data", "check", "wiki:recipes", path=tmp_path)
    assert (wrong.returncode, "must return a Dataset, got dict" in wrong.stderr) == (2, True)
    (tmp_path / "run.json").write_text('{"tea": ["tea"]}')
    (tmp_path / "qrels.txt").write_text("tea 0 tea 1\n")
    wrong = run("score", "run.json", "--qrels", "qrels.txt", "--metric", "double", path=tmp_path)
    assert wrong.returncode == 2
    assert "metric 'double' must return numbers from 0 to 1, got 2.0" in wrong.stderr
