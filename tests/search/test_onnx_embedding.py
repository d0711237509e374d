"""The built-in model itself, and folders with other models."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tests.search.tiny_onnx import cast_model

from assay.errors import SearchError, UsageError
from assay.search import onnx_embedding
from assay.search.embedding import EmbedderSettings, open_embedder
from assay.search.model_files import MODEL, TOKENIZER, read_model_file
from assay.search.onnx_embedding import (
    MAX_TOKENS,
    TOKENS_IN_A_BATCH,
    OnnxEmbedder,
    batches_by_length,
    open_builtin,
    open_folder,
)


@pytest.fixture(scope="module")
def builtin() -> OnnxEmbedder:
    return open_builtin()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model, tokenizer = map(read_model_file, (MODEL, TOKENIZER))
    (tmp_path / "model.onnx").write_bytes(model)
    (tmp_path / "tokenizer.json").write_bytes(tokenizer)
    return tmp_path


def test_a_kept_model_is_opened_while_the_caller_goes_on(
    builtin: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone_on = threading.Event()
    real = onnx_embedding._builtin_session

    def opened_later(graph: str) -> onnxruntime.InferenceSession:
        assert gone_on.wait(20)
        return real(graph)

    monkeypatch.setattr(onnx_embedding, "_builtin_session", opened_later)
    monkeypatch.setattr(onnx_embedding, "is_model_cached", lambda _: True)
    embedder = open_builtin()
    assert embedder.name == builtin.name
    gone_on.set()
    assert np.array_equal(embedder.embed(["tea"]), builtin.embed(["tea"]))
    assert embedder.dimension == 384


def test_a_model_that_is_nowhere_is_told_when_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(graph: str) -> onnxruntime.InferenceSession:
        raise SearchError("the built-in model needs model.onnx")

    monkeypatch.setattr(onnx_embedding, "_builtin_session", missing)
    monkeypatch.setattr(onnx_embedding, "is_model_cached", lambda _: False)
    with pytest.raises(SearchError, match=r"needs model\.onnx"):
        open_builtin()


def test_texts_of_like_meaning_have_near_vectors(builtin: OnnxEmbedder) -> None:
    heart, cardiac, tax = builtin.embed(
        ["heart attack risk", "danger of cardiac infarction", "income tax law"]
    )
    assert heart @ cardiac > 0.6
    assert heart @ tax < 0.2


def test_vectors_have_length_1(builtin: OnnxEmbedder) -> None:
    vectors = builtin.embed(["tea", "coffee " * 500, "", "\ud800 \x00", "чай 茶"])
    assert vectors.shape == (5, builtin.dimension) == (5, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-5)


def test_a_vector_does_not_depend_on_the_texts_beside_it(builtin: OnnxEmbedder) -> None:
    texts = ["tea", "green tea is steeped in hot water", "long " * 200, "coffee"]
    together = builtin.embed(texts)
    alone = np.concatenate([builtin.embed([text]) for text in texts])
    assert together == pytest.approx(alone, abs=1e-4)


def test_several_threads_get_what_one_gets(builtin: OnnxEmbedder) -> None:
    texts = [f"query number {i} about tea" for i in range(24)]
    alone = [builtin.embed([text])[0] for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: builtin.embed([text])[0], texts))
    assert np.array_equal(alone, together)


def test_what_stands_behind_the_limit_changes_nothing(builtin: OnnxEmbedder) -> None:
    start = "tea " * MAX_TOKENS
    one, other = builtin.embed([f"{start} coffee", f"{start} taxes and law"])
    assert np.array_equal(one, other)


def test_tokens_are_counted_beyond_the_limit(builtin: OnnxEmbedder) -> None:
    assert builtin.count_tokens(["tea", "tea " * 1000, ""]) == [1, 1000, 0]


def test_no_texts_are_no_vectors(builtin: OnnxEmbedder) -> None:
    assert builtin.embed([]).shape == (0, 384)


def test_progress_reaches_the_end(builtin: OnnxEmbedder) -> None:
    told: list[tuple[int, int | None]] = []
    builtin.embed(["tea"] * 30, lambda _what, done, total: told.append((done, total)))
    assert told[-1] == (30, 30)


def test_batches_hold_rows_of_equal_length_and_few_tokens() -> None:
    lengths = [256, 3, 250, 7, 4, 256, 100] * 20
    batches = list(batches_by_length(lengths))
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        (length,) = {lengths[row] for row in batch}
        assert len(batch) == 1 or len(batch) * length <= TOKENS_IN_A_BATCH
    assert lengths[batches[-1][-1]] == 3


def test_the_8_bit_graph_gives_nearly_the_vectors_of_the_file_that_it_is_made_from(
    builtin: OnnxEmbedder, folder: Path
) -> None:
    texts = ["tea", "do statins cause breast cancer?", "Coffee is brewed from roasted beans. " * 30]
    own = open_folder(folder)
    cosines = (own.embed(texts) * builtin.embed(texts)).sum(1)
    assert cosines.min() > 0.996
    assert "8199be6f699a" in own.name
    assert own.name != builtin.name


def test_the_name_tells_models_apart(folder: Path) -> None:
    name = open_folder(folder).name
    (folder / "model.onnx").write_bytes(cast_model(("input_ids", "attention_mask")))
    assert open_folder(folder).name != name


@pytest.mark.parametrize(
    "inputs", [("input_ids",), ("input_ids", "attention_mask"), ("input_ids", "token_type_ids")]
)
def test_a_model_may_want_fewer_inputs_and_pool_by_itself(
    folder: Path, inputs: tuple[str, ...]
) -> None:
    (folder / "model.onnx").write_bytes(cast_model(inputs))
    vector = open_folder(folder).embed(["dimension"])[0]
    assert np.linalg.norm(vector) == pytest.approx(1)


def test_a_model_that_wants_something_else_is_refused(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(cast_model(("pixel_values",)))
    with pytest.raises(SearchError, match="pixel_values"):
        open_folder(folder)
    (folder / "model.onnx").write_bytes(cast_model(("input_ids",), kind=6))
    with pytest.raises(SearchError, match="int32"):
        open_folder(folder)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(UsageError, match=f"has no {name}"):
        open_embedder(EmbedderSettings(f"onnx:{folder}"))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\x00not what it was")
    with pytest.raises(SearchError, match=r"cannot be loaded|is not a tokenizer"):
        open_embedder(EmbedderSettings(f"onnx:{folder}"))


@pytest.mark.parametrize("value", ["0", "many"])
def test_threads_must_be_a_number(
    monkeypatch: pytest.MonkeyPatch, folder: Path, value: str
) -> None:
    monkeypatch.setenv("ASSAY_THREADS", value)
    with pytest.raises(UsageError, match="ASSAY_THREADS"):
        open_folder(folder)
