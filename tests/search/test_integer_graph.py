"""The graph of the built-in model is built once; the processor decides how it is computed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from assay.search import integer_graph, onnx_embedding
from assay.search.onnx_embedding import open_builtin, session_settings

OPENING = """
import sys
from assay.search.onnx_embedding import open_builtin
open_builtin().embed(["tea"])
print("onnx" in sys.modules)
"""


def opened_with_onnx() -> bool:
    done = subprocess.run(
        [sys.executable, "-c", OPENING], capture_output=True, text=True, check=True
    )
    return done.stdout.strip() == "True"


def test_the_graph_is_built_once_and_onnx_imported_only_for_that(surroundings: Path) -> None:
    assert opened_with_onnx()
    kept = sorted(path.name for path in (surroundings / "models").iterdir())
    made = [name.split("-")[0] for name in kept if name.startswith(("integer", "probe"))]
    assert made == ["integer", "integer", "probe", "probe"]
    assert not opened_with_onnx()


@pytest.mark.parametrize("damage", [b"", b"\x00" * 100, None])
def test_a_damaged_graph_is_built_again(
    surroundings: Path, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_builtin().embed(["tea"])
    (path,) = (surroundings / "models").glob("integer-*.onnx")
    content = path.read_bytes()
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert np.array_equal(open_builtin().embed(["tea"]), whole)
    assert path.read_bytes() == content
    monkeypatch.setattr(integer_graph, "integer_graph", lambda _model: pytest.fail("built again"))
    open_builtin()


def test_another_way_to_build_it_makes_another_file(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_settings()
    monkeypatch.setattr(onnx_embedding, "_builder_version", lambda: "other")
    session_settings()
    assert len(list((surroundings / "models").glob("probe-*.onnx"))) == 2


def test_a_cache_that_cannot_be_written_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file" / "cache"))
    assert open_builtin().dimension == 384


class Saturating:
    """As processors without VNNI add: two products at a time, in 16 bits."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def run(self, _names: object, feed: dict[str, Any]) -> list[Any]:
        pairs = feed["values"].shape[1] // 2
        return [np.full((1, 16), pairs * 32767, np.int32)]


def test_the_exact_way_is_taken_where_products_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", Saturating)
    assert session_settings() == {"session.x64quantprecision": "1"}
