"""What is released: the archives' content, and the workflow that publishes them."""

import json
import re
import runpy
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from tests.deploy.ci_jobs import LocalRunner, run_github_steps

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = PROJECT["version"]
SERVER = json.loads((ROOT / "deploy" / "server.json").read_text(encoding="utf-8"))
DIST = runpy.run_path(str(ROOT / "scripts" / "dist.py"))


@pytest.mark.slow
def test_the_archives_are_complete_and_hold_nothing_else(tmp_path: Path) -> None:
    archives = DIST["build"](tmp_path / "dist")
    assert [problem for each in archives for problem in DIST["problems"](each)] == []
    DIST["check_metadata"](archives)
    _, wheel = archives
    with zipfile.ZipFile(wheel, "a") as file:
        for name in ("assay/x.pyc", "tests/test_x.py", "assay/data/other/corpus.jsonl"):
            file.writestr(name, "")
    found = "\n".join(DIST["problems"](wheel))
    assert "assay/x.pyc does not belong into a release" in found
    assert "tests/test_x.py is in the wheel, and not in src" in found
    assert "assay/data/other/corpus.jsonl looks like the text of a data set" in found


def test_publishing_needs_no_secret_and_has_no_right_but_its_own() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert "secrets." not in text
    assert workflow["permissions"] == {"contents": "read"}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert "permissions" not in build
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    assert [step for step in publish["steps"] if "run" in step] == []
    targets = re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    made = re.findall(r"run: make (\w+)", text)
    assert made == ["dist", "sbom"]
    assert set(made) <= set(targets)


@pytest.mark.parametrize(
    ("tag", "released", "code"),
    [(f"v{VERSION}", True, 0), ("v9.9.9", True, 1), (f"v{VERSION}", False, 1)],
)
def test_a_tag_must_be_the_version(tmp_path: Path, tag: str, released: bool, code: int) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "pyproject.toml", project)
    word = "2026-12-01" if released else "unreleased"
    (project / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} ({word})\n")
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["build"]["steps"]
    checks = [step for step in steps if step.get("name") == "The tag is the version"]
    runner = LocalRunner.create(project, tmp_path / "tools", {"GITHUB_REF_NAME": tag})
    assert run_github_steps(runner, checks, {}) == code, runner.output


def test_uvx_finds_a_command_of_the_distributions_name() -> None:
    assert PROJECT["scripts"]["agent-assay"] == PROJECT["scripts"]["assay"]
    assert list(PROJECT["entry-points"]["pytest11"]) == ["agent-assay"]


def test_every_file_names_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    versions = {SERVER["version"], SERVER["packages"][0]["version"], citation["version"]}
    assert versions == {PROJECT["version"]}


def test_the_readme_proves_whose_mcp_server_it_is() -> None:
    """The registry reads this marker from the published description."""
    assert f"mcp-name: {SERVER['name']} " in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(SERVER["description"]) <= 100  # the registry refuses more


@pytest.mark.parametrize(
    "file", [".github/workflows/ci.yml", ".github/workflows/release.yml", "action.yml"]
)
def test_actions_are_pinned_by_commit(file: str) -> None:
    """A tag can be moved to other code, a commit cannot."""
    used = re.findall(r"uses: (\S+)", (ROOT / file).read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not re.search("@[0-9a-f]{40}$", action)] == []
