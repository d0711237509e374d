import hashlib
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.search.tuning import worlds

from assay.errors import SearchError
from assay.search.tuning.features import TuningData
from assay.search.tuning.model import MAGIC, TunedRanker, load_model, save_model
from assay.search.tuning.tune import fit


def ask(ranker: TunedRanker, data: TuningData, top_k: int) -> dict[int, float]:
    query = data.judged("dev")[0]
    return ranker.rank(data.queries[query].text, data.query_vectors[query], top_k)[0]


@pytest.mark.parametrize(("top_k", "number"), [(1, 1), (100, 100), (240, 240), (10_000, 240)])
def test_documents_come_best_first_as_many_as_asked_for(
    ranker: TunedRanker, data: TuningData, top_k: int, number: int
) -> None:
    found = ask(ranker, data, top_k)
    assert len(found) == number
    scores = list(found.values())
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("text", ["", "   ", "the of and", "未知の質問", "word " * 30_000])
def test_any_text_can_be_asked(ranker: TunedRanker, data: TuningData, text: str) -> None:
    vector = np.zeros(data.query_vectors.shape[1], np.float32)
    assert len(ranker.rank(text, vector, 10)[0]) == 10


def test_a_tuned_model_is_opened_without_what_learned_it() -> None:
    code = "import sys, assay.search.tuning.tune; print('lightgbm' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.fixture
def saved(ranker: TunedRanker, tmp_path: Path) -> Path:
    path = tmp_path / "models" / "tuned.assay"
    save_model(ranker, path)
    return path


def test_a_loaded_model_ranks_alike(saved: Path, ranker: TunedRanker, data: TuningData) -> None:
    loaded = load_model(saved)
    for query in data.judged("dev")[:5]:
        question = data.queries[query].text, data.query_vectors[query], 50
        assert loaded.rank(*question) == ranker.rank(*question)
    assert (loaded.held_out, loaded.gate) == (ranker.held_out, ranker.gate)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    data = worlds.learnable(train=30, dev=12)
    for name in ("one", "two"):
        save_model(fit(data, worlds.by_vectors(data), seed=3), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def _sealed(payload: bytes) -> bytes:
    return MAGIC + hashlib.sha256(payload).digest() + payload


def _of_another_version(content: bytes) -> bytes:
    with np.load(io.BytesIO(content[len(MAGIC) + 32 :])) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "gate.weights"}
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return _sealed(stream.getvalue())


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: _sealed(b"[]"),
        lambda content: content[:-100],
        lambda content: content[:-50] + bytes([content[-50] ^ 1]) + content[-49:],
        _of_another_version,
    ],
)
def test_a_damaged_file_says_to_tune_again(saved: Path, damage: object) -> None:
    assert callable(damage)
    saved.write_bytes(damage(saved.read_bytes()))
    with pytest.raises(SearchError, match="run `assay tune` again"):
        load_model(saved)
