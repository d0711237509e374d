"""What is released: the archives' content, and the workflow that publishes them."""

import importlib.util
import re
import shutil
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from tests.deploy.ci_jobs import LocalRunner, run_github_steps

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.fixture(scope="module")
def dist() -> ModuleType:
    """The script behind `make dist`."""
    spec = importlib.util.spec_from_file_location("dist", ROOT / "scripts" / "dist.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_archives_are_complete_and_hold_nothing_else(dist: ModuleType, tmp_path: Path) -> None:
    archives = dist.build(tmp_path / "dist")
    assert [problem for each in archives for problem in dist.problems(each)] == []
    dist.check_metadata(archives)
    _, wheel = archives
    with zipfile.ZipFile(wheel, "a") as file:
        for name in ("assay/x.pyc", "tests/test_x.py", "assay/data/other/corpus.jsonl"):
            file.writestr(name, "")
    found = "\n".join(dist.problems(wheel))
    assert "assay/x.pyc does not belong into a release" in found
    assert "tests/test_x.py is in the wheel, and not in src" in found
    assert "assay/data/other/corpus.jsonl looks like the text of a data set" in found


def test_the_examples_of_the_readme_are_found(dist: ModuleType) -> None:
    module, commands = dist.readme_examples()
    assert "def find(" in module
    assert "def answer(" in module
    assert [command.split()[1] for command in commands] == ["doctor", "eval", "eval"]


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
def test_a_tag_that_is_not_the_version_is_refused(
    tmp_path: Path, tag: str, released: bool, code: int
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "pyproject.toml", project)
    word = "2026-12-01" if released else "unreleased"
    (project / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} ({word})\n")
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["build"]["steps"]
    checks = [step for step in steps if step.get("name") == "The tag is the version"]
    runner = LocalRunner.create(project, tmp_path / "tools", {"GITHUB_REF_NAME": tag})
    assert run_github_steps(runner, checks, {}) == code, runner.output
