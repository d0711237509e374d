import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.search.tuning import worlds

from assay.errors import SearchError
from assay.search.tuning import model
from assay.search.tuning.features import TuningData, fingerprint_of, read_collection
from assay.search.tuning.fit import fit
from assay.search.tuning.model import MAGIC, TunedRanker, _checksum, load_model, save_model


@pytest.fixture
def saved(ranker: TunedRanker, tmp_path: Path) -> Path:
    path = tmp_path / "models" / "tuned.assay"
    save_model(ranker, path)
    return path


def test_a_loaded_model_ranks_as_the_saved_one(
    saved: Path, ranker: TunedRanker, data: TuningData
) -> None:
    loaded = load_model(saved, data.fingerprint)
    for query in data.judged("dev")[:5]:
        question = data.query_texts[query], data.query_vectors[query], 50
        assert loaded.rank(*question) == ranker.rank(*question)
    assert (loaded.about, loaded.held_out) == (ranker.about, ranker.held_out)
    assert loaded.gate == ranker.gate


def test_a_model_with_more_metrics_of_an_older_version_is_loaded(
    saved: Path, ranker: TunedRanker
) -> None:
    header, payload = saved.read_bytes()[len(MAGIC) :].split(b"\n", 1)
    older = json.loads(header)
    for gain in (older["held_out"][name] for name in ("all", "unfamiliar", "dev")):
        for name in ("hybrid", "tuned"):
            gain[name] = {"ndcg_5": 0.5, "ndcg_10": gain[name], "recall_100": 0.5}
    older["sha256"] = _checksum(older, payload)
    saved.write_bytes(MAGIC + json.dumps(older).encode() + b"\n" + payload)
    assert load_model(saved).held_out == ranker.held_out


def test_queries_are_read_in_the_language_of_the_documents(
    ranker: TunedRanker, data: TuningData, tmp_path: Path
) -> None:
    """Also after the model was saved: Haus and Häuser are one stem in German alone."""
    words = ("Haus", "Häuser")
    german = replace(data, texts=[words[0], *data.texts[1:]], language="german")
    for texts, same in ((german, True), (replace(german, language="english"), False)):
        encoder, _, _ = read_collection(texts)
        save_model(replace(ranker, encoder=encoder), tmp_path / texts.language)
        loaded = load_model(tmp_path / texts.language).encoder
        assert (loaded.language, loaded.stop_words) == (texts.language, "default")
        found = loaded.encode(words, data.query_vectors[:2]).stems
        assert (found[0] != found[1]).nnz == (0 if same else 1)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    data = worlds.learnable(train=30, dev=12)
    for name in ("one", "two"):
        save_model(fit(data, worlds.by_vectors(data), seed=3), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_model_that_could_not_be_read_again_is_not_written(
    ranker: TunedRanker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = tuple(f"{number}{'x' * 300}" for number in range(100))
    long = replace(ranker, judged=judged)
    save_model(long, tmp_path / "model")
    header = (tmp_path / "model").read_bytes()[len(MAGIC) :].partition(b"\n")[0]
    monkeypatch.setattr(model, "MAX_HEADER", len(header) + 1)
    save_model(long, tmp_path / "model")
    assert load_model(tmp_path / "model").judged == judged
    monkeypatch.setattr(model, "MAX_HEADER", len(header))
    with pytest.raises(SearchError, match=r"ids of its 100 judged queries need .* shorter ids"):
        save_model(long, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match=r"no tuned model at .*run `assay tune`"):
        load_model(tmp_path / "absent")


def test_a_model_of_other_documents_is_refused(saved: Path) -> None:
    other = fingerprint_of(["d"], ["title"], ["text"])
    with pytest.raises(SearchError, match=r"other documents.*run `assay tune` again"):
        load_model(saved, other)


def _of_another_version(content: bytes) -> bytes:
    header, payload = content[len(MAGIC) :].split(b"\n", 1)
    other = {key: one for key, one in json.loads(header).items() if key != "gate"}
    other["sha256"] = _checksum(other, payload)
    return MAGIC + json.dumps(other).encode() + b"\n" + payload


def _packed(content: bytes) -> bytes:
    header, _ = content[len(MAGIC) :].split(b"\n", 1)
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.zeros(10**6))
    own = json.loads(header)
    own["sha256"] = _checksum(own, stream.getvalue())
    return MAGIC + json.dumps(own).encode() + b"\n" + stream.getvalue()


def test_a_packed_model_is_not_unpacked(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved.write_bytes(_packed(saved.read_bytes()))
    monkeypatch.setattr(
        "numpy.lib.npyio.NpzFile.__getitem__", lambda *_: pytest.fail("it was unpacked")
    )
    with pytest.raises(SearchError, match="another version"):
        load_model(saved)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda content: MAGIC + b"[" * 100_000 + b"\n", "header cannot be read"),
        (lambda content: b"", "not a tuned model"),
        (lambda content: b"PK\x03\x04 something else", "not a tuned model"),
        (lambda content: MAGIC, "header cannot be read"),
        (lambda content: MAGIC + b"[]\n", "header cannot be read"),
        (lambda content: MAGIC + b"{}\n" + content, "checksum"),
        (lambda content: content[:-100], "checksum"),
        (lambda content: content[:-50] + bytes([content[-50] ^ 1]) + content[-49:], "checksum"),
        (lambda content: content.replace(b'"trusted_from"', b'"trusted_form"', 1), "checksum"),
        (_of_another_version, "another version"),
    ],
)
def test_a_damaged_file_says_to_tune_again(saved: Path, damage: object, why: str) -> None:
    assert callable(damage)
    saved.write_bytes(damage(saved.read_bytes()))
    with pytest.raises(SearchError, match=f"{why}.*run `assay tune` again"):
        load_model(saved)


def test_a_place_that_cannot_be_written_is_named(ranker: TunedRanker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(SearchError, match="could not be written"):
        save_model(ranker, tmp_path / "file" / "tuned.assay")
