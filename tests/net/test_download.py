"""Downloads against a real server: bounded and checked."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data.file_server import FileServer

from assay.errors import DownloadError
from assay.net import download
from assay.net.client import TokenFor
from assay.net.download import download_file
from assay.net.retry import RetryPolicy

BODY = bytes(range(256)) * 400
LIMIT = 10**6


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    async def at_once(_seconds: float) -> None:
        pass

    def patient(attempts: int) -> RetryPolicy:
        return RetryPolicy(attempts=attempts, sleep=at_once)

    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(download, "RetryPolicy", patient)
    with FileServer().running() as running:
        running.files["/x.zip"] = BODY
        yield running


def test_a_broken_download_is_repeated(server: FileServer, tmp_path: Path) -> None:
    server.cut = (40_000, 2)
    download_file(f"{server.url}/x.zip", tmp_path / "x.zip", LIMIT, what="x")
    assert (tmp_path / "x.zip").read_bytes() == BODY
    server.cut = (1000, 4)
    with pytest.raises(DownloadError, match="cut off"):
        download_file(f"{server.url}/x.zip", tmp_path / "y.zip", LIMIT, what="x")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"x.zip", "x.zip.lock", "y.zip.lock"}


@pytest.mark.parametrize("declared", [True, False])
def test_what_is_too_large_is_refused(server: FileServer, tmp_path: Path, declared: bool) -> None:
    server.length = declared
    with pytest.raises(DownloadError, match="larger than"):
        download_file(f"{server.url}/x.zip", tmp_path / "x", 1000, what="x")
    assert not (tmp_path / "x").exists()


def test_a_status_is_named_and_a_passing_one_repeated(server: FileServer, tmp_path: Path) -> None:
    server.statuses["/busy"] = 503
    for path, times in (("/missing", 1), ("/busy", 4)):
        server.seen.clear()
        with pytest.raises(DownloadError, match="HTTP ") as refusal:
            download_file(f"{server.url}{path}", tmp_path / "y", LIMIT, what="y")
        assert refusal.value.status in (404, 503)
        assert len(server.seen) == times


def test_the_token_goes_to_its_own_host_alone(server: FileServer, tmp_path: Path) -> None:
    with FileServer().running() as other:
        other.files["/cdn"] = BODY
        server.redirected["/x.zip"] = f"http://localhost:{other.http.server_port}/cdn"
        auth = TokenFor(server.url, "secret")
        download_file(f"{server.url}/x.zip", tmp_path / "x", LIMIT, what="x", auth=auth)
        assert server.tokens == ["Bearer secret"]
        assert other.tokens == [None]


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:1/x", "ftp://127.0.0.1/x", "nonsense", "http://[", "http://a b:c/"),
        "{server}/circle",
    ],
)
def test_a_wrong_address_is_a_download_error(server: FileServer, url: str, tmp_path: Path) -> None:
    server.redirected["/circle"] = "/circle"
    with pytest.raises(DownloadError):
        download_file(url.replace("{server}", server.url), tmp_path / "x", LIMIT, what="x")


def test_a_trickle(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_TOTAL_SECONDS", 0.0)
    with pytest.raises(DownloadError, match="not finished after 0 seconds"):
        download_file(f"{server.url}/x.zip", tmp_path / "x", LIMIT, what="x")
