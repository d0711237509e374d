"""What a comparison with an earlier run decides: the gate of a pull request."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.system.conftest import Assay, Completed

AGENT = """
import os
RIGHT = int(os.environ.get("RIGHT", "57"))

def search(query, top_k):
    number = int(query.split()[-1])
    if os.environ.get("BROKEN"):
        raise RuntimeError("the index is gone")
    return [f"d{number}" if number < RIGHT else "d999"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    write_questions(tmp_path, range(57))
    return tmp_path


def write_questions(folder: Path, numbers: range) -> None:
    rows = [f"where is document {number},d{number}" for number in numbers]
    (folder / "questions.csv").write_text("\n".join(["question,ids", *rows]) + "\n")


def evaluate(assay: Assay, *arguments: str, **variables: str) -> Completed:
    target = ("eval", "python:agent:search", "--dataset", "questions.csv")
    return assay(*target, *arguments, **variables)


CI_JOB = ("--compare-to", "main", "--allow-first-run", "--fail-on-regression")


def test_a_question_set_that_grows_keeps_the_gate_on(assay: Assay, project: Path) -> None:
    assert evaluate(assay, "--label", "main", *CI_JOB).returncode == 0
    write_questions(project, range(58))
    files = ("--junit", "junit.xml", "--markdown", "summary.md")
    assert evaluate(assay, *CI_JOB, *files, RIGHT="45").returncode == 1
    (case,) = ElementTree.parse(project / "junit.xml").findall(".//failure")
    assert "57 of 58" in str(case.get("message"))
    assert "57 of 58" in (project / "summary.md").read_text()


def test_too_few_shared_questions_fail_this_run_alone(assay: Assay, project: Path) -> None:
    evaluate(assay, "--label", "main")
    write_questions(project, range(54, 111))
    result = evaluate(assay, "--label", "main", *CI_JOB, "--junit", "junit.xml")
    assert result.returncode == 1
    assert "3 of 57 queries" in result.stderr
    assert ElementTree.parse(project / "junit.xml").findall(".//failure")
    assert evaluate(assay, *CI_JOB).returncode == 0


def test_a_run_that_answered_nothing_is_never_the_reference(assay: Assay, project: Path) -> None:
    evaluate(assay, "--label", "main")
    (good,) = [path.name for path in (project / "runs").iterdir()]
    assert evaluate(assay, "--label", "main", BROKEN="1").returncode == 3
    (broken,) = [path.name for path in (project / "runs").iterdir() if path.name != good]
    result = evaluate(assay, *CI_JOB, RIGHT="30")
    assert result.returncode == 1
    assert f"against {good}" in result.stderr
    assert evaluate(assay, "--compare-to", broken).returncode == 1
    named = json.loads(assay("compare", "main", "latest", "--json").stdout)
    assert named["metrics"]["ndcg@5"]["mean_a"] == 1


def test_allow_first_run_excuses_only_that_no_run_has_the_name(assay: Assay, project: Path) -> None:
    assert evaluate(assay, *CI_JOB).returncode == 0
    evaluate(assay, "--label", "main", BROKEN="1")
    result = evaluate(assay, "--label", "main", *CI_JOB)
    assert result.returncode == 1
    assert "answered 0 of 57" in result.stderr
    assert evaluate(assay, *CI_JOB).returncode == 0  # the run before is the reference now
