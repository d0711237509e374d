"""Where the cache is, and that what is in it is whole."""

import threading
from pathlib import Path

import pytest

from assay.data import cache_folder
from assay.data.cache import write_cached
from assay.errors import DataError


def test_assay_cache_wins_and_is_made(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(surroundings.parent / "xdg"))
    assert cache_folder() == surroundings
    assert surroundings.is_dir()


def test_then_comes_the_xdg_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "assay"


@pytest.mark.parametrize("xdg", [None, "", "relative"])
def test_then_comes_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg: str | None
) -> None:
    monkeypatch.delenv("ASSAY_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    if xdg is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert cache_folder() == tmp_path / ".cache" / "assay"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ASSAY_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


def test_a_cache_that_cannot_be_made_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        DataError, match=r"cannot be written: .*set ASSAY_CACHE to a writable folder"
    ):
        cache_folder()


def test_a_cache_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"cannot be written: .*set ASSAY_CACHE to a writable folder"
    ):
        write_cached(tmp_path / "file" / "inside", b"content")


def test_what_could_not_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(DataError):
        write_cached(tmp_path / "taken", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    start = threading.Barrier(8)
    content = bytes(200_000)

    def write() -> None:
        start.wait()
        write_cached(tmp_path / "file", content)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == content
