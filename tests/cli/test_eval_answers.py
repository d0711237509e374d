"""`assay eval --answers` as users start it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.conftest import RunAssay

from assay.cli.app import app

ANSWER = ("eval", "builtin:bm25", "--dataset", "notes", "--num-queries", "20", "--answers")


def test_answers_are_evaluated_without_any_model(run_assay: RunAssay) -> None:
    done = run_assay(*ANSWER, "--counterfactuals")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Fix " in done.stdout.split("again")[-1]
    assert "the right documents alone:" in done.stdout
    report = json.loads(run_assay("report", "--json").stdout)
    assert report["answers"]["questions"] == len(report["answer_results"]) == 20
    assert 0 < report["answers"]["metrics"]["fact_recall"] < 1


def test_without_a_target_the_reference_agent_answers(run_assay: RunAssay) -> None:
    done = run_assay(
        *("eval", "--dataset", "notes", "--num-queries", "3", "--answers", "--json"),
        RAG_EVAL_PROVIDER="extractive",
    )
    report = json.loads(done.stdout)
    assert report["target"]["name"] == "builtin:hybrid"
    assert report["answers"]["questions"] == 3


def test_a_judge_that_cannot_be_reached_keeps_the_run_and_says_how_to_go_on(
    run_assay: RunAssay, folder: Path
) -> None:
    done = run_assay(*ANSWER, "--judge", "ollama:none@http://127.0.0.1:9", "--json")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "not all answers were judged" in done.stderr
    assert "assay eval --resume" in done.stderr
    report = json.loads(done.stdout)
    assert report["answers"]["metrics"]["fact_recall"] > 0
    (run,) = (folder / "runs").iterdir()
    resumed = run_assay("eval", "--resume", str(run), "--judge", "extractive", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["answers"]["trouble"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--judge", "oracle", "--answers"), "unknown provider 'oracle'"),
        (("--judge", "ollama"), "--answers"),
        (("--answers", "--judge", "ollama", "--judge-set", "votes=0"), "judge_set 'votes'"),
        (("--gate", "faithfulness>=0.5"), "--answers"),
    ],
)
def test_wrong_use_is_told_before_the_run(
    run_assay: RunAssay, folder: Path, options: tuple[str, ...], words: str
) -> None:
    done = run_assay("eval", "builtin:bm25", "--dataset", "notes", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (folder / "runs").exists()


def test_a_judge_in_the_environment_does_not_disturb_a_plain_run(run_assay: RunAssay) -> None:
    done = run_assay("eval", "builtin:bm25", "--dataset", "notes", RAG_EVAL_PROVIDER="anthropic")
    assert done.returncode == 0, done.stderr


def test_a_target_without_answers_is_named_before_the_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "ids_alone.py").write_text("def find(query, top_k): return ['note-001']\n")
    options = ("--dataset", "notes", "--num-queries", "6", "--answers")
    done = CliRunner().invoke(app, ["eval", "python:ids_alone:find", *options])
    words = "the target returned documents but no answers"
    assert 0 <= done.output.find(words) < done.output.find("Fix the agent's errors first")
