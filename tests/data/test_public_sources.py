"""`beir:`, `hf:` and `ir_datasets:` from a local server that behaves well and badly."""

import gzip
import hashlib
import io
import os
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ir_datasets
import pytest
from tests.data.conftest import lines, parquet, sound
from tests.data.file_server import FileServer, publish

from assay.data import load_dataset, public_sources
from assay.data.public_sources import offline
from assay.errors import DataError, DownloadError, UsageError

OFFICIAL = os.environ.get("NFCORPUS_ARCHIVE")  # read before the fixtures take it away
needs_archive = pytest.mark.skipif(not OFFICIAL, reason="NFCORPUS_ARCHIVE is not set")

CORPUS, QUERIES, QRELS = sound().values()
TSV = b"query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n"
GRADES = {"q1": {"d1": 2}, "q2": {"d2": 1}}


PLAIN = {
    "corpus.jsonl": lines(CORPUS),
    "queries.jsonl": lines(QUERIES),
    "qrels/test.jsonl": lines(QRELS),
}
LAYOUTS = {
    "MTEB, JSON lines": PLAIN,
    "BEIR, JSON lines compressed": {
        "README.md": b"---\nlicense: mit\n---",
        "corpus.jsonl.gz": gzip.compress(lines(CORPUS)),
        "queries.jsonl.gz": gzip.compress(lines(QUERIES)),
        "qrels/test.tsv": TSV,
    },
    "MTEB, Parquet by configuration": {
        "corpus/corpus-00000-of-00002.parquet": parquet(CORPUS[:1]),
        "corpus/corpus-00001-of-00002.parquet": parquet(CORPUS[1:]),
        "queries/queries-00000-of-00001.parquet": parquet(QUERIES),
        "data/test-00000-of-00001-6c20deed08d304e4.parquet": parquet(QRELS),
    },
    "MTEB, default and qrels folders": {
        "corpus/test-00000-of-00001.parquet": parquet(CORPUS),
        "queries/test-00000-of-00001.parquet": parquet(QUERIES),
        "qrels/test-00000-of-00002.parquet": parquet(QRELS),
        "qrels/test-00001-of-00002.parquet": parquet(QRELS[1:]),
    },
    "one file each": {
        "corpus.parquet": parquet(CORPUS),
        "query.parquet": parquet(QUERIES),
        "qrels.parquet": parquet(QRELS),
    },
}


def archive(*folders: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for folder in folders:
            packed.writestr(f"{folder}/corpus.jsonl", PLAIN["corpus.jsonl"])
            packed.writestr(f"{folder}/queries.jsonl", PLAIN["queries.jsonl"])
            packed.writestr(f"{folder}/qrels/test.tsv", TSV)
    return buffer.getvalue()


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server of BEIR's archives, of which NFCorpus is a small one."""
    with FileServer().running() as server:
        monkeypatch.setenv("ASSAY_BEIR_URL", f"{server.url}/sets/")
        monkeypatch.setattr("assay.net.download._ATTEMPTS", 1)
        sets = {"scifact": ["scifact"], "nfcorpus": ["nfcorpus"]}
        sets["cqadupstack"] = ["cqadupstack/android", "cqadupstack/english"]
        for name, folders in sets.items():
            server.files[f"/sets/{name}.zip"] = body = archive(*folders)
            kind = hashlib.sha256 if name == "nfcorpus" else hashlib.md5
            monkeypatch.setitem(public_sources.BEIR_HASHES, name, kind(body).hexdigest())
        yield server


@pytest.mark.parametrize(
    "name", ["beir:scifact", "nfcorpus", "beir:nfcorpus", "beir:cqadupstack/android"]
)
def test_an_archive_is_downloaded_once(mirror: FileServer, name: str) -> None:
    with offline(), pytest.raises(DownloadError, match="is not on this machine"):
        load_dataset(name)
    told: list[tuple[str, int, int | None]] = []
    for _ in range(2):
        dataset = load_dataset(name, progress=lambda *step: told.append(step))
    assert (dataset.name, dataset.judgments, dataset.warnings) == (name, {"test": GRADES}, ())
    assert len(mirror.seen) == 1
    assert told[-1][1] == told[-1][2] == len(mirror.files[mirror.seen[0]])
    with offline():
        assert load_dataset(name).judgments


def test_a_download_that_breaks_off_names_the_ways_out(mirror: FileServer) -> None:
    mirror.cut = (10, 1)
    with pytest.raises(DownloadError, match=r"cut off.*ASSAY_BEIR_URL.*NFCORPUS_ARCHIVE=FILE"):
        load_dataset("nfcorpus")
    assert load_dataset("nfcorpus").judgments


def test_a_wrong_nfcorpus_is_never_used(mirror: FileServer) -> None:
    mirror.files["/sets/nfcorpus.zip"] = b"<html>please log in</html>"
    for _ in range(2):
        with pytest.raises(DataError, match=r"has sha256 .*; delete it"):
            load_dataset("nfcorpus")


def test_an_archive_that_is_given_is_used_or_refused_and_never_replaced(
    mirror: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given.zip"
    given.write_bytes(mirror.files["/sets/nfcorpus.zip"])
    monkeypatch.setenv("NFCORPUS_ARCHIVE", str(given))
    assert load_dataset("nfcorpus").judgments["test"] == GRADES
    given.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"has sha256 \w+, published is \w+; .* --dataset"):
        load_dataset("nfcorpus")
    monkeypatch.setenv("NFCORPUS_ARCHIVE", str(tmp_path / "nowhere.zip"))
    with pytest.raises(DataError, match=r"nowhere\.zip: no such file"):
        load_dataset("nfcorpus")
    assert mirror.seen == []


@needs_archive
@pytest.mark.parametrize(
    ("seed", "numbers"),
    [
        (42, [634, 133, 1557, 1398, 1275, 782, 583, 3014, 499, 3271]),
        (777, [1309, 2500, 2071, 3191, 1537]),
    ],
)
def test_the_order_of_queries_gives_the_reference_draws(
    seed: int, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NFCORPUS_ARCHIVE", str(OFFICIAL))
    valid = load_dataset("nfcorpus").queries_in("test")
    drawn = random.Random(seed).sample(valid, len(numbers))
    assert [query.id for query in drawn] == [f"PLAIN-{number}" for number in numbers]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    with FileServer().running() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr("assay.net.download._ATTEMPTS", 1)
        yield server


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("place", ["hub", "folder"])
def test_each_layout_is_read(
    hub: FileServer, tmp_path: Path, files: dict[str, bytes], place: str
) -> None:
    publish(hub, "tea/house", files)
    for name, content in files.items():
        (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "clone" / name).write_bytes(content)
    dataset = load_dataset("hf:tea/house" if place == "hub" else tmp_path / "clone")
    assert dataset.name == ("hf:tea/house" if place == "hub" else "clone")
    assert {doc.id: doc.title for doc in dataset.documents.values()} == {"d1": "Tea", "d2": ""}
    assert [query.text for query in dataset.queries_in("test")] == ["tea?", "coffee?"]
    assert (dataset.judgments, dataset.warnings) == ({"test": GRADES}, ())


def test_judgments_may_be_in_a_repository_of_their_own(hub: FileServer) -> None:
    data = {"data/corpus-00000-of-00001.parquet": parquet(CORPUS)}
    publish(hub, "c/tea", data | {"data/queries-00000-of-00001.parquet": parquet(QUERIES)})
    publish(hub, "c/tea-qrels", {"data/dev-00000-of-00001.parquet": parquet(QRELS)}, "b" * 40)
    assert load_dataset("hf:c/tea").judgments == {"dev": GRADES}


def test_a_commit_is_kept_until_another_revision_is_named(hub: FileServer) -> None:
    publish(hub, "tea/house", PLAIN)
    load_dataset("hf:tea/house")
    asked = len(hub.seen)
    publish(hub, "tea/house", {**PLAIN, "qrels/test.jsonl": lines(QRELS[:1])}, "c" * 40)
    assert load_dataset("hf:tea/house").judgments["test"] == GRADES
    assert len(hub.seen) == asked
    assert load_dataset(f"hf:tea/house@{'c' * 40}").judgments["test"] == {"q1": {"d1": 2}}


def test_a_gated_set_asks_for_the_token(hub: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(hub, "tea/house", PLAIN)
    hub.statuses[f"/datasets/tea/house/resolve/{'a' * 40}/corpus.jsonl"] = 403
    monkeypatch.setenv("HF_TOKEN", "hf_hidden")
    with pytest.raises(DownloadError, match="accept its terms on the hub and set HF_TOKEN") as e:
        load_dataset("hf:tea/house")
    assert "hf_hidden" not in str(e.value)
    assert set(hub.tokens) == {"Bearer hf_hidden"}


@pytest.mark.parametrize(
    "name", ["corpus/../../../evil.jsonl", "/corpus/x.jsonl", "corpus/a\\b.csv"]
)
def test_a_hub_writes_nowhere_else(hub: FileServer, name: str, tmp_path: Path) -> None:
    for wrong in ("hf:alone", "hf:a/b/c", "hf:a/..", "hf:a/b@../x", "hf:a b/c"):
        with pytest.raises(UsageError, match="write hf:ORG/NAME"):
            load_dataset(wrong)
    publish(hub, "e/vil", {name: lines(CORPUS), "queries.jsonl": lines(QUERIES)})
    with pytest.raises(DataError, match="a path outside of the data set"):
        load_dataset("hf:e/vil")
    assert not list(tmp_path.rglob("evil*"))


@pytest.fixture
def library(tmp_path: Path) -> Iterator[str]:
    """A data set that the library ir_datasets reads from files of the test."""
    (tmp_path / "docs.tsv").write_text("d1\tGreen tea is steeped.\nd2\tCoffee is brewed.\n")
    (tmp_path / "queries.tsv").write_text("q1\thow is tea made\nq2\tnever judged\n")
    (tmp_path / "qrels").write_text("q1 0 d1 2\nq1 0 d2 0\n")
    docs = {"docs_tsv": str(tmp_path / "docs.tsv")}
    parts = {"queries_tsv": "queries.tsv", "qrels_trec": "qrels"}
    others: dict[str, Any] = {key: str(tmp_path / name) for key, name in parts.items()}
    ir_datasets.registry.register("assay-tests/tea", ir_datasets.create_dataset(**docs, **others))
    ir_datasets.registry.register("assay-tests", ir_datasets.create_dataset(**docs))
    yield "ir_datasets:assay-tests/tea"
    for name in ("assay-tests/tea", "assay-tests"):
        del ir_datasets.registry._registered[name]


def test_a_data_set_of_the_library(library: str) -> None:
    with offline(), pytest.raises(DownloadError, match="is not on this machine"):
        load_dataset(library)
    dataset = load_dataset(library)
    assert dataset.documents["d1"].text == "Green tea is steeped."
    assert dataset.queries["q1"].text == "how is tea made"
    assert dataset.judgments == {"test": {"q1": {"d1": 2, "d2": 0}}}
    with offline():
        assert load_dataset(library).judgments


def test_what_the_library_does_not_have_is_named(library: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"lacks queries or judgments.*assay-tests/tea"):
        load_dataset("ir_datasets:assay-tests")
    with pytest.raises(UsageError, match="Did you mean 'ir_datasets:assay-tests/tea"):
        load_dataset("ir_datasets:assay-test/tea")
    (tmp_path / "qrels").unlink()
    with pytest.raises(DownloadError, match="could not provide 'ir_datasets:assay-tests/tea'"):
        load_dataset(library)
