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
    result = evaluate(assay, *CI_JOB, *files, RIGHT="45")
    assert result.returncode == 1
    assert "no regression" in result.stderr
    (case,) = ElementTree.parse(project / "junit.xml").findall(".//failure")
    assert "57 of 58" in str(case.get("message"))
    assert "57 of 58" in (project / "summary.md").read_text()


def test_compare_uses_what_both_asked_and_names_the_rest(assay: Assay, project: Path) -> None:
    evaluate(assay, "--label", "a")
    write_questions(project, range(2, 60))
    evaluate(assay, "--label", "b", RIGHT="30")
    result = assay("compare", "a", "b", "--json")
    assert result.returncode == 0, result.stderr
    comparison = json.loads(result.stdout)
    assert {row["n"] for row in comparison["metrics"].values()} == {55}
    note = " ".join(comparison["warnings"])
    assert "55 of 58" in note
    assert "2 only in a" in note
    assert "3 only in b" in note


def test_changed_labels_are_applied_to_both_runs(assay: Assay, project: Path) -> None:
    evaluate(assay, "--label", "main")
    text = (project / "questions.csv").read_text()
    (project / "questions.csv").write_text(text.replace("document 3,d3\n", "document 3,d999\n"))
    result = evaluate(assay, "--compare-to", "main", "--json")
    (row, *_) = json.loads(result.stdout)["comparison"]["metrics"].values()
    assert (row["difference"], row["wins"], row["losses"]) == (0, 0, 0)


def test_too_few_shared_questions_fail_and_the_next_run_has_a_reference(
    assay: Assay, project: Path
) -> None:
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


ANSWERING = """
import os

def search(query, top_k):
    number = int(query.split()[-1])
    answer = f"The code of item {number} is d{number}."
    if os.environ.get("INVENT"):
        answer = "Green cheese covers a distant moon. Nobody ever tasted it."
    contexts = [{"id": f"d{number}", "text": f"The code of item {number} is d{number}."}]
    return {"doc_ids": [f"d{number}"], "answer": answer, "contexts": contexts}
"""


def test_the_headline_names_every_significant_change(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(ANSWERING)
    rows = [f"what is the code of item {n},d{n},The code of item {n} is d{n}." for n in range(30)]
    (tmp_path / "questions.csv").write_text("\n".join(["question,ids,answer", *rows]) + "\n")
    evaluate(assay, "--answers", "--label", "a")
    evaluate(assay, "--answers", "--label", "b", INVENT="1")
    shown = " ".join(assay("compare", "a", "b").stdout.split())
    assert "significantly worse in faithfulness" in shown
    assert "do not differ" not in shown
