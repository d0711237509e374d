import errno
import os
import resource
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import FailureKind, RunError
from assay.files import is_locked
from assay.run.calls import Call, CallLog, CallWriter

GOOD = Call("q1", ("d1", "d2"), 1.5, 1, at=0.25, returned=2)
BAD = Call("q2", (), 2.0, 4, at=0.5, failure=FailureKind.TIMEOUT, message="no answer within 2 s")
ANSWER = Call("q3", ("d1",), 1.0, 1, returned=1, answer="It is so [d1].", citations=("d1",))


@pytest.mark.parametrize("call", [GOOD, BAD, ANSWER])
def test_a_call_survives_its_record(call: Call) -> None:
    assert Call.from_json(call.to_json()) == call


def test_calls_are_read_in_the_order_asked_for_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    again = Call("q2", ("d9",), 1.0, 1, at=0.75, returned=1)
    with CallWriter(path) as writer:
        for call in (BAD, GOOD, again):
            writer.append(call)
    log = CallLog(path)
    assert list(log.read(["q1", "q2", "nobody"])) == [GOOD, again, None]
    assert len(log) == 2
    assert log.elapsed == 0.75


def test_a_log_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    """Also root is refused here, which may write everything: a folder is in its place."""
    (tmp_path / "calls.jsonl").mkdir()
    with pytest.raises(RunError, match=r"cannot write .*calls\.jsonl: Is a directory; make its"):
        CallWriter(tmp_path / "calls.jsonl")


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_torn_last_line_is_passed_over_then_cut_off(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "calls.jsonl"
    with CallWriter(path) as writer:
        for call in (GOOD, BAD):
            writer.append(call)
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % (len(whole) + 1)])
    complete = path.read_bytes().count(b"\n")
    assert len(CallLog(path)) == complete
    with CallWriter(path) as writer:
        writer.append(ANSWER)
    assert len(CallLog(path)) == complete + 1


def test_a_log_on_a_read_only_disk_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `--resume` meets there; permissions would not stop the superuser."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RunError, match="Read-only file system; make its folder writable"):
        CallWriter(tmp_path / "calls.jsonl")


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with CallWriter(path) as writer:
        writer.append(GOOD)
    path.write_bytes(b"not json\n" + path.read_bytes())
    with pytest.raises(RunError, match=r"calls\.jsonl:1: not a call record; delete that line"):
        CallLog(path)


@pytest.mark.parametrize(
    "change",
    [
        *({"at": None}, {"latency_ms": "1"}, {"attempts": 1.5}, {"doc_ids": "d1"}),
        *({"doc_ids": [None]}, {"query_id": 1}, {"answer": []}, {"failure": []}, {"status": None}),
    ],
)
def test_a_record_of_wrong_types_is_damaged(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(orjson.dumps({**GOOD.to_json(), **change}) + b"\n")
    with pytest.raises(RunError, match=r"calls\.jsonl:1: not a call record"):
        CallLog(path)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with CallWriter(path):
        assert is_locked(path)
        with pytest.raises(RunError, match="another process is writing"):
            CallWriter(path)
    assert not is_locked(path)


def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_no_half_of_it(tmp_path: Path) -> None:
    """The limit on the size of files cuts a write as a full disk does."""
    path = tmp_path / "calls.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with CallWriter(path) as writer:
        writer.append(GOOD)
        whole = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, before[1]))
        try:
            with pytest.raises(OSError, match="accepted only 10 of"):
                writer.append(BAD)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.read_bytes() == whole
        writer.append(BAD)
    assert list(CallLog(path).read(["q1", "q2"])) == [GOOD, BAD]
