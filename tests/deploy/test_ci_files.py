"""action.yml and deploy/gitlab.yml, carried out step by step on this machine."""

import json
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.ci_jobs import LocalRunner, run_github_steps, run_gitlab_job

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GITLAB = yaml.safe_load((ROOT / "deploy" / "gitlab.yml").read_text(encoding="utf-8"))

SEARCH = """
def find(query, top_k):
    return ["a", "b", "c", "d", "e", "f", "g", "h"][:top_k]

def worse(query, top_k):
    return ["x", "y", "z"][:top_k]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text(SEARCH)
    rows = "".join(f"question {number},a;b\n" for number in range(12))
    (folder / "questions.csv").write_text("query,doc_ids\n" + rows)
    return folder


class Action:
    def __init__(self, project: Path) -> None:
        self.project, self.place = project, project.parent
        self.outputs: dict[str, str] = {}
        self.runner = LocalRunner.create(project, self.place / "tools", {})

    def run(self, *, branch: str = "main", **inputs: str) -> int:
        defaults = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert set(given) <= set(defaults)
        values = {f"inputs.{name}": value for name, value in {**defaults, **given}.items()}
        for file in ("output", "summary"):
            (self.place / file).write_text("")
        self.runner.output = ""
        self.runner.variables = {
            "GITHUB_OUTPUT": str(self.place / "output"),
            "GITHUB_STEP_SUMMARY": str(self.place / "summary"),
            "GITHUB_REF_NAME": branch,
        }
        code = run_github_steps(self.runner, ACTION["runs"]["steps"], values)
        self.outputs = {
            name: values[each["value"].strip("${} ")] for name, each in ACTION["outputs"].items()
        }
        return code

    @property
    def summary(self) -> str:
        return (self.place / "summary").read_text()

    def newest(self) -> dict[str, Any]:
        path = self.project / self.outputs["run"] / "comparison.json"
        content: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
        return content


def with_git(project: Path) -> None:
    """A commit that is checked out without its branch, as runners do it."""
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
        ["checkout", "-q", "--detach"],
    ):
        subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)


def test_a_run_that_passes_leaves_summary_junit_page_and_outputs(project: Path) -> None:
    action = Action(project)
    gates = "success_rate>=0.99\n\nndcg@5>=0.9\n"
    code = action.run(target="python:mine:find", dataset="questions.csv", gates=gates)
    assert code == 0, action.runner.output
    assert action.runner.installed == "install agent-assay\n"
    assert action.summary.count("| passed |") == 2
    assert action.outputs["exit-code"] == "0"
    assert (project / action.outputs["run"] / "report.json").exists()
    assert b"<html" in (project / "assay.html").read_bytes()
    cases = ElementTree.parse(project / "assay-junit.xml").getroot().iter("testcase")
    assert sum("ndcg@5" in (case.get("name") or "") for case in cases) == 1


def test_a_pull_request_is_compared_with_the_main_branch(project: Path) -> None:
    with_git(project)
    action = Action(project)
    inputs = {"dataset": "questions.csv", "compare_to": "main", "gates": "ndcg@5>=main-0.01"}
    assert action.run(target="python:mine:find", **inputs) == 0, action.runner.output
    assert "no run of 'main' yet" in action.runner.output
    assert action.newest() == {}
    assert action.run(target="python:mine:find", branch="topic", **inputs) == 0
    assert action.newest()
    code = action.run(target="python:mine:worse", branch="topic", **inputs)
    assert code == 1, action.runner.output
    assert "gate failed: ndcg@5>=main-0.01" in action.runner.output


@pytest.mark.parametrize(
    "inputs",
    [
        {"target": "$(touch pwned)", "dataset": "`touch pwned`", "gates": "$(touch pwned)"},
        # As an option, it would end with exit code 0 and measure nothing.
        {"target": "--help", "dataset": "questions.csv"},
        # xargs takes no option of the line, so that the gate in it would be lost.
        {"target": "python:mine:worse", "dataset": "notes", "args": "--gate 'ndcg@5>=0.9"},
    ],
)
def test_an_input_that_is_wrong_fails_the_job_and_is_not_executed(
    project: Path, inputs: dict[str, str]
) -> None:
    assert Action(project).run(**inputs) == 2
    assert not (project / "runs").exists()
    assert not (project / "pwned").exists()


def test_the_name_of_a_folder_sets_no_output(project: Path) -> None:
    (project / "runs" / "zz\nexit-code=0").mkdir(parents=True)
    action = Action(project)
    action.run(target="python:mine:worse", dataset="questions.csv", gates="ndcg@5>=0.9")
    assert action.outputs["exit-code"] == "1"


def test_steps_of_the_action_name_their_shell_and_only_known_inputs() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) == ("shell" in step)
        assert "${{" not in step.get("run", "")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text, name


def test_the_gitlab_job_measures_and_compares(project: Path) -> None:
    with_git(project)
    job = GITLAB[".assay"]
    given = {
        "ASSAY_DATASET": "questions.csv",
        "ASSAY_GATE": "success_rate>=0.99; ndcg@5>=main-0.01",
        "ASSAY_COMPARE_TO": "main",
    }
    for branch, function, code, verdict in (
        ("main", "find", 0, "gate passed: success_rate>=0.99"),
        ("topic", "worse", 1, "gate failed: ndcg@5>=main-0.01"),
    ):
        runner = LocalRunner.create(project, project.parent / "tools", {"CI_COMMIT_BRANCH": branch})
        variables = {**job["variables"], **given, "ASSAY_TARGET": f"python:mine:{function}"}
        assert run_gitlab_job(runner, {**job, "variables": variables}) == code, runner.output
        assert verdict in runner.output
    assert runner.installed == "install agent-assay\n" * 2
    for path in (*job["artifacts"]["paths"], "assay-junit.xml"):
        assert (project / path).exists(), path
