"""A package that adds a kind of data set by an entry point."""

import os
import subprocess
import sys
from pathlib import Path

PLUGIN = """
from assay import Dataset

def load(name):
    if name == "wrong":
        return {}
    return Dataset.from_dicts({"q1": "How long?"}, {"q1": ["tea"]}, {"tea": name}, name=name)
"""


def check(name: str, packages: Path) -> subprocess.CompletedProcess[str]:
    """`assay data check NAME` in a process that finds the package."""
    command = [sys.executable, "-m", "assay", "data", "check", name]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_prefix_of_another_package_is_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "wiki_data.py").write_text(PLUGIN)
    about = tmp_path / "wiki_data-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wiki-data\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[assay.datasets]\nwiki = wiki_data:load\n")
    result = check("wiki:recipes", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "1 queries, 1 judgments and 1 documents" in result.stdout
    wrong = check("wiki:wrong", tmp_path)
    assert wrong.returncode == 2
    assert "must return a Dataset, got dict" in wrong.stderr
