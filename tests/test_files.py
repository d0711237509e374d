"""Atomic writes, locks, and files that are no files."""

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from assay.files import (
    FileLock,
    UnreadableFile,
    atomic_write,
    atomic_writer,
    complete_lines,
    create_file,
    is_locked,
    make_private_folder,
    open_file,
    open_to_append,
    output_writer,
    read_file,
    read_lines,
    read_text_file,
    remove_part_files,
    reserve_file,
    staging_folder,
    try_lock,
)


def test_content_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.json"
    atomic_write(path, b"old")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640  # as its owner wanted it
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    atomic_write(path, b"old")

    def half(kind: str) -> None:
        if kind == "file":
            with atomic_writer(path) as file:
                file.write(b"half")
                raise RuntimeError
        with staging_folder(tmp_path / "data") as staging:
            (staging / "half").write_bytes(b"half")
            raise RuntimeError

    for kind in ("file", "folder"):
        with pytest.raises(RuntimeError):
            half(kind)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_staging_folders_of_killed_processes_are_removed_after_a_day(tmp_path: Path) -> None:
    old, new = (tmp_path / f".data.{number}.part" for number in (1, 2))
    for part in (old, new):
        (part / "data").mkdir(parents=True)
        (part / "data" / "corpus.jsonl").write_bytes(b"half")
    os.utime(old, (0, time.time() - 86_400.5))
    with staging_folder(tmp_path / "data") as staging:
        assert staging.stat().st_mode & 0o777 == 0o700
        staging.rename(tmp_path / "data")
    assert sorted(tmp_path.iterdir()) == [new, tmp_path / "data"]


def test_what_a_killed_process_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    old, new, other = (
        tmp_path / f".{name}.part" for name in ("report.json.1", "report.json.2", "x.3")
    )
    for part in (old, new, other):
        part.write_bytes(b"half")
    os.utime(old, (0, time.time() - 3600.5))
    os.utime(other, (0, 0))
    atomic_write(path, b"new")
    assert sorted(tmp_path.iterdir()) == [new, other, path]
    (tmp_path / "kept").mkdir()
    (tmp_path / ".link.part").symlink_to(tmp_path / "kept")
    remove_part_files(tmp_path)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "kept", path]


@pytest.mark.parametrize(
    ("error", "raised"), [(None, False), (errno.ENOSPC, True), (errno.EOPNOTSUPP, False)]
)
def test_room_is_taken_where_the_file_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int | None, raised: bool
) -> None:
    path = tmp_path / "mapped"
    path.write_bytes(b"1234")
    taken: list[tuple[int, int]] = []

    def take(_descriptor: int, start: int, size: int) -> None:
        taken.append((start, size))
        if error:
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "posix_fallocate", take)
    with pytest.raises(OSError, match="No space") if raised else nullcontext():
        reserve_file(path)
    assert taken == [(0, 4)]
    monkeypatch.delattr(os, "posix_fallocate")
    reserve_file(path)


def test_content_is_synced_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    path = tmp_path / "file"
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(path.exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    atomic_write(path, b"x")
    assert synced == [False, True]  # the content, then the folder that holds the new name


def test_a_lock_excludes_another_process_and_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys; from pathlib import Path; from assay.files import FileLock\n"
        "lock = FileLock(Path(sys.argv[1])); print(lock.acquire(), flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "True\n"
    lock = FileLock(path)
    assert not lock.acquire()
    assert is_locked(path)
    other.kill()  # the operating system frees the lock of a process that died
    other.communicate()
    assert lock.acquire()
    lock.release()
    with path.open("rb") as reader:  # two may look at once
        assert try_lock(reader.fileno(), shared=True)
        assert not is_locked(path)


def test_waiting_for_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "not" / "there" / "lock"
    first, second = FileLock(path), FileLock(path)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert first.acquire()
    second.wait(first.release)
    assert slept == [0.2]
    second.release()


def test_files_and_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    os.close(open_to_append(tmp_path / "a"))
    create_file(tmp_path / "b").close()
    path = tmp_path / "parents" / "of" / "texts"
    make_private_folder(path)
    make_private_folder(path)
    modes = [each.stat().st_mode & 0o777 for each in (tmp_path / "a", tmp_path / "b", path)]
    assert modes == [0o600, 0o600, 0o700]
    with pytest.raises(FileExistsError):
        make_private_folder(path, exist_ok=False)


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # in the working folder: an address has at most 108 bytes


NOT_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
    "socket": listener,
    "folder": Path.mkdir,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", NOT_FILES)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "calls.jsonl"
    NOT_FILES[kind](path)
    with pytest.raises(UnreadableFile, match="jsonl: cannot be read: "):
        open_file(path)
    with pytest.raises(OSError):  # noqa: PT011 (of several kinds)
        open_to_append(path)
    assert not is_locked(path)


def test_what_the_shell_hands_over_is_read(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"of another command")
    os.close(theirs)
    try:
        assert read_file(Path(f"/dev/fd/{ours}")) == b"of another command"
        (tmp_path / "calls.jsonl").symlink_to(f"/dev/fd/{ours}")
        with pytest.raises(UnreadableFile):  # in a folder, that is nobody's wish
            read_file(tmp_path / "calls.jsonl")
    finally:
        os.close(ours)


def test_a_link_is_read_but_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"content")
    (tmp_path / "here").symlink_to(tmp_path / "there")
    assert read_file(tmp_path / "here") == b"content"
    with pytest.raises(UnreadableFile, match="not a regular file"):
        open_to_append(tmp_path / "here")
    with pytest.raises(UnreadableFile, match="not a regular file"):
        FileLock(tmp_path / "here").acquire()
    create_file(tmp_path / "here").close()
    assert (tmp_path / "there").read_bytes() == b"content"


def test_a_file_and_a_line_are_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345\n1234\r\n")
    assert read_file(path, limit=12) == b"12345\n1234\r\n"
    assert read_text_file(path) == "12345\n1234\n"
    with pytest.raises(UnreadableFile, match="larger than 11 bytes"):
        read_file(path, limit=11)
    assert list(read_lines(path, limit=6)) == [b"12345\n", b"1234\r\n"]
    with pytest.raises(UnreadableFile, match="line 1 is longer than 5 bytes"):
        list(read_lines(path, limit=5))


def test_complete_lines_of_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nthr")
    assert list(complete_lines(path)) == [(4, b"one\n"), (8, b"two\n")]
    assert list(complete_lines(path, 8)) == []
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert list(complete_lines(path, 8)) == [(14, b"three\n")]
    assert list(complete_lines(path, limit=6)) == [(4, b"one\n"), (8, b"two\n"), (14, b"three\n")]
    lines = complete_lines(path, limit=5)
    assert [next(lines), next(lines)] == [(4, b"one\n"), (8, b"two\n")]
    with pytest.raises(UnreadableFile, match="a line of more than 5 bytes"):
        next(lines)


def test_an_output_may_be_a_link_or_a_pipe(tmp_path: Path) -> None:
    link, pipe = tmp_path / "latest.md", tmp_path / "pipe"
    link.symlink_to("kept.md")
    with output_writer(link) as file:
        file.write(b"new")
    assert (link.is_symlink(), (tmp_path / "kept.md").read_bytes()) == (True, b"new")
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        with output_writer(pipe) as file:
            file.write(b"new")
        assert reader.communicate(timeout=30)[0] == b"new"
    assert pipe.is_fifo()
