"""Embedders of sentence-transformers, with the real library in an environment of its own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.once import once

TORCH = os.environ.get("ASSAY_TORCH_PYTHON")
CHECKS = Path(__file__).with_name("torch_checks.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        TORCH is None, reason="set ASSAY_TORCH_PYTHON to an interpreter with the extra [torch]"
    ),
    pytest.mark.timeout(600),  # a busy machine; importing PyTorch alone takes seconds
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the checks print; PyTorch is imported once for all of them, in all workers."""
    printed: dict[str, Any] = once(tmp_path_factory, "torch", lambda: checked(tmp_path_factory))
    return printed


def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    assert TORCH is not None
    home = tmp_path_factory.mktemp("torch")
    source = Path(__file__).resolve().parents[2] / "src"
    ended = subprocess.run(
        [TORCH, str(CHECKS), str(home)],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(source)},
    )
    assert ended.returncode == 0, ended.stderr
    printed: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return printed


def test_vectors_name_limit_and_prompts_are_those_of_the_library(seen: dict[str, Any]) -> None:
    assert seen["cosine"] > 0.9999
    assert seen["none"] == [0, 32]
    assert seen["name"].startswith("st:tiny model@")
    assert seen["name"].endswith("tokens=64")
    assert seen["max_tokens"] == 64
    assert seen["prompts"] == ["query: ", "passage: "]
    assert "cannot be loaded" in seen["no_model"]
