"""What a published package promises: names, versions and markers that others look for."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_uvx_finds_a_command_of_the_distributions_name() -> None:
    assert PROJECT["scripts"]["agent-assay"] == PROJECT["scripts"]["assay"]
    assert list(PROJECT["entry-points"]["pytest11"]) == ["agent-assay"]


def test_every_file_names_the_version_of_the_package() -> None:
    server = json.loads((ROOT / "deploy" / "server.json").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    versions = {server["version"], server["packages"][0]["version"], citation["version"]}
    assert versions == {PROJECT["version"]}


def test_the_readme_proves_whose_mcp_server_it_is() -> None:
    """The registry reads this marker from the published description."""
    server = json.loads((ROOT / "deploy" / "server.json").read_text(encoding="utf-8"))
    assert f"mcp-name: {server['name']} " in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(server["description"]) <= 100  # the registry refuses more


@pytest.mark.parametrize(
    "file", [".github/workflows/ci.yml", ".github/workflows/release.yml", "action.yml"]
)
def test_actions_are_pinned_by_commit(file: str) -> None:
    """A tag can be moved to other code, a commit cannot."""
    used = re.findall(r"uses: (\S+)", (ROOT / file).read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not re.search("@[0-9a-f]{40}$", action)] == []


def test_the_workflow_runs_all_versions() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    matrix = yaml.safe_load(workflow)["jobs"]["test"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    named = [each for each in PROJECT["classifiers"] if each.startswith(prefix)]
    assert {f"3.{each.removeprefix(prefix)}" for each in named} <= {*matrix}
