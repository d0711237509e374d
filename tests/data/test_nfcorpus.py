"""Where NFCorpus comes from, with a real server that behaves well and badly."""

import hashlib
import os
import random
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from assay.data import beir_download, load_dataset
from assay.errors import DataError, DownloadError, UsageError

OFFICIAL = os.environ.get("NFCORPUS_ARCHIVE")  # read before the fixtures take it away
needs_archive = pytest.mark.skipif(not OFFICIAL, reason="NFCORPUS_ARCHIVE is not set")


class Mirror(ThreadingHTTPServer):
    """Serves `body`; the path of a request chooses how."""

    body = b""
    requests = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.released = threading.Event()

    def url(self, behaviour: str = "ok") -> str:
        return f"http://127.0.0.1:{self.server_port}/{behaviour}"


class _Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        self.server.requests += 1
        getattr(self, self.path.strip("/"))()

    def ok(self) -> None:
        self._send(self.server.body)

    def missing(self) -> None:
        self.send_error(404)

    def moved(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/ok")
        self.end_headers()

    def circle(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/circle")
        self.end_headers()

    def half(self) -> None:
        body = self.server.body
        self._send(body[: len(body) // 2], declared=len(body))

    def other(self) -> None:
        self._send(b"<html>please log in</html>")

    def flood(self) -> None:
        self._send(bytes(beir_download.DOWNLOAD_MAX_BYTES + 1))

    def stall(self) -> None:
        self._send(self.server.body[:10], declared=len(self.server.body))
        self.server.released.wait(30)

    def _send(self, body: bytes, declared: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) if declared is None else declared))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has seen enough
            super().handle()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small archive that counts as the official one in this test."""
    path = tmp_path / "given.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("nfcorpus/corpus.jsonl", '{"_id": "MED-1", "text": "x"}')
        packed.writestr("nfcorpus/queries.jsonl", '{"_id": "PLAIN-1", "text": "x"}')
        packed.writestr("nfcorpus/qrels/test.tsv", "PLAIN-1\tMED-1\t1")
    content = path.read_bytes()
    hashes = {name: hashlib.new(name, content).hexdigest() for name in beir_download.HASHES}
    monkeypatch.setattr(beir_download, "HASHES", hashes)
    return path


@pytest.fixture
def mirror(archive: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    with Mirror() as server:
        server.body = archive.read_bytes()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("NFCORPUS_URL", server.url())
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def test_an_archive_given_comes_before_everything(archive: Path, mirror: Mirror) -> None:
    assert list(load_dataset("nfcorpus", archive=archive).documents) == ["MED-1"]
    assert mirror.requests == 0


def test_the_archive_that_the_environment_names_comes_next(
    archive: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NFCORPUS_ARCHIVE", str(archive))
    assert load_dataset("nfcorpus").name == "nfcorpus"
    assert mirror.requests == 0


def test_it_is_downloaded_once_and_then_cached(mirror: Mirror, surroundings: Path) -> None:
    for _ in range(2):
        assert list(load_dataset("nfcorpus").queries) == ["PLAIN-1"]
    assert mirror.requests == 1
    assert [path.name for path in surroundings.iterdir()] == ["nfcorpus.zip"]


def test_the_download_tells_how_far_it_is(mirror: Mirror) -> None:
    told: list[tuple[str, int, int | None]] = []
    load_dataset("nfcorpus", progress=lambda *step: told.append(step))
    size = len(mirror.body)
    assert told[-1] == ("downloading nfcorpus.zip", size, size)


def test_a_redirect_is_followed(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFCORPUS_URL", mirror.url("moved"))
    assert load_dataset("nfcorpus").name == "nfcorpus"


def test_a_damaged_cache_is_fetched_again(mirror: Mirror, surroundings: Path) -> None:
    surroundings.mkdir()
    cached = surroundings / "nfcorpus.zip"
    cached.write_bytes(mirror.body[:-1])
    load_dataset("nfcorpus")
    assert cached.read_bytes() == mirror.body


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("missing", "HTTP 404"),
        ("half", "the connection broke off"),
        ("other", "damaged or not NFCorpus: expected md5"),
        ("flood", "larger than 16,777,216 bytes"),
        ("stall", "did not respond in time"),
        ("circle", "redirects"),
    ],
)
def test_a_bad_download_is_never_used_and_the_ways_out_are_named(
    mirror: Mirror,
    surroundings: Path,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
    why: str,
) -> None:
    monkeypatch.setattr(beir_download, "STALL_SECONDS", 0.3)
    monkeypatch.setenv("NFCORPUS_URL", mirror.url(behaviour))
    with pytest.raises(DownloadError, match=why) as refusal:
        load_dataset("nfcorpus")
    for way_out in (mirror.url(behaviour), "NFCORPUS_ARCHIVE=", "--archive", "--dataset notes"):
        assert way_out in str(refusal.value)
    assert list(surroundings.iterdir()) == []


def test_a_trickle_is_cut_off(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beir_download, "TOTAL_SECONDS", -1.0)
    with pytest.raises(DownloadError, match="not finished after"):
        load_dataset("nfcorpus")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x", "ftp://127.0.0.1/x", "nonsense", "http://[", "http://a b:c/"]
)
def test_an_address_that_leads_nowhere_is_a_download_error(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("NFCORPUS_URL", url)
    with pytest.raises(DownloadError, match="could not be downloaded"):
        load_dataset("nfcorpus")


def test_credentials_of_a_mirror_stay_out_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFCORPUS_URL", "http://me:secret@127.0.0.1:1/x.zip?token=hidden")
    with pytest.raises(DownloadError, match=r"from http://127\.0\.0\.1:1/x\.zip:") as refusal:
        load_dataset("nfcorpus")
    assert "secret" not in str(refusal.value)
    assert "hidden" not in str(refusal.value)


def test_a_wrong_archive_given_is_refused_and_not_replaced(tmp_path: Path, mirror: Mirror) -> None:
    wrong = tmp_path / "scifact.zip"
    wrong.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"expected md5 \w+, got \w+; .* use --dataset") as refusal:
        load_dataset("nfcorpus", archive=wrong)
    assert not isinstance(refusal.value, DownloadError)
    assert mirror.requests == 0


@pytest.mark.parametrize("name", ["nowhere.zip", ""], ids=["missing", "a folder"])
def test_an_archive_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("NFCORPUS_ARCHIVE", str(tmp_path / name))
    with pytest.raises(DataError, match="the archive in NFCORPUS_ARCHIVE cannot be read"):
        load_dataset("nfcorpus")


def test_both_hashes_are_checked(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in beir_download.HASHES:
        with monkeypatch.context() as patch:
            patch.setitem(beir_download.HASHES, name, "0" * 32)
            with pytest.raises(DataError, match=f"expected {name} 0000"):
                load_dataset("nfcorpus", archive=archive)


def test_an_archive_for_another_data_set_is_refused(archive: Path) -> None:
    with pytest.raises(UsageError, match="only for 'nfcorpus', not for 'notes'"):
        load_dataset("notes", archive=archive)


@needs_archive
def test_the_official_archive_holds_what_is_published_about_it() -> None:
    dataset = load_dataset("nfcorpus", archive=Path(str(OFFICIAL)))
    assert len(dataset.documents) == 3633
    assert {split: len(dataset.queries_in(split)) for split in dataset.judgments} == {
        "train": 2590,
        "dev": 324,
        "test": 323,
    }
    grades = [grade for judged in dataset.judgments["test"].values() for grade in judged.values()]
    assert (grades.count(1), grades.count(2), len(grades)) == (11_758, 576, 12_334)
    assert dataset.warnings == ()


@needs_archive
@pytest.mark.parametrize(
    ("seed", "numbers"),
    [
        (42, [634, 133, 1557, 1398, 1275, 782, 583, 3014, 499, 3271]),
        (777, [1309, 2500, 2071, 3191, 1537]),
    ],
)
def test_the_order_of_queries_gives_the_reference_draws(seed: int, numbers: list[int]) -> None:
    valid = load_dataset("nfcorpus", archive=Path(str(OFFICIAL))).queries_in("test")
    drawn = random.Random(seed).sample(valid, len(numbers))
    assert [query.id for query in drawn] == [f"PLAIN-{number}" for number in numbers]


@needs_archive
def test_processes_that_download_at_once_all_succeed(mirror: Mirror, surroundings: Path) -> None:
    mirror.body = Path(str(OFFICIAL)).read_bytes()
    code = "from assay.data import load_dataset; print(len(load_dataset('nfcorpus').documents))"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in processes] == ["3633"] * 3
    assert [path.name for path in surroundings.iterdir()] == ["nfcorpus.zip"]
