"""`calls.jsonl`: one line a call, appended and flushed at once; the source of truth of a run.

A process that dies in the middle of a line leaves a torn one; it is cut off when the run is
resumed, and skipped when it is read.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Self

import orjson
from pydantic import TypeAdapter

from assay.data.dataset import Dataset, Query
from assay.errors import FailureKind, RunError
from assay.files import UnreadableFile, complete_lines, open_file, open_to_append, try_lock
from assay.llm.passages import ContextChunk
from assay.net.json import JsonObject, parse_object
from assay.net.redact import hide
from assay.privacy import WITHHELD
from assay.steps import AnswerUsage, SearchStep, StepLog, step_lines

WITHDRAWN = "withdrawn"

# A page that shows progress reads again in a moment, and must not wait for a log of gigabytes.
_MAX_READ = 64 * 2**20
# `is_locked` takes the lock for an instant, so one failed try does not mean another writer.
_LOCK_TRIES, _LOCK_PAUSE = 5, 0.02


@dataclass(frozen=True, slots=True)
class Call:
    """One query sent to the target, with its outcome; a line of `calls.jsonl`.

    `at` is in seconds from the start of the run, without the time between interruption and
    resumption. `returned` counts the ids that came, of which only the first are kept. `contexts`
    are the passages that the agent showed to its model, if it says; `scores` are those of the
    documents, as the agent gave them.
    `asked_again` marks a query that had timed out before, and was then asked alone. `message` says
    how a call failed, `status` is the HTTP status of the response, if there was one, and `said`
    what the agent itself said about it. `trial` counts from 1 with repeated questions, and
    is 0 otherwise; `steps` are the agent's searches, which `steps.jsonl` holds. `withdrawn` takes
    an earlier failure back: the query counts as not asked.
    """

    query_id: str
    doc_ids: tuple[str, ...]
    latency_ms: float
    attempts: int
    at: float = 0.0
    failure: FailureKind | None = None
    message: str = ""
    returned: int = 0
    answer: str | None = None
    citations: tuple[str, ...] = ()
    contexts: tuple[ContextChunk, ...] = ()
    unknown_keys: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    doc_types: tuple[str, ...] = ()
    relevance_source: str = ""
    asked_again: bool = False
    said: str = ""
    status: int | None = None
    trial: int = 0
    steps: tuple[SearchStep, ...] = ()
    usage: AnswerUsage | None = None
    withdrawn: bool = False

    @property
    def key(self) -> "AskKey":
        """What a log knows the call by."""
        return self.query_id, self.trial

    def to_json(self) -> JsonObject:
        """The line of the log."""
        record: JsonObject = {
            "query_id": self.query_id,
            "status": WITHDRAWN if self.withdrawn else "ok" if self.failure is None else "failed",
            "at": round(self.at, 3),
            "latency_ms": round(self.latency_ms, 3),
            "attempts": self.attempts,
        }
        if self.failure is None:
            record |= {"doc_ids": self.doc_ids, "returned": self.returned}
        else:
            more = {"status": self.status, "said": self.said}
            record["failure"] = {"kind": self.failure, "message": self.message} | {
                name: value for name, value in more.items() if value
            }
        if self.answer is not None:
            record |= {"answer": self.answer, "citations": self.citations}
        if self.doc_types:
            record |= {"doc_types": self.doc_types, "relevance_source": self.relevance_source}
        optional = {
            "scores": self.scores,
            "contexts": [asdict(chunk) for chunk in self.contexts],
            "unknown_keys": self.unknown_keys,
            "asked_again": self.asked_again,
            "trial": self.trial,
            "searches": len(self.steps),
            "usage": self.usage and self.usage.to_json(),
        }
        return record | {name: value for name, value in optional.items() if value}

    def without(self, secrets: Sequence[str]) -> "Call":
        """The call with `***` for each of these values, wherever the target has put it."""

        def hidden(texts: Sequence[str]) -> tuple[str, ...]:
            return tuple(hide(text, secrets) for text in texts)

        return replace(
            self,
            doc_ids=hidden(self.doc_ids),
            message=hide(self.message, secrets),
            answer=None if self.answer is None else hide(self.answer, secrets),
            citations=hidden(self.citations),
            contexts=tuple(
                ContextChunk(*hidden((chunk.text, chunk.id, chunk.doc_id)))
                for chunk in self.contexts
            ),
            unknown_keys=hidden(self.unknown_keys),
            said=hide(self.said, secrets),
            steps=tuple(
                replace(step, query=hide(step.query, secrets), doc_ids=hidden(step.doc_ids))
                for step in self.steps
            ),
        )

    @classmethod
    def from_json(cls, record: JsonObject) -> "Call":
        """Raises KeyError, TypeError or ValueError if this is not a call record."""
        found = {name: record[name] for name in _FIELDS & record.keys()}
        found |= {"doc_ids": record.get("doc_ids", ()), "at": record["at"], "failure": None}
        found["withdrawn"] = record["status"] == WITHDRAWN
        if (failure := record.get("failure")) is not None:
            found |= {"failure": failure["kind"], "message": failure["message"]}
            found |= {"said": failure.get("said", ""), "status": failure.get("status")}
        return _call_adapter().validate_python(found)


_NOT_IN_RECORD = {"message", "said", "status", "steps", "withdrawn"}
_FIELDS = {each.name for each in fields(Call)} - _NOT_IN_RECORD


@cache
def _call_adapter() -> TypeAdapter[Call]:
    return TypeAdapter(Call)


AskKey = tuple[str, int]  # A query and the number of its trial


def with_quote(message: str, said: str) -> str:
    """How a failure is shown: what is known of it, then the agent's own words, if there are any."""
    return f"{message}; it said: {said}" if said else message


class CallWriter:
    """Appends to a log; only one process may at a time.

    Parameters:
        path: the file.
        private: withholds the texts of a private run.
    """

    def __init__(self, path: Path, private: "PrivateTexts | None" = None) -> None:
        self._path = path
        self._private = private
        self._open: dict[Path, int] = {}  # descriptors
        try:
            self._open[path] = open_to_append(path)
            try:
                for _ in range(_LOCK_TRIES):
                    if try_lock(self._open[path]):
                        break
                    time.sleep(_LOCK_PAUSE)
                else:
                    raise RunError(f"another process is writing {path.parent}; wait for its end")
                _cut_torn_line(path, self._open[path])
            except BaseException:
                os.close(self._open[path])
                raise
        except OSError as error:
            raise _cannot_write(path, error) from None

    def append(self, call: Call) -> None:
        """Write one line and hand it to the operating system at once."""
        # Not synced line by line: that survives a kill too, and a power cut costs the last calls.
        call = call if self._private is None else self._private.withhold(call)
        if call.steps:  # first: a call in the log has its searches, whenever the process dies
            path = steps_file(self._path)
            if path not in self._open:
                self._open[path] = open_to_append(path)
                _cut_torn_line(path, self._open[path])
            self._write(path, step_lines(*call.key, call.steps))
        self._write(self._path, orjson.dumps(call.to_json(), option=orjson.OPT_APPEND_NEWLINE))

    def withdraw(self, key: AskKey) -> None:
        """Withdraw a failure that an outage caused: the query counts as not asked."""
        # Another line, because the log is only ever appended to: a kill cannot lose the failure.
        query_id, trial = key
        self.append(Call(query_id, (), 0, 0, trial=trial, withdrawn=True))

    def close(self) -> None:
        """Sync the log to disk and release its lock, which is released in any case."""
        try:
            os.fsync(self._open[self._path])
        except OSError as error:
            raise _cannot_write(self._path, error) from None
        finally:
            for descriptor in self._open.values():
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        # The error that ended the block says what is wrong, and not one of closing.
        with suppress(RunError) if kind else nullcontext():
            self.close()

    def _write(self, path: Path, content: bytes) -> None:
        descriptor = self._open[path]
        written = os.write(descriptor, content)
        if written != len(content):  # a disk that fills up takes a part of the line
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise OSError(f"{path} accepted only {written} of {len(content)} bytes")


def _cut_torn_line(path: Path, descriptor: int) -> None:
    end = max((end for end, _ in complete_lines(path)), default=0)
    if end != os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, end)


def _cannot_write(path: Path, error: OSError) -> RunError:
    remedy = "make its folder writable, or continue a copy of the run"
    return RunError(f"cannot write {path}: {error.strerror}; {remedy}")


class CallLog:
    """Reads calls one at a time, by query, and keeps only their offsets: a run may have 100,000.

    `elapsed` is when the last call came back, in seconds from the start of the run. `private`
    gives a private run back the answers that were not written.
    """

    def __init__(self, path: Path, private: "PrivateTexts | None" = None) -> None:
        self._path = path
        self._private = private
        self._offsets: dict[AskKey, int] = {}
        self._steps = StepLog(steps_file(path))
        self.elapsed = 0.0
        lines = complete_lines(path) if path.exists() else ()
        for number, (end, line) in enumerate(lines, start=1):
            if (call := _read_call(line)) is None:
                remedy = "delete that line and resume the run to repeat its query"
                raise RunError(f"{path}:{number}: not a call record; {remedy}")
            self._offsets[call.key] = end - len(line)
            if call.withdrawn:
                del self._offsets[call.key]
            self.elapsed = max(self.elapsed, call.at)

    def __contains__(self, query: Query) -> bool:
        return (query.id, query.trial) in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, queries: Iterable[Query]) -> Iterator[Call | None]:
        """The last call of each query, in the order asked for; None if there is none."""
        with open_file(self._path) if self._offsets else nullcontext() as lines:
            for query in queries:
                offset = self._offsets.get((query.id, query.trial))
                if lines is None or offset is None:
                    yield None
                    continue
                lines.seek(offset)
                record = orjson.loads(lines.readline())
                call = Call.from_json(record)
                if record.get("searches"):
                    call = replace(call, steps=self._steps.read(*call.key))
                yield call if self._private is None else self._private.restore(call)


def first_failure(path: Path) -> str:
    """How the first failed call of a log failed, with the agent's words; empty if none did.

    Calls of a target that was lost are withdrawn from the results, and only the log has them.
    """
    for _, line in complete_lines(path) if path.exists() else ():
        if (call := _read_call(line)) is not None and call.failure is not None:
            return f"{call.failure}: {with_quote(call.message, call.said)}"
    return ""


def steps_file(calls: Path) -> Path:
    """Where the searches of a log of calls are: `calls.jsonl` has `steps.jsonl`."""
    return calls.with_name(calls.name.replace("calls", "steps", 1))


def _read_call(line: bytes) -> Call | None:
    """None for a line that is no record of a call."""
    with suppress(KeyError, TypeError, ValueError):
        return Call.from_json(parse_object(line) or {})
    return None


class CallTail:
    """The calls that a growing log has gained; a torn last line waits for its end.

    `withdrawn` counts the failures that were taken back: those queries are asked again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.withdrawn = 0

    def read(self) -> list[Call]:
        """The calls since the last time, at most 64 MB of them; the others the next time."""
        calls: list[Call] = []
        limit = self._offset + _MAX_READ
        # Damaged lines are skipped: a progress bar is no place for the error of `CallLog`.
        with suppress(FileNotFoundError, UnreadableFile):
            for end, line in complete_lines(self._path, self._offset):
                self._offset = end
                if (call := _read_call(line)) is not None:
                    self.withdrawn += call.withdrawn
                    calls += [] if call.withdrawn else [call]
                if end >= limit:
                    break
        return calls


@dataclass(frozen=True, slots=True)
class PrivateTexts:
    """The texts of one private run.

    Parameters:
        known: the ids of the data set, which may be written.
    """

    known: Container[str]
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _answers: dict[AskKey, Call] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, dataset: Dataset, also: Collection[str] = ()) -> "PrivateTexts":
        """For a run on `dataset`; known are its documents, judged ids and those of `also`."""
        judged = {
            doc_id
            for split in dataset.judgments.values()
            for grades in split.values()
            for doc_id in grades
        }
        return cls(judged | dataset.documents.keys() | set(also))

    def withhold(self, call: Call) -> Call:
        """The call as it may be written; its answer is remembered here."""
        steps = tuple(replace(s, doc_ids=tuple(map(self._id, s.doc_ids))) for s in call.steps)
        citations = tuple(map(self._id, call.citations))
        self._answers[call.key] = replace(call, citations=citations, steps=steps)
        # Field by field: one that a later version adds is withheld until it is listed here.
        return Call(
            query_id=call.query_id,
            doc_ids=tuple(map(self._id, call.doc_ids)),
            latency_ms=call.latency_ms,
            attempts=call.attempts,
            at=call.at,
            failure=call.failure,
            message=WITHHELD if call.message else "",
            returned=call.returned,
            scores=call.scores,
            asked_again=call.asked_again,
            status=call.status,
            trial=call.trial,
            steps=tuple(replace(step, query="", tool="") for step in steps),
            usage=call.usage,
            withdrawn=call.withdrawn,
        )

    def restore(self, call: Call) -> Call:
        """The call with the answer that it had, if it was asked in this process."""
        kept = self._answers.get(call.key)
        return call if kept is None else replace(kept, doc_ids=call.doc_ids, message=call.message)

    def _id(self, doc_id: str) -> str:
        if doc_id in self.known:
            return doc_id
        digest = hashlib.blake2b(doc_id.encode("utf-8", "surrogatepass"), key=self._key)
        return f"unknown-{digest.hexdigest()[:12]}"
