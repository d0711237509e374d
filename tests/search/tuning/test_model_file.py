import hashlib
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.search.tuning import worlds

from assay.errors import SearchError
from assay.search.tuning.features import TuningData, read_collection
from assay.search.tuning.fit import fit
from assay.search.tuning.model import MAGIC, TunedRanker, load_model, save_model


@pytest.fixture
def saved(ranker: TunedRanker, tmp_path: Path) -> Path:
    path = tmp_path / "models" / "tuned.assay"
    save_model(ranker, path)
    return path


def test_a_loaded_model_ranks_as_the_saved_one(
    saved: Path, ranker: TunedRanker, data: TuningData
) -> None:
    loaded = load_model(saved)
    for query in data.judged("dev")[:5]:
        question = data.query_texts[query], data.query_vectors[query], 50
        assert loaded.rank(*question) == ranker.rank(*question)
    assert (loaded.about, loaded.held_out) == (ranker.about, ranker.held_out)
    assert loaded.gate == ranker.gate


def test_queries_are_read_in_the_language_of_the_documents(
    ranker: TunedRanker, data: TuningData, tmp_path: Path
) -> None:
    """Also after the model was saved: Haus and Häuser are one stem in German alone."""
    words = ("Haus", "Häuser")
    german = replace(data, texts=[words[0], *data.texts[1:]], language="german")
    for texts, same in ((german, True), (replace(german, language="english"), False)):
        encoder, *_ = read_collection(texts)
        save_model(replace(ranker, encoder=encoder), tmp_path / texts.language)
        loaded = load_model(tmp_path / texts.language).encoder
        assert loaded.language == texts.language
        found = loaded.encode(words, data.query_vectors[:2]).stems
        assert (found[0] != found[1]).nnz == (0 if same else 1)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    data = worlds.learnable(train=30, dev=12)
    for name in ("one", "two"):
        save_model(fit(data, worlds.by_vectors(data), seed=3), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"absent could not be read: .*No such file"):
        load_model(tmp_path / "absent")


def _sealed(payload: bytes) -> bytes:
    return MAGIC + hashlib.sha256(payload).digest() + payload


def _of_another_version(content: bytes) -> bytes:
    with np.load(io.BytesIO(content[len(MAGIC) + 32 :])) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "gate"}
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return _sealed(stream.getvalue())


def test_a_packed_model_is_not_unpacked(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.zeros(10**6))
    saved.write_bytes(_sealed(stream.getvalue()))
    monkeypatch.setattr(
        "numpy.lib.npyio.NpzFile.__getitem__", lambda *_: pytest.fail("it was unpacked")
    )
    with pytest.raises(SearchError, match="another version"):
        load_model(saved)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda content: b"", "not a tuned model"),
        (lambda content: b"PK\x03\x04 something else", "not a tuned model"),
        (lambda content: MAGIC, "checksum"),
        (lambda content: _sealed(b"[]"), "another version"),
        (lambda content: content[:-100], "checksum"),
        (lambda content: content[:-50] + bytes([content[-50] ^ 1]) + content[-49:], "checksum"),
        (_of_another_version, "another version"),
    ],
)
def test_a_damaged_file_says_to_tune_again(saved: Path, damage: object, why: str) -> None:
    assert callable(damage)
    saved.write_bytes(damage(saved.read_bytes()))
    with pytest.raises(SearchError, match=f"{why}.*run `assay tune` again"):
        load_model(saved)
