import errno
import os
import resource
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.data.dataset import Query
from assay.errors import FailureKind, RunError
from assay.files import is_locked
from assay.llm.passages import ContextChunk
from assay.privacy import WITHHELD
from assay.run.calls import Call, CallLog, CallTail, CallWriter, PrivateTexts

GOOD = Call("q1", ("d1", "d2"), 1.5, 1, at=0.25, returned=2)
BAD = Call("q2", (), 2.0, 4, at=0.5, failure=FailureKind.TIMEOUT, message="no answer within 2 s")
ANSWER = Call("q3", ("d1",), 1.0, 1, returned=1, answer="It is so [d1].", citations=("d1",))
FULL = replace(
    ANSWER,
    contexts=(ContextChunk("It is so.", "c1", "d1"),),
    unknown_keys=("colour",),
    scores=(0.5,),
    asked_again=True,
)


@pytest.mark.parametrize("call", [GOOD, replace(BAD, said="busy", status=503), FULL])
def test_a_call_survives_its_record(call: Call) -> None:
    assert Call.from_json(call.to_json()) == call


def test_a_private_run_keeps_texts_in_memory_and_known_ids_on_disk() -> None:
    private = PrivateTexts({"d1"})
    call = replace(FULL, doc_ids=("d1", "Jane"), citations=("d1",), message="no Jane")
    written = private.withhold(call)
    assert written.doc_ids[0] == "d1"
    assert written.doc_ids[1].startswith("unknown-")
    assert (written.answer, written.contexts, written.message) == (None, (), WITHHELD)
    assert private.withhold(GOOD).message == ""
    restored = private.restore(written)
    assert restored == replace(call, doc_ids=written.doc_ids, message=WITHHELD)
    assert private.restore(BAD) == BAD
    assert repr(private) == "PrivateTexts(known={'d1'})"


def test_calls_are_read_in_the_order_asked_for_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    again = Call("q2", ("d9",), 1.0, 1, at=0.75, returned=1)
    with CallWriter(path) as writer:
        for call in (BAD, GOOD, again):
            writer.append(call)
    log = CallLog(path)
    assert list(log.read(asked("q1", "q2", "nobody"))) == [GOOD, again, None]
    assert len(log) == 2
    assert log.elapsed == 0.75


def asked(*ids: str) -> list[Query]:
    return [Query(id, "") for id in ids]


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_torn_last_line_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
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


def test_the_end_hides_no_error_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunError, match="Input/output error"), CallWriter(tmp_path / "calls.jsonl"):
        pass
    with pytest.raises(KeyError, match="first"), CallWriter(tmp_path / "calls.jsonl"):
        raise KeyError("first")


WRONG: list[dict[str, Any]] = [{"at": None}, {"doc_ids": "d1"}, {"failure": []}, {"query_id": 1}]


@pytest.mark.parametrize(
    "line", [b"not json", b"[]", *(orjson.dumps({**GOOD.to_json(), **change}) for change in WRONG)]
)
def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(line + b"\n" + orjson.dumps(GOOD.to_json()) + b"\n")
    with pytest.raises(RunError, match=r"calls\.jsonl:1: not a call record; delete that line"):
        CallLog(path)
    assert [call.query_id for call in CallTail(path).read()] == ["q1"]  # while it goes on


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with CallWriter(path):
        assert is_locked(path)
        with pytest.raises(RunError, match="another process is writing"):
            CallWriter(path)
    assert not is_locked(path)


def test_a_writer_waits_for_a_short_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    for failures, total in ((4, 0.08), (5, 0.1)):
        slept.clear()
        tries = iter([False] * failures + [True])
        monkeypatch.setattr("assay.run.calls.try_lock", lambda _file, tries=tries: next(tries))
        with nullcontext() if failures < 5 else pytest.raises(RunError, match="another process"):
            CallWriter(tmp_path / "calls.jsonl").close()
        assert sum(slept) == pytest.approx(total)


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
    assert list(CallLog(path).read(asked("q1", "q2"))) == [GOOD, BAD]


def test_a_withdrawn_failure_counts_as_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with CallWriter(path) as writer:
        writer.append(BAD)
        writer.withdraw(BAD.key)
    tail = CallTail(path)
    assert (len(tail.read()), tail.withdrawn, tail.read()) == (1, 1, [])
    assert (len(CallLog(path)), CallLog(path).elapsed) == (0, BAD.at)
