"""Run folders: their names, how one is found again, and where exactly something is damaged."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from tests.tiny_dataset import tiny_dataset

import assay
from assay import Run
from assay.data import Dataset, load_dataset
from assay.errors import RunError
from assay.files import FileLock
from assay.metrics.answer_values import JudgeCall
from assay.run.config import RunConfig
from assay.run.folder import (
    JudgeLog,
    RunFolder,
    create_run,
    find_run,
    find_run_dataset,
    is_path,
    list_runs,
)
from assay.run.listing import list_lines
from assay.run.models import RunState, TargetRecord
from assay.run.provenance import versions

TARGET = TargetRecord(name="python:f", protocol="python", details="")


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., RunFolder]:
    data = tiny_dataset(1)

    def make(target: str = "python:f", baseline_of: str | None = None) -> RunFolder:
        config = RunConfig(target, dataset="tiny", label="nightly", note="a note")
        return create_run(
            tmp_path, config, data, TARGET, track="t", references="r1", baseline_of=baseline_of
        )

    return make


def test_the_line_of_a_damaged_answer_is_named(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text("{\n")
    with pytest.raises(RunError, match=r"answers\.jsonl is damaged: line 1: .*; recreate"):
        list(RunFolder(tmp_path).read_answers())


def test_a_name_has_the_time_the_label_and_the_data_set(made: Callable[..., RunFolder]) -> None:
    run = made("a2a:http://host:9/" + "x" * 100)
    date, time, *words = run.name.split("-")
    began = datetime.strptime(f"{date}-{time}", "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - began).total_seconds()) < 60
    assert words[0] == "nightly"
    assert len(words[-1]) == 4
    assert len(run.name) <= len("20260131-235959-") + 60 + len("-0123")
    assert run.path.stat().st_mode & 0o777 == 0o700
    header = run.read_header()
    assert header.process == os.getpid()
    assert header.versions == versions()
    assert (header.baseline_of, header.dataset.references) == (None, "r1")
    assert (header.label, header.note) == ("nightly", "a note")


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(
    made: Callable[..., RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("assay.run.folder.atomic_write", full)
    with pytest.raises(
        RunError, match=r"cannot write run folder .*: No space left on device; .*--out"
    ):
        made()
    assert list(tmp_path.iterdir()) == []


def test_the_latest_run_is_no_baseline(made: Callable[..., RunFolder], tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no run in .*; create one with: assay eval"):
        find_run("latest", tmp_path)
    first, second = made("python:first"), made("python:second")
    os.utime(first.header_file, ns=(1, 1))  # clocks of file systems tick every few milliseconds
    made("python:third", baseline_of=second.name)
    assert find_run("latest", tmp_path).name == second.name
    assert find_run(first.name[:-2], tmp_path).name == first.name
    assert find_run(str(first), tmp_path / "elsewhere").name == first.name
    with pytest.raises(RunError, match=f"3 folders are called '{first.name[:4]}'"):
        find_run(first.name[:4], tmp_path)
    for reference in ("x", "x" * 5000, "x\0", "../x"):
        with pytest.raises(RunError, match="no run is called"):
            find_run(reference, tmp_path)


def test_the_newest_complete_run_of_a_label_is_found(tmp_path: Path) -> None:
    for _ in range(2):
        assay.evaluate(lambda query, top_k: ["d0"], tiny_dataset(1), out=tmp_path, label="main")
    newest = list(list_runs(tmp_path))[-1].name
    assert find_run("main", tmp_path).name == newest
    with pytest.raises(RunError, match=r"no run is called 'lates'.*Did you mean 'latest'"):
        find_run("lates", tmp_path)


def test_the_data_of_a_run_is_found_where_it_is_the_same(tmp_path: Path) -> None:
    def found(data: Dataset, **config: Any) -> tuple[Dataset | None, str]:
        settings = RunConfig("python:f", **config)
        return find_run_dataset(
            create_run(tmp_path, settings, data, TARGET, track="t").read_header()
        )

    notes = load_dataset("notes")
    same, why = found(notes, dataset="notes")
    assert (same and same.fingerprint, why) == (notes.fingerprint, "")
    for config, reason in (
        ({"dataset": "notes"}, "has changed since the run"),
        ({"dataset": "beir:quora"}, "is not on this machine"),
        ({"dataset": "notes", "private": True}, "the run is private"),
    ):
        data, why = found(tiny_dataset(1), **config)
        assert data is None
        assert reason in why


def test_runs_of_one_second_are_in_order(made: Callable[..., RunFolder], tmp_path: Path) -> None:
    """Their names end with something random."""
    for number, end in enumerate(("b", "c", "a")):
        path = made().path.rename(tmp_path / f"20260131-235959-{end}")
        os.utime(path / "run.json", ns=(number, number))
    made().path.rename(tmp_path / "20260131-235958-z")
    (tmp_path / "no-run").mkdir()
    assert [run.name[-1] for run in list_runs(tmp_path)] == ["z", "b", "c", "a"]
    assert list(list_runs(tmp_path / "nowhere")) == []


def test_the_state_of_a_run_without_a_report(made: Callable[..., RunFolder]) -> None:
    run = made()
    assert run.state() == RunState.UNFINISHED
    with pytest.raises(RunError, match="has no report yet; finish it with: assay eval --resume"):
        run.read_report()
    with FileLock(run.calls_file):
        assert run.state() == RunState.RUNNING
        with pytest.raises(RunError, match="is still running; its report is written when"):
            run.read_report()
    with pytest.raises(RunError, match=r"does not exist: .* is not a run folder"):
        RunFolder(run.path / "x").read_report()


def test_a_run_in_a_state_of_another_version_opens(tmp_path: Path) -> None:
    folder = assay.evaluate(lambda query, top_k: ["d0"], tiny_dataset(1), out=tmp_path).folder
    written = folder.report_file.read_text()
    assert '"state": "complete"' in written
    folder.report_file.write_text(written.replace('"state": "complete"', '"state": "paused"', 1))
    assert folder.read_report().state == folder.state() == "paused"
    assert [line.state for line in list_lines(tmp_path)] == ["paused"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return assay.evaluate(lambda query, top_k: ["d0"], tiny_dataset(7), out=tmp_path)


def test_figures_and_rows_are_the_whole(run: Run) -> None:
    file = run.folder.report_file
    whole = orjson.loads(file.read_bytes())
    rows = whole.pop("per_query_results")
    assert len(rows) == 7
    assert orjson.loads(run.folder.read_report().to_json()) == whole
    assert [orjson.loads(row.to_json()) for row in run.folder.read_rows()] == rows
    assert run.folder.read_report() == run.report


def test_the_whole_has_the_comparison_and_the_answers(run: Run) -> None:
    folder, report = run.folder, run.folder.read_json()
    folder.comparison_file.write_text('{"difference": 0.5}')
    folder.answers_file.write_bytes(b'{"n": 1}\r\n{"n": 2}\n{"n": 3}\n')
    assert folder.read_json() == {
        **report,
        "comparison": {"difference": 0.5},
        "answer_results": [{"n": 1}, {"n": 2}, {"n": 3}],
    }


@pytest.mark.parametrize("block", [1, 7, 100, 32 * 1024])
def test_figures_are_read_by_blocks(run: Run, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows them is no JSON: whoever read it would fail."""
    monkeypatch.setattr("assay.run.folder._BLOCK", block)
    content = run.folder.report_file.read_bytes()
    start = content.index(b'"per_query_results": [')
    run.folder.report_file.write_bytes(content[:start] + b'"per_query_results": [\n{ nonsense')
    assert run.folder.read_report().to_json() == run.report.to_json()


@pytest.mark.parametrize("formatted", [False, True])
def test_rows_are_read_and_found_however_they_are_formatted(run: Run, formatted: bool) -> None:
    path, rows = run.folder.report_file, list(run.rows())
    if formatted:  # by another program
        path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()), option=orjson.OPT_INDENT_2))
    assert (run.folder.read_report(), list(run.rows())) == (run.report, rows)
    assert [run.folder.find_row(row.query_id) for row in rows] == rows
    assert run.folder.find_row("nobody") is None


@pytest.mark.parametrize("left", [0, 5])
def test_rows_that_were_cut_are_noticed(run: Run, left: int) -> None:
    content = orjson.loads(run.folder.report_file.read_bytes())
    content["per_query_results"] = content["per_query_results"][:left]
    run.folder.report_file.write_bytes(orjson.dumps(content))
    with pytest.raises(RunError, match=f"it has {left} rows, and its figures are of 7 queries"):
        run.folder.validate()


@pytest.mark.parametrize("file", ["run.json", "report.json"])
def test_a_setting_of_a_newer_version_is_not_called_damage(run: Run, file: str) -> None:
    path = run.folder / file
    value = orjson.loads(path.read_bytes())
    value["config"]["future_option"] = 1
    path.write_bytes(orjson.dumps(value))
    with pytest.raises(RunError, match=r"newer Assay \(unknown settings \['future_option'\]\)"):
        run.folder.read_header() if file == "run.json" else run.folder.read_report()


def test_a_run_is_valid_by_its_published_schema(run: Run) -> None:
    folder = Path(__file__).parents[2] / "docs" / "schemas" / "run"
    for file in ("run.json", "report.json"):
        schema = orjson.loads((folder / file).read_bytes())
        jsonschema.validate(orjson.loads((run.folder.path / file).read_bytes()), schema)


def test_rows_are_read_one_at_a_time(run: Run) -> None:
    """The one that is damaged is missed by nobody who does not ask for it."""
    path, rows = run.folder.report_file, list(run.rows())
    content = path.read_bytes()
    path.write_bytes(content.replace(rows[6].to_json(), b'{"nonsense'))
    assert run.folder.find_row(rows[0].query_id) == rows[0]


def test_the_log_of_a_judge_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.run.folder.MAX_JUDGE_CALLS", 2)
    log = JudgeLog(tmp_path)
    call = JudgeCall(query_id="q", kind="correctness", prompt="?", reply=None, verdict=None)
    log.add(call.model_copy(update={"query_id": ""}))  # a control
    for reply in (None, "TRUE", "FALSE"):  # None: it refused
        log.add(call.model_copy(update={"reply": reply}))
    lines = RunFolder(tmp_path).judge_file.read_bytes().splitlines()
    assert [orjson.loads(line)["reply"] for line in lines] == [None, "TRUE"]


@pytest.mark.parametrize(
    ("reference", "path"), [("a/b", True), ("a\\b", True), ("..", True), ("2026-run.1", False)]
)
def test_a_reference_is_a_path_or_a_name(reference: str, path: bool) -> None:
    assert is_path(reference) is path
