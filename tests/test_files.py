"""Atomic writes, locks, and files that are no files."""

import errno
import os
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay import files
from assay.files import (
    FileLock,
    UnreadableFile,
    atomic_write,
    atomic_writer,
    create_file,
    is_locked,
    make_private_folder,
    open_file,
    open_to_append,
    read_file,
    read_lines,
    read_text_file,
    remove_part_files,
    staging_folder,
)


def test_content_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    atomic_write(path, b"old")
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_keeps_the_old_content_and_no_part_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    atomic_write(path, b"old")

    def write_half() -> None:
        with atomic_writer(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_staging_folder_is_gone_after_a_failure_and_with_it_what_was_in_it(
    tmp_path: Path,
) -> None:
    def fail() -> None:
        with staging_folder(tmp_path / "data") as staging:
            (staging / "half").write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_the_staging_folders_of_killed_processes_are_removed_after_a_day(tmp_path: Path) -> None:
    old, new = (tmp_path / f".data.{number}.part" for number in (1, 2))
    for part in (old, new):
        (part / "data").mkdir(parents=True)
        (part / "data" / "corpus.jsonl").write_bytes(b"half")
    os.utime(old, (0, 0))
    with staging_folder(tmp_path / "data") as staging:
        assert staging.stat().st_mode & 0o777 == 0o700
        (staging / "data").mkdir()
        (staging / "data").rename(tmp_path / "data")
    assert sorted(tmp_path.iterdir()) == [new, tmp_path / "data"]


def test_what_a_killed_process_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    old, new, other = (
        tmp_path / f".{name}.part" for name in ("report.json.1", "report.json.2", "x.3")
    )
    for part in (old, new, other):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    atomic_write(path, b"new")
    assert sorted(tmp_path.iterdir()) == [new, other, path]
    remove_part_files(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_on_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    path = tmp_path / "file"
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(path.exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    atomic_write(path, b"x")
    assert synced == [False, True]  # the content, then the folder that holds the new name


def test_a_full_disk_leaves_no_part_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(tmp_path / "file", b"x")
    assert list(tmp_path.iterdir()) == []


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
    assert lock.holder() == f"process {other.pid}"
    other.kill()  # the operating system frees the lock of a process that died
    other.communicate()
    assert lock.acquire()
    lock.release()
    assert not is_locked(path)


def test_waiting_ends_when_the_lock_is_free(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire()
    seen = []
    for holder in second.wait(interval=0.01):
        seen.append(holder)
        first.release()
    assert seen == [f"process {os.getpid()}"]
    second.release()


def test_windows_locks_a_byte_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[tuple[int, int]] = []

    def locking(descriptor: int, _mode: int, count: int) -> None:
        if locked:
            raise OSError(13, "Permission denied")
        locked.append((os.lseek(descriptor, 0, os.SEEK_CUR), count))

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"one line\n")
    with path.open("r+b") as file:
        file.seek(3)
        assert files.try_lock(file.fileno())
        assert not files.try_lock(file.fileno())
        assert file.tell() == 3
    assert locked[0][0] > 2**30


def test_posix_modules_are_not_imported_at_the_top() -> None:
    code = (
        "import sys; sys.modules['fcntl'] = None\n"
        "import assay.files, assay.run.calls, assay.cli.app; print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_folders_with_texts_are_for_their_owner_alone(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "parents" / "texts")
    make_private_folder(tmp_path / "parents" / "texts")
    assert (tmp_path / "parents" / "texts").stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "parents" / "texts", exist_ok=False)


def test_a_lock_without_room_for_its_holder_is_held_and_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk; a descriptor that is lost here would hold the lock for ever."""

    def full(_descriptor: int, _size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "ftruncate", full)
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire()
    assert not FileLock(tmp_path / "lock").acquire()
    lock.release()
    assert FileLock(tmp_path / "lock").acquire()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # an address has at most 108 bytes
        made.bind(path.name)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [pipe, device, loop, listener, folder])
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "calls.jsonl"
    make(path)
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


def test_a_file_that_is_missing_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "missing")


def test_new_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    os.close(open_to_append(tmp_path / "a"))
    create_file(tmp_path / "b").close()
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"]
    assert modes == [0o600, 0o600]


def test_a_small_file_takes_little_memory_whatever_the_limit_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert read_file(tmp_path / "a") == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_file_that_says_nothing_of_its_size_is_read_whole(tmp_path: Path) -> None:
    assert read_file(Path("/proc/self/status")).startswith(b"Name:")
