"""The lock files: complete, hashed and without the name of a registry; the SBOM made from them."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
IMAGE, DEV, UV = (ROOT / "locks" / f"{name}.lock" for name in ("image", "dev", "uv"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODEL_PACKAGE = "agent-assay-minilm"
"""In no lock: it is installed from its folder in this repository."""


def pins(lock: Path) -> dict[str, str]:
    """The lines that pin a version, by package; those for another platform as well."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    found = (re.match(r"([\w.-]+)(?:\[[^\]]*\])?==([^ ;\\]+)", line) for line in lines)
    return {canonicalize_name(each[1]): each[2] for each in found if each}


def requirements(extra: str) -> Iterator[Requirement]:
    """Those of an extra, with the extras of our own that it names."""
    for text in PROJECT["project"]["optional-dependencies"][extra]:
        each = Requirement(text)
        if each.name == PROJECT["project"]["name"]:
            for inner in each.extras:
                yield from requirements(inner)
        else:
            yield each


def core() -> list[Requirement]:
    return [Requirement(text) for text in PROJECT["project"]["dependencies"]]


def everything() -> list[Requirement]:
    groups = PROJECT["dependency-groups"]
    # PyTorch's build depends on the GPU of the machine: it has its own environment.
    names = set(PROJECT["project"]["optional-dependencies"]) - {"torch"}
    extras = [each for name in sorted(names) for each in requirements(name)]
    return [*core(), *extras, *(Requirement(text) for text in groups["dev"] + groups["build"])]


def unlocked(wanted: list[Requirement], lock: Path) -> list[str]:
    pinned = pins(lock)
    return [
        str(each)
        for each in wanted
        if each.name != MODEL_PACKAGE
        if pinned.get(canonicalize_name(each.name)) is None
        or not each.specifier.contains(pinned[canonicalize_name(each.name)], prereleases=True)
    ]


def test_every_dependency_is_locked() -> None:
    assert unlocked(everything(), DEV) == [], "run: make lock"
    assert unlocked([*core(), *requirements("all")], IMAGE) == [], "run: make lock"


def test_the_images_get_the_versions_that_are_tested() -> None:
    tested = pins(DEV)
    assert {name: at for name, at in pins(IMAGE).items() if tested.get(name) != at} == {}


@pytest.mark.parametrize("lock", [IMAGE, DEV, UV], ids=lambda lock: lock.name)
def test_a_lock_has_hashes_and_names_no_host(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert not re.search(r"https?://|\w\.(org|com|io|net)\b|--index|--extra-index", text)
    entries = re.split(r"\n(?=\S)", text.strip())
    assert [each.split()[0] for each in entries if "--hash=sha256:" not in each] == []


def test_ci_and_images_install_from_the_locks() -> None:
    setup = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    assert "--require-hashes --requirement locks/dev.lock" in setup
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert all("./packages/agent-assay-minilm" in text for text in (setup, image))
    for lock in ("locks/uv.lock", "locks/image.lock", "/app/locks/ray.lock"):
        assert f"--require-hashes --requirement {lock}" in image


def test_the_sbom_lists_what_is_locked(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "sbom.py"
    subprocess.run([sys.executable, script, "--out", tmp_path], check=True, capture_output=True)
    document: dict[str, Any] = json.loads((tmp_path / "sbom.cdx.json").read_bytes())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    listed = {each["name"]: each for each in document["components"]}
    versions = {name: each["version"] for name, each in listed.items()}
    assert versions == {**pins(IMAGE), MODEL_PACKAGE: "1.0.0"}
    assert all(each["hashes"] for each in listed.values())
    assert listed["httpx"]["licenses"] == [{"license": {"name": "BSD-3-Clause"}}]
    assert "| httpx | 0.28.1 | BSD-3-Clause |" in (tmp_path / "licenses.md").read_text("utf-8")
