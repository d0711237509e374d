"""`hf:` and MTEB folders: every layout in use, from a local server that behaves as a hub does."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.file_server import FileServer, file_server, publish

from assay.data import load_dataset
from assay.data.beir import sort_files
from assay.data.hub import HubName
from assay.data.load import check_dataset
from assay.errors import DataError, DownloadError, UsageError

Rows = list[dict[str, object]]

CORPUS: Rows = [
    {"_id": "d1", "title": "Tea", "text": "Green tea is steeped."},
    {"_id": "d2", "title": "", "text": "Coffee is brewed."},
]
QUERIES: Rows = [{"_id": "q1", "text": "how is tea made"}, {"_id": "q2", "text": "coffee?"}]
QRELS: Rows = [
    {"query-id": "q1", "corpus-id": "d1", "score": 2},
    {"query-id": "q2", "corpus-id": "d2", "score": 1},
]
TSV = b"query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n"
GRADES = {"q1": {"d1": 2}, "q2": {"d2": 1}}


def parquet(rows: Rows) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def lines(rows: Rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


LAYOUTS = {
    "BEIR, JSON lines compressed": {
        "README.md": b"---\nlicense: mit\n---",
        "corpus.jsonl.gz": gzip.compress(lines(CORPUS)),
        "queries.jsonl.gz": gzip.compress(lines(QUERIES)),
        "qrels/test.tsv": TSV,
    },
    "MTEB, JSON lines": {
        "corpus.jsonl": lines(CORPUS),
        "queries.jsonl": lines(QUERIES),
        "qrels/test.jsonl": lines(QRELS),
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
        "qrels/test-00000-of-00001.parquet": parquet(QRELS),
    },
    "one file each": {
        "corpus.parquet": parquet(CORPUS),
        "query.parquet": parquet(QUERIES),
        "qrels.parquet": parquet(QRELS),
    },
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    with file_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
def test_each_layout_is_read_from_the_hub(hub: FileServer, files: dict[str, bytes]) -> None:
    publish(hub, "tea/house", files)
    dataset = load_dataset("hf:tea/house")
    assert dataset.name == "hf:tea/house"
    assert dataset.documents["d1"].title == "Tea"
    assert [query.text for query in dataset.queries_in("test")] == ["how is tea made", "coffee?"]
    assert dataset.judgments == {"test": GRADES}
    assert dataset.warnings == ()


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS)
def test_each_layout_is_read_from_a_folder(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = tmp_path / "clone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    dataset = load_dataset(tmp_path / "clone")
    assert (dataset.name, dataset.judgments) == ("clone", {"test": GRADES})
    assert list(dataset.documents) == ["d1", "d2"]


def test_judgments_may_be_in_a_repository_of_their_own(hub: FileServer) -> None:
    data = {"data/corpus-00000-of-00001.parquet": parquet(CORPUS)}
    publish(hub, "c/tea", data | {"data/queries-00000-of-00001.parquet": parquet(QUERIES)})
    publish(hub, "c/tea-qrels", {"data/dev-00000-of-00001.parquet": parquet(QRELS)}, "b" * 40)
    assert load_dataset("hf:c/tea").judgments == {"dev": GRADES}


def test_it_is_downloaded_once_and_then_needs_no_network(hub: FileServer) -> None:
    publish(hub, "tea/house", LAYOUTS["MTEB, JSON lines"])
    first = load_dataset("hf:tea/house")
    asked = len(hub.seen)
    hub.files.clear()
    again = load_dataset("hf:tea/house")
    assert again.fingerprint == first.fingerprint
    assert len(hub.seen) == asked


def test_a_changed_data_set_is_taken_only_where_its_revision_is_named(hub: FileServer) -> None:
    publish(hub, "tea/house", LAYOUTS["MTEB, JSON lines"])
    load_dataset("hf:tea/house")
    other = {**LAYOUTS["MTEB, JSON lines"], "qrels/test.jsonl": lines(QRELS[:1])}
    publish(hub, "tea/house", other, "c" * 40)
    assert load_dataset("hf:tea/house").judgments["test"] == GRADES
    assert load_dataset(f"hf:tea/house@{'c' * 40}").judgments["test"] == {"q1": {"d1": 2}}


def test_configurations_are_chosen_by_name(hub: FileServer) -> None:
    files = {}
    for language in ("de", "fr"):
        files[f"{language}-corpus/test-00000-of-00001.parquet"] = parquet(CORPUS)
        files[f"{language}-queries/test-00000-of-00001.parquet"] = parquet(QUERIES[:1])
        files[f"{language}-qrels/test-00000-of-00001.parquet"] = parquet(QRELS[:1])
    publish(hub, "m/many", files)
    with pytest.raises(UsageError, match=r"on a hub hf:m/many#CONFIG: de, fr"):
        load_dataset("hf:m/many")
    with pytest.raises(UsageError, match=r"no configuration 'frr'; .*Did you mean 'fr'\?"):
        load_dataset("hf:m/many#frr")
    dataset = load_dataset("hf:m/many#de")
    assert (dataset.name, list(dataset.queries)) == ("hf:m/many#de", ["q1"])
    assert {path for path in hub.paths() if "fr-" in path} == set()


def test_what_is_no_retrieval_data_set_says_so(hub: FileServer) -> None:
    publish(hub, "a/pictures", {"images/train-00000-of-00001.parquet": b"x"})
    with pytest.raises(DataError, match="has no queries; a data set has"):
        load_dataset("hf:a/pictures")


def test_no_network_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("assay.net.download._ATTEMPTS", 1)
    with pytest.raises(
        DownloadError, match="not in the cache, and the hub could not be asked"
    ) as e:
        load_dataset("hf:tea/house")
    assert "pass its path; HF_ENDPOINT names another hub" in str(e.value)


def test_a_gated_data_set_asks_for_the_token(
    hub: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, "tea/house", LAYOUTS["MTEB, JSON lines"])
    hub.statuses[f"/datasets/tea/house/resolve/{'a' * 40}/corpus.jsonl"] = 403
    monkeypatch.setenv("HF_TOKEN", "hf_hidden")
    with pytest.raises(DownloadError, match="accept its terms on the hub and set HF_TOKEN") as e:
        load_dataset("hf:tea/house")
    assert "hf_hidden" not in str(e.value)
    assert set(hub.tokens) == {"Bearer hf_hidden"}


def test_half_a_download_is_continued_by_the_next_command(
    hub: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, "tea/house", LAYOUTS["MTEB, JSON lines"])
    monkeypatch.setattr("assay.net.download._ATTEMPTS", 1)
    whole = hub.files.pop(corpus := f"/datasets/tea/house/resolve/{'a' * 40}/corpus.jsonl")
    with pytest.raises(DownloadError, match=r"corpus\.jsonl of data set .* HTTP 404"):
        load_dataset("hf:tea/house")
    hub.files[corpus], hub.cut = whole, (30, 1)
    with pytest.raises(DownloadError, match="broke off; run the command again to continue"):
        load_dataset("hf:tea/house")
    assert load_dataset("hf:tea/house").judgments["test"] == GRADES
    assert (corpus, "bytes=30-") in hub.seen


@pytest.mark.parametrize(
    "name", ["corpus/../../../evil.jsonl", "/corpus/x.jsonl", "corpus/a\\b.csv"]
)
def test_a_hub_writes_nowhere_else(hub: FileServer, name: str, tmp_path: Path) -> None:
    publish(hub, "e/vil", {name: lines(CORPUS), "queries.jsonl": lines(QUERIES)})
    with pytest.raises(DataError, match="a path outside of the data set"):
        load_dataset("hf:e/vil")
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize("name", ["hf:alone", "hf:a/b/c", "hf:a/..", "hf:a/b@../x", "hf:a b/c"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="write hf:ORG/NAME"):
        load_dataset(name)


@pytest.mark.parametrize("answer", [b"[]", b"{}", b'{"sha": "x/../y", "siblings": []}', b"<html>"])
def test_an_answer_that_is_no_list_of_files_is_refused(hub: FileServer, answer: bytes) -> None:
    hub.files["/api/datasets/tea/house"] = answer
    with pytest.raises(DownloadError, match=r"was not understood|not JSON"):
        load_dataset("hf:tea/house")


def test_wrong_rows_are_named_with_their_file(hub: FileServer) -> None:
    files = {
        "corpus.jsonl": lines([*CORPUS, {"_id": "d1", "text": "another"}]),
        "queries.jsonl": lines([{"text": "no id"}]),
        "qrels/test.jsonl": lines([{"query-id": "q1", "corpus-id": "d1", "score": "much"}]),
    }
    publish(hub, "d/irty", files)
    found = check_dataset("hf:d/irty")
    assert found.error_count == 3
    for words in ("corpus.jsonl:3: id 'd1' is already used", "has no id", "a grade must be"):
        assert any(words in message for message in found.errors)


def test_judgments_that_name_no_document_are_noticed(hub: FileServer) -> None:
    qrels: Rows = [{"query-id": "q1", "corpus-id": "gone", "score": 1}]
    publish(hub, "o/ld", {**LAYOUTS["MTEB, JSON lines"], "qrels/test.jsonl": lines(qrels)})
    warnings = " ".join(load_dataset("hf:o/ld").warnings)
    assert "splits without a judged document in the corpus" in warnings
    assert "write the new ids into qrels" in warnings


def test_files_that_are_no_part_of_it_are_left_out() -> None:
    paths = ["instruction/x.parquet", "qrel_diff/q.txt", ".gitattributes", "corpus.jsonl"]
    assert {key: files.all_paths for key, files in sort_files(paths).items()} == {
        "": ["corpus.jsonl"]
    }


def test_a_name_is_written_as_it_is_read() -> None:
    for text in ("hf:a/b", "hf:a/b@v1", "hf:a/b#de", "hf:a/b@v1#de"):
        assert str(HubName.parse(text)) == text


def test_grades_that_differ_between_files_of_a_split_are_refused(hub: FileServer) -> None:
    files = {
        **{name: LAYOUTS["MTEB, JSON lines"][name] for name in ("corpus.jsonl", "queries.jsonl")},
        "qrels/test-00000-of-00002.parquet": parquet(QRELS),
        "qrels/test-00001-of-00002.parquet": parquet([{**QRELS[0], "score": 1}, QRELS[1]]),
    }
    publish(hub, "tea/house", files)
    words = "document 'd1' has grade 1 for query 'q1', but 2 in an earlier file of this split"
    with pytest.raises(DataError, match=words):
        load_dataset("hf:tea/house")


def test_judgments_that_repeat_between_files_count_once(hub: FileServer) -> None:
    files = {
        **{name: LAYOUTS["MTEB, JSON lines"][name] for name in ("corpus.jsonl", "queries.jsonl")},
        "qrels/test-00000-of-00002.parquet": parquet(QRELS),
        "qrels/test-00001-of-00002.parquet": parquet(QRELS[1:]),
    }
    publish(hub, "tea/house", files)
    assert load_dataset("hf:tea/house").judgments["test"] == GRADES
