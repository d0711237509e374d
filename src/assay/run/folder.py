"""One folder for each run: `run.json`, `calls.jsonl`, `report.json` and what is made of it."""

import io
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import orjson

from assay.data import Dataset, load_dataset
from assay.data.public_sources import offline
from assay.errors import AssayError, RunError, did_you_mean
from assay.files import (
    FILE_MAX_BYTES,
    atomic_write,
    atomic_writer,
    complete_lines,
    create_file,
    is_locked,
    make_private_folder,
    open_file,
    read_file,
    read_lines,
)
from assay.metrics.answer_values import JudgeCall, StoredModel, damaged, parse_stored
from assay.metrics.metric import parse_metric
from assay.net.json import JsonObject
from assay.run.config import RunConfig, parse_tags
from assay.run.models import (
    FORMAT,
    AnswerRow,
    Comparison,
    DatasetRecord,
    GitRecord,
    MachineRecord,
    QueryRow,
    Report,
    RunHeader,
    RunState,
    SearchRow,
    TargetRecord,
    is_answered,
    require_format,
)
from assay.run.provenance import versions

LATEST = "latest"
MAX_JUDGE_CALLS = 100_000
MAX_PROMPT = 8_000
MAX_REPLY = 2_000
_CUT = " [cut]"
_ROWS = b',\n  "per_query_results": [\n'
# Rows begin at the start of a line only in files of ours.
_FIRST_ROW = _ROWS + b"{"
_END = b"]}\n"
_BLOCK = 32 * 1024
_HEADER_REMEDY = "restore it from a copy of the run, or start a new run with: assay eval"

_Row = TypeVar("_Row", bound=StoredModel)


class _File:
    """The path of a file by its name: `folder.report_file`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", _kind: type) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Reads and writes the files of one run; usable wherever a path is."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def name(self) -> str:
        """The folder's name, which starts with the time of the run."""
        return self.path.name

    calls_file = _File("calls.jsonl")  # the log of calls
    report_file = _File("report.json")  # figures and rows
    page_file = _File("report.html")
    answers_file = _File("answers.jsonl")  # one line a question, if answers were evaluated
    searches_file = _File("searches.jsonl")  # figures of recorded searches, one line a question
    judge_file = _File("judge.jsonl")  # prompts and replies of the judge; not of private runs
    comparison_file = _File("comparison.json")  # with the run's baseline
    header_file = _File("run.json")  # settings, target and data

    def read_header(self) -> RunHeader:
        """`run.json`. Raises `RunError` if it is missing, damaged or of a newer format."""
        value = _read_object(self.header_file, _HEADER_REMEDY)
        require_format(value, self.header_file)
        return RunHeader.read(value, self.header_file, _HEADER_REMEDY)

    def write_header(self, header: RunHeader) -> None:
        """Replace `run.json`."""
        atomic_write(self.header_file, header.to_json(indent=2))

    def read_config(self) -> RunConfig:
        """The settings of the run."""
        return self.read_header().config

    def is_baseline(self) -> bool:
        """Whether the run was made to compare another with."""
        try:
            return self.read_header().baseline_of is not None
        except RunError:  # opening this run by name reports what is wrong with it
            return False

    def read_report(self) -> Report:
        """The report without its rows, with the comparison if there is one."""
        report = self._read_head(self._finished_report())
        if not self.comparison_file.exists():
            return report
        remedy = (
            f"delete it, or recreate it with: assay eval --resume {self.path} --baseline TARGET"
        )
        value = _read_object(self.comparison_file, remedy)
        comparison = Comparison.read(value, self.comparison_file, remedy)
        gates = [*report.gates, *([comparison.gate] if comparison.gate else [])]
        return report.model_copy(update={"comparison": comparison, "gates": gates})

    def _read_head(self, path: Path) -> Report:
        """Everything but the rows, as quick for a large run as for a small one."""
        value, _ = _open_report(path)
        require_format(value, path)
        return Report.read(value, path, _report_remedy(path))

    def read_rows(self) -> Iterator[QueryRow]:
        """One row for each query, each with a score for every metric that the report names."""
        path = self._finished_report()
        head, number, remedy = self._read_head(path), 0, _report_remedy(path)
        keys = [parse_metric(name).key for name in head.statistics]
        for number, value in enumerate(_open_report(path)[1], start=1):
            row = QueryRow.read(value, path, remedy, f"row {number}")
            for key in keys:
                if key not in row.scores:
                    raise damaged(path, f"row {number}: {key} is not a number", remedy)
            yield row
        if number != (total := head.summary.total_queries):
            what = f"it has {number} rows, and its figures are of {total} queries"
            raise damaged(path, what, remedy)

    def read_scores(self, key: str) -> list[float]:
        """One score of every row, without validating the rows: for lists of many runs."""
        return [float(row.get(key) or 0.0) for row in _open_report(self.report_file)[1]]

    def find_row(self, query_id: str) -> QueryRow | None:
        """The row of one query; None if the run did not ask it."""
        return next((row for row in self.read_rows() if row.query_id == query_id), None)

    def read_answers(self) -> Iterator[AnswerRow]:
        """One row for each question; none if answers were not evaluated."""
        return _read_rows(
            AnswerRow, self.answers_file, f"recreate it with: assay eval --resume {self.path}"
        )

    def write_answers(self, rows: Iterable[AnswerRow]) -> None:
        """Replace `answers.jsonl`."""
        atomic_write(self.answers_file, b"".join(row.to_json() + b"\n" for row in rows))

    def read_searches(self) -> Iterator[SearchRow]:
        """One row for each question; none if no search is known."""
        return _read_rows(SearchRow, self.searches_file, "delete it")

    def write_searches(self, rows: Iterable[SearchRow]) -> None:
        """Replace `searches.jsonl`."""
        lines = (row.model_dump_json(exclude_defaults=True).encode() + b"\n" for row in rows)
        atomic_write(self.searches_file, b"".join(lines))

    def read_judge_calls(self, query_id: str) -> Iterator[JudgeCall]:
        """The judge's calls about one answer, in the order in which they were answered."""
        calls = _read_rows(JudgeCall, self.judge_file, "delete that line")
        return (call for call in calls if call.query_id == query_id)

    def write_comparison(self, comparison: Comparison) -> None:
        """Replace `comparison.json`."""
        atomic_write(self.comparison_file, comparison.to_json(indent=2))
        self.report_file.touch()  # so that lists of runs read this one again

    def copy_report(self, stream: BinaryIO) -> None:
        """The whole report as one JSON object, without holding it in memory."""
        # The other files are spliced in as text: parsing would hold every row of a large run.
        with open_file(self._finished_report()) as report:
            report.seek(len(b"{"))
            stream.write(b"{")
            if self.comparison_file.exists():
                stream.write(b'\n  "comparison": ' + read_file(self.comparison_file) + b",")
            if self.answers_file.exists():
                stream.write(b'\n  "answer_results": [')
                for number, line in enumerate(read_lines(self.answers_file)):
                    stream.write((b",\n" if number else b"\n") + line.rstrip(b"\r\n"))
                stream.write(b"\n],")
            shutil.copyfileobj(report, stream)
        stream.flush()

    def read_json(self) -> JsonObject:
        """The whole report as one JSON object, as `assay eval --json` prints it."""
        whole = io.BytesIO()
        self.copy_report(whole)
        document: JsonObject = orjson.loads(whole.getvalue())
        return document

    def validate(self) -> None:
        """Read everything once; raises `RunError` with the place of the first damage."""
        self.read_report()
        for _row in chain(self.read_rows(), self.read_answers()):
            pass

    def state(self) -> str:
        """running, complete, interrupted, target lost, not judged; unfinished after a kill."""
        # The lock goes with its process, so that a killed run never looks like a running one.
        if is_locked(self.calls_file):
            return RunState.RUNNING
        if not self.report_file.exists():
            return RunState.UNFINISHED
        return self.read_report().state

    def _finished_report(self) -> Path:
        if not self.report_file.exists():
            self.read_header()  # raises if this is not a run folder
            what = f"has no report yet; finish it with: assay eval --resume {self.path}"
            if is_locked(self.calls_file):
                what = "is still running; its report is written when it finishes"
            raise RunError(f"run {self.name!r} {what}")
        return self.report_file


class JudgeLog:
    """Appends calls to `judge.jsonl`; starts over an earlier file of the same run.

    A private run has no such file: prompts quote questions, answers and documents.
    """

    def __init__(self, folder: Path) -> None:
        self._path = RunFolder(folder).judge_file
        self._path.unlink(missing_ok=True)
        self._calls = 0

    def add(self, call: JudgeCall) -> None:
        """Keep a call about an answer; controls belong to no answer and are not kept."""
        if not call.query_id or self._calls >= MAX_JUDGE_CALLS:
            return
        self._calls += 1
        reply = None if call.reply is None else _cut(call.reply, MAX_REPLY)
        kept = call.model_copy(update={"prompt": _cut(call.prompt, MAX_PROMPT), "reply": reply})
        with self._path.open("ab") as file:
            file.write(kept.model_dump_json().encode() + b"\n")


def _cut(text: str, limit: int) -> str:
    # A lone surrogate of an agent's answer is not UTF-8, which JSON must be.
    kept = text if len(text) <= limit else f"{text[: limit - len(_CUT)]}{_CUT}"
    return kept.encode("utf-8", "replace").decode("utf-8")


def create_run(
    out: Path,
    config: RunConfig,
    dataset: Dataset,
    target: TargetRecord,
    *,
    track: str,
    references: str | None = None,
    baseline_of: str | None = None,
    retriever: Mapping[str, str] | None = None,
    provenance: tuple[GitRecord | None, MachineRecord | None] = (None, None),
) -> RunFolder:
    """Make a run's folder under `out` and write its header.

    `references` is the fingerprint of the reference answers, if answers are evaluated;
    `baseline_of` the run that this one is compared with; `retriever` has the settings of a
    built-in agent.
    """
    now = datetime.now(UTC)
    words = f"{config.label or target.title}-{dataset.name}"
    name = re.sub(r"[^A-Za-z0-9]+", "-", words).strip("-")[:60]
    # Runs that start within one second, of shards for example, need different folders.
    folder = RunFolder(out / f"{now:%Y%m%d-%H%M%S}-{name}-{secrets.token_hex(2)}")
    optional: dict[str, Any] = {} if references is None else {"references": references}
    about_run: dict[str, Any] = {"baseline_of": baseline_of} if baseline_of else {}
    if retriever:
        about_run["embedder"] = retriever.get("embedder")
        about_run["retriever"] = {k: v for k, v in retriever.items() if k != "embedder"}
    header = RunHeader(
        format=FORMAT,
        started=now.isoformat(timespec="seconds"),
        process=os.getpid(),
        config=config,
        target=target,
        track=track,
        dataset=DatasetRecord(
            name=dataset.name,
            fingerprint=dataset.fingerprint,
            labels=dataset.labels_fingerprint,
            **optional,
        ),
        versions=versions(),
        git=provenance[0],
        machine=provenance[1],
        label=config.label or None,
        tags=parse_tags(config.tags),
        note=config.note or None,
        **about_run,
    )
    try:
        make_private_folder(folder.path, exist_ok=False)
        folder.write_header(header)
    except OSError as error:
        with suppress(OSError):
            folder.path.rmdir()
        raise RunError(
            f"cannot write run folder {folder}: {error.strerror}; choose another place with --out"
        ) from error
    return folder


def find_run(reference: str, out: Path) -> RunFolder:
    """A path, a name under `out` or its start, `latest`, or the newest of a label or branch.

    A run that was made as another's baseline is never the latest: that is the run it was made for.
    """
    if path := folder_at(reference, out):
        return RunFolder(path)
    runs = list(list_runs(out))
    if reference == LATEST:
        runs = [run for run in runs if not run.is_baseline()]
        matches = runs[-1:]
    else:
        matches = [run for run in runs if run.name.startswith(reference)]
        matches = matches or _newest_named(reference, runs)
    if len(matches) == 1:
        return matches[0]
    if not runs:
        raise RunError(f"no run in {out}; create one with: assay eval")
    hint = "" if matches else did_you_mean(reference, [LATEST, *(run.name for run in runs)])
    problem = f"{len(matches)} folders are" if matches else "no run is"
    raise RunError(f"{problem} called {reference!r} under {out}; list them with: assay runs{hint}")


def is_path(reference: str) -> bool:
    """Whether a reference to a run is a path, which no caller from another machine may name."""
    return "/" in reference or "\\" in reference or reference.startswith(".")


def folder_at(reference: str, out: Path, marker: str = "run.json") -> Path | None:
    """The folder with a file `marker` of this path, or of this name in `out`; None if none is."""
    for path in (Path(reference), out / reference):
        with suppress(OSError):  # longer than a path may be: a label, perhaps
            if (path / marker).is_file():
                return path
    return None


def _newest_named(name: str, runs: Sequence[RunFolder]) -> list[RunFolder]:
    """The newest complete run of a label or branch that others can be compared with."""
    for run, _header in runs_named(name, runs):
        with suppress(AssayError, OSError):  # opening it by its own name says what is wrong
            report = run.read_report()
            summary = report.summary
            answered = is_answered(summary.successful_queries, summary.total_queries)
            if report.state == RunState.COMPLETE and answered:
                return [run]
    return []


def runs_named(name: str, runs: Sequence[RunFolder]) -> Iterator[tuple[RunFolder, RunHeader]]:
    """The runs of a label or branch, newest first, without those made as another's baseline."""
    for run in reversed(runs):
        with suppress(AssayError, OSError):
            header = run.read_header()
            named = name in (header.label, header.repository.branch)
            if named and not header.baseline_of:
                yield run, header


def list_runs(out: Path) -> Iterator[RunFolder]:
    """Oldest first: by the second in the name, then by when `run.json` was written."""

    def age(path: Path) -> tuple[str, int, str]:
        written = 0
        with suppress(OSError):  # removed in the meantime
            written = (path / "run.json").stat().st_mtime_ns
        return path.name[: len("20260131-235959")], written, path.name

    if out.is_dir():
        found = [path for path in out.iterdir() if (path / "run.json").is_file()]
        yield from map(RunFolder, sorted(found, key=age))


def find_run_dataset(header: RunHeader | Report) -> tuple[Dataset | None, str]:
    """The data that a run was made on; else None, and why in a sentence.

    Nothing is downloaded: looking at a report must not need a network.
    """
    source = header.config.dataset
    if header.config.private:
        return None, "the run is private: its page shows ids and figures only"
    try:
        with offline():
            dataset = load_dataset(source, columns=header.config.columns)
    except AssayError as error:
        return None, str(error)
    if dataset.fingerprint != header.dataset.fingerprint:
        return None, f"the data set {source!r} has changed since the run"
    return dataset, ""


def _read_rows(model: type[_Row], path: Path, remedy: str) -> Iterator[_Row]:
    """One value a line; none if the file is missing."""
    for number, line in enumerate(read_lines(path) if path.exists() else (), start=1):
        value = parse_stored(line, path, remedy, f"line {number}")
        yield model.read(value, path, remedy, f"line {number}")


def _read_object(path: Path, remedy: str) -> JsonObject:
    try:
        return parse_stored(read_file(path), path, remedy)
    except FileNotFoundError:
        raise RunError(f"{path} does not exist: {path.parent} is not a run folder") from None


# --- report.json: figures first, then one row for each query, written and read as a stream --------

# The rows of a large run take hundreds of megabytes; lists of runs need the figures only, and pages
# look at each row once. A report that another program wrote or reformatted is read as a whole.


class ReportWriter:
    """Collects rows in a file beside the report, then puts figures and rows together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows_path = path.with_name(".rows.part")
        self._rows: BinaryIO = create_file(self._rows_path)
        self._separator = b""

    def add(self, row: QueryRow) -> None:
        """Append one row."""
        self._rows.write(self._separator + row.to_json())
        self._separator = b",\n"

    def finish(self, report: Report) -> None:
        """Replace the report file, all or nothing."""
        opening = report.to_json(indent=2)[:-2]  # without its last "\n}"
        with atomic_writer(self._path) as file:
            file.write(opening + _ROWS)
            self._rows.seek(0)
            shutil.copyfileobj(self._rows, file)
            file.write(b"\n" + _END)

    def close(self) -> None:
        """Remove the file of rows, also if a full disk does not take its last bytes."""
        with suppress(OSError):
            self._rows.close()
        self._rows_path.unlink(missing_ok=True)


def _report_remedy(path: Path) -> str:
    return f"recreate it from the call log with: assay eval --resume {path.parent}"


def _open_report(path: Path) -> tuple[JsonObject, Iterator[JsonObject]]:
    """The figures, and the rows, which are read one at a time."""
    start, remedy = bytearray(), _report_remedy(path)
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            seen = max(0, len(start) - len(_FIRST_ROW))
            start += block
            if (end := start.find(_FIRST_ROW, seen)) >= 0:
                return parse_stored(bytes(start[:end]) + b"}", path, remedy), _rows(
                    path, end + len(_ROWS)
                )
            if len(start) > FILE_MAX_BYTES:
                what = f"its rows do not begin within {FILE_MAX_BYTES:,} bytes"
                raise damaged(path, what, remedy)
    value = parse_stored(bytes(start), path, remedy)
    rows = value.pop("per_query_results", None)
    if not isinstance(rows, list):
        raise damaged(path, "per_query_results is not a list", remedy)
    return value, iter(rows)


def _rows(path: Path, offset: int) -> Iterator[JsonObject]:
    for _end, line in complete_lines(path, offset, limit=FILE_MAX_BYTES):
        if line == _END:
            return
        yield parse_stored(line.rstrip(b",\n"), path, _report_remedy(path))
    raise damaged(path, "it is truncated", _report_remedy(path))
