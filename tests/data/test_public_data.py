"""`beir:` from a local server, `ir_datasets:` through the library, and names that are none."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import ir_datasets
import pytest
from tests.data.file_server import FileServer, file_server

from assay.data import beir_download, load_dataset
from assay.data.load import is_available_offline
from assay.errors import DataError, DownloadError, UsageError

CORPUS = '{"_id": "d1", "title": "Tea", "text": "x"}\n{"_id": "d2", "title": "", "text": "y"}\n'
QUERIES = '{"_id": "q1", "text": "tea?"}\n'


def archive(*folders: str, extra: dict[str, bytes] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for folder in folders:
            packed.writestr(f"{folder}/corpus.jsonl", CORPUS)
            packed.writestr(f"{folder}/queries.jsonl", QUERIES)
            packed.writestr(f"{folder}/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n")
        for name, content in (extra or {}).items():
            packed.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    with file_server() as server:
        monkeypatch.setenv("ASSAY_BEIR_URL", f"{server.url}/sets/")
        server.files["/sets/scifact.zip"] = body = archive("scifact")
        monkeypatch.setitem(beir_download.MD5, "scifact", hashlib.md5(body).hexdigest())
        yield server


def test_an_archive_of_beir_is_downloaded_once(mirror: FileServer) -> None:
    assert not is_available_offline("beir:scifact")
    for _ in range(2):
        dataset = load_dataset("beir:scifact")
    assert (dataset.name, list(dataset.documents)) == ("beir:scifact", ["d1", "d2"])
    assert dataset.warnings == ()
    assert mirror.paths() == ["/sets/scifact.zip"]
    assert is_available_offline("beir:scifact")


def test_another_md5_than_the_published_one_is_a_warning(
    mirror: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(beir_download.MD5, "scifact", "0" * 32)
    (warning,) = load_dataset("beir:scifact").warnings
    assert "another MD5" in warning
    assert "published is 000" in warning


def test_one_of_several_sets_in_an_archive(mirror: FileServer) -> None:
    mirror.files["/sets/cqadupstack.zip"] = archive("cqadupstack/android", "cqadupstack/english")
    dataset = load_dataset("beir:cqadupstack/android")
    assert dataset.judgments["test"] == {"q1": {"d1": 1}}


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        ({"../evil": b"x"}, "leads outside the archive"),
        ({"bomb.jsonl": bytes(70 * 2**20)}, "grows over 100 times"),
    ],
    ids=["zip slip", "bomb"],
)
def test_a_hostile_archive_is_refused(
    mirror: FileServer, extra: dict[str, bytes], what: str
) -> None:
    mirror.files["/sets/scifact.zip"] = archive("scifact", extra=extra)
    with pytest.raises(DataError, match=what):
        load_dataset("beir:scifact")


def test_a_download_that_fails_names_the_ways_out(
    mirror: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.net.download._ATTEMPTS", 1)
    mirror.cut = (10, 1)
    with pytest.raises(DownloadError, match="broke off") as refusal:
        load_dataset("beir:scifact")
    for way in ("again to continue", "download scifact.zip elsewhere", "ASSAY_BEIR_URL"):
        assert way in str(refusal.value)
    assert load_dataset("beir:scifact").judgments


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("beir:scifactt", "Did you mean 'beir:scifact'?"),
        ("scifact", "Did you mean 'beir:scifact'?"),
        ("nfcorpsu", "Did you mean 'nfcorpus'?"),
        ("notess", "Did you mean 'notes'?"),
        ("ir-datasets:vaswani", "Did you mean 'ir_datasets:vaswani'?"),
        ("hff:a/b", "Did you mean 'hf:a/b'?"),
        ("no-such-thing-at-all", "the known names are"),
    ],
)
def test_a_name_that_is_none_is_answered_with_a_near_one(name: str, meant: str) -> None:
    with pytest.raises(UsageError) as refusal:
        load_dataset(name)
    assert meant in str(refusal.value)


def test_a_split_that_is_none_is_answered_with_those_there_are(mirror: FileServer) -> None:
    with pytest.raises(UsageError, match=r"no split 'tset'; it has: test. Did you mean 'test'\?"):
        load_dataset("beir:scifact").judgments_in("tset")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[str]:
    """A data set that the library ir_datasets reads from files of the test."""
    (tmp_path / "docs.tsv").write_text("d1\tGreen tea is steeped.\nd2\tCoffee is brewed.\n")
    (tmp_path / "queries.tsv").write_text("q1\thow is tea made\nq2\tnever judged\n")
    (tmp_path / "qrels").write_text("q1 0 d1 2\nq1 0 d2 0\n")
    made = ir_datasets.create_dataset(
        docs_tsv=str(tmp_path / "docs.tsv"),
        queries_tsv=str(tmp_path / "queries.tsv"),
        qrels_trec=str(tmp_path / "qrels"),
    )
    ir_datasets.registry.register("assay-tests/tea", made)
    bare = ir_datasets.create_dataset(docs_tsv=str(tmp_path / "docs.tsv"))
    ir_datasets.registry.register("assay-tests", bare)
    yield "ir_datasets:assay-tests/tea"
    for name in ("assay-tests/tea", "assay-tests"):
        del ir_datasets.registry._registered[name]


def test_a_data_set_of_the_library(library: str) -> None:
    assert not is_available_offline(library)
    dataset = load_dataset(library)
    assert dataset.documents["d1"].text == "Green tea is steeped."
    assert dataset.queries["q1"].text == "how is tea made"
    assert dataset.judgments == {"test": {"q1": {"d1": 2, "d2": 0}}}
    assert is_available_offline(library)


def test_a_set_of_the_library_without_questions_names_those_with(library: str) -> None:
    with pytest.raises(UsageError, match=r"lacks queries or judgments.*assay-tests/tea"):
        load_dataset("ir_datasets:assay-tests")


def test_an_unknown_name_of_the_library(library: str) -> None:
    with pytest.raises(UsageError, match="Did you mean 'ir_datasets:assay-tests/tea"):
        load_dataset("ir_datasets:assay-test/tea")


def test_what_the_library_raises_is_no_traceback(library: str, tmp_path: Path) -> None:
    (tmp_path / "qrels").unlink()
    with pytest.raises(DownloadError, match="could not provide 'ir_datasets:assay-tests/tea'"):
        load_dataset(library)


def test_titles_and_texts_of_records_with_more_fields() -> None:
    from ir_datasets.formats import TrecQuery
    from ir_datasets.formats.trec import TitleUrlTextDoc, TrecParsedDoc

    from assay.data.ir_datasets_source import _default_text, _document

    document = _document(TitleUrlTextDoc("d1", "Tea", "http://x", "Steeped."))
    assert (document.title, document.text) == ("Tea", "Steeped.")
    parsed = _document(TrecParsedDoc("d2", "Tea", "Brewed.", b"<x>"))
    assert (parsed.title, parsed.text) == ("Tea", "Brewed.")
    assert _default_text(TrecQuery("1", "tea", "long words", "longer")) == "tea"
