"""The built-in model itself, and folders with other models."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from assay.errors import SearchError, UsageError
from assay.search import onnx_embedding
from assay.search.embedding import EmbedderSettings, TokenCounter, open_embedder
from assay.search.onnx_embedding import (
    MODEL_HASHES,
    MODEL_PACKAGE,
    OnnxEmbedder,
    open_builtin,
    open_folder,
    pooled,
)
from assay.text import strip_controls

PACKAGE = Path(str(files(MODEL_PACKAGE)))
TOKENIZER = Tokenizer.from_file(str(PACKAGE / "tokenizer.json"))
TOKENIZER.no_truncation()
TOKENIZER.no_padding()
COUNTER = TokenCounter(TOKENIZER)


@pytest.fixture(scope="module")
def builtin() -> OnnxEmbedder:
    return open_builtin()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in MODEL_HASHES:
        shutil.copy(PACKAGE / name, tmp_path)
    return tmp_path


def cast_model(name: str, kind: int = TensorProto.INT64) -> bytes:
    """Its input comes out as floats."""
    shape = ["batch", "sequence"]
    graph = helper.make_graph(
        [helper.make_node("Cast", [name], ["output"], to=TensorProto.FLOAT)],
        "tiny",
        [helper.make_tensor_value_info(name, kind, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("name", MODEL_HASHES)
def test_another_file_of_the_model_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(onnx_embedding.MODEL_HASHES, name, "0" * 64)
    with pytest.raises(SearchError, match=f"{name}: SHA-256"):
        open_builtin().embed(["tea"])


def test_a_model_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_embedding, "MODEL_PACKAGE", "no_such_module")
    with pytest.raises(SearchError, match="agent-assay-minilm"):
        open_builtin()


@pytest.mark.parametrize(
    ("flags", "exact"), [("flags : avx2 avx512_vnni", False), ("flags : avx2", True), ("", True)]
)
def test_products_that_may_overflow_are_computed_exactly(
    flags: str, exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"model : x\n{flags}\n")
    monkeypatch.setattr(onnx_embedding, "_CPU_FLAGS", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert bool(onnx_embedding._session_settings()) is exact
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert not onnx_embedding._session_settings()


def test_vectors_have_length_1(builtin: OnnxEmbedder) -> None:
    vectors = builtin.embed(["tea", "coffee " * 500, "", "\ud800 \x00", "чай 茶"])
    assert vectors.shape == (5, builtin.dimension) == (5, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-5)


def test_tokens_are_counted_beyond_the_limit(builtin: OnnxEmbedder) -> None:
    assert builtin.count_tokens(["tea", "tea " * 1000, ""]) == [1, 1000, 0]


CHARACTERS = st.sampled_from("abc .,'-  \x85\x0b\x1c\u2028\u00a0\u3000\u0301\ufeff[MASK]##ing日é")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(CHARACTERS | st.characters(exclude_categories=["Cs"]), max_size=80))
def test_words_that_are_looked_up_have_the_tokenizers_counts(text: str) -> None:
    whole = len(TOKENIZER.encode(strip_controls(text), add_special_tokens=False).ids)
    assert COUNTER([text]) == COUNTER([text]) == [whole]


def test_pooling_and_prompts_come_from_the_folder(folder: Path, builtin: OnnxEmbedder) -> None:
    mean = open_folder(folder)
    assert np.array_equal(mean.embed(["green tea"]), builtin.embed(["green tea"]))
    assert (mean.prompts.query, mean.prompts.document) == ("", "")
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    first = open_folder(folder)
    assert (first.prompts.query, first.prompts.document) == ("query: ", "passage: ")
    assert first.name != mean.name
    assert not np.allclose(first.embed(["green tea"]), mean.embed(["green tea"]))
    tokens = np.array([[[3.0, 4.0], [1.0, 0.0]]])
    assert pooled(tokens, "cls").tolist() == [pytest.approx([0.6, 0.8])]


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("1_Pooling/config.json", b'{"pooling_mode_max_tokens": true}', "only mean and cls"),
        ("config_sentence_transformers.json", b"{", "is not a JSON object"),
        ("model.onnx", cast_model("pixel_values"), "pixel_values"),
        ("model.onnx", cast_model("input_ids", TensorProto.INT32), "int32"),
        ("model.onnx", b"\x00not what it was", "cannot be loaded"),
        ("tokenizer.json", b"\x00not what it was", "has no tokenizer"),
        ("model.onnx", None, "has no model.onnx"),
    ],
)
def test_a_wrong_folder_is_told(folder: Path, file: str, content: bytes | None, told: str) -> None:
    (folder / file).parent.mkdir(exist_ok=True)
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises((UsageError, SearchError), match=told):
        open_embedder(EmbedderSettings(f"onnx:{folder}"))
