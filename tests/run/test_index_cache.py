"""The list of runs from the cache: nothing is read twice, and nothing that changed is missed."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from assay import Dataset, evaluate
from assay.run.folder import RunFolder
from assay.run.index import RunIndex, read_summary
from assay.run.listing import _TABLE, ListedRun, Signature, list_lines

DATA = Dataset.from_dicts({"q1": "x"}, {"q1": ["a"]})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the runs whose files are read."""
    names: list[str] = []

    def counted(run, signature):  # type: ignore[no-untyped-def]
        names.append(run.name)
        return read_summary(run, signature)

    monkeypatch.setattr("assay.run.index.read_summary", counted)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return names


def test_a_run_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    run = evaluate(lambda q, k: ["a"], DATA, label="first", out=tmp_path / "runs")
    first = list_lines(tmp_path / "runs")
    assert list_lines(tmp_path / "runs") == first
    assert reads == [run.name]
    assert (first[0].label, first[0].mean) == ("first", 1.0)


def test_a_run_that_changed_is_read_again_and_one_that_is_gone_is_not_listed(
    tmp_path: Path, reads: list[str]
) -> None:
    runs = tmp_path / "runs"
    one = evaluate(lambda q, k: ["a"], DATA, out=runs)
    two = evaluate(lambda q, k: ["a"], DATA, out=runs)
    list_lines(runs)
    report = two.folder.report_file
    report.write_bytes(report.read_bytes().replace(b'"complete"', b'"interrupted"', 1))
    one.folder.report_file.unlink()
    (one.folder.path / "run.json").unlink()
    reads.clear()
    (line,) = list_lines(runs)
    assert (line.name, line.state) == (two.name, "interrupted")
    assert reads == [two.name]


def test_a_list_that_is_interrupted_keeps_what_was_read(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    for _ in range(3):
        evaluate(lambda q, k: ["a"], DATA, out=runs)
    monkeypatch.setattr("assay.run.listing._BATCH", 2)
    with monkeypatch.context() as patched:
        patched.setattr("assay.run.index.read_summary", interrupting(after=2))
        with pytest.raises(KeyboardInterrupt):
            list_lines(runs)
    assert len(list_lines(runs)) == 3
    assert len(reads) == 1


def interrupting(after: int) -> Callable[..., ListedRun]:
    left = iter(range(after))

    def read(run: RunFolder, signature: Signature) -> ListedRun:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return read_summary(run, signature)

    return read


def test_folders_do_not_share_a_list(tmp_path: Path, reads: list[str]) -> None:
    for name in ("one", "two"):
        evaluate(lambda q, k: ["a"], DATA, label=name, out=tmp_path / name)
    assert [list_lines(tmp_path / name)[0].label for name in ("one", "two")] == ["one", "two"]


def test_a_damaged_run_is_looked_at_every_time(tmp_path: Path, reads: list[str]) -> None:
    run = evaluate(lambda q, k: ["a"], DATA, out=tmp_path / "runs")
    run.folder.report_file.write_text("{")
    for _ in range(2):
        assert list_lines(tmp_path / "runs")[0].state == "damaged"
    assert len(reads) == 2


def test_a_cache_that_cannot_be_written_costs_only_time(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file" / "x"))
    evaluate(lambda q, k: ["a"], DATA, out=tmp_path / "runs")
    assert len(list_lines(tmp_path / "runs")) == 1


def test_a_damaged_cache_is_made_anew(tmp_path: Path, reads: list[str]) -> None:
    evaluate(lambda q, k: ["a"], DATA, out=tmp_path / "runs")
    list_lines(tmp_path / "runs")
    (database,) = (tmp_path / "cache" / "runs").glob("*.sqlite")
    database.write_bytes(b"not a database" * 100)
    assert len(list_lines(tmp_path / "runs")) == 1


@pytest.mark.parametrize("line", ["{", "7", '{"name": 1}', '{"what": 5}'])
def test_a_row_that_assay_did_not_write_is_read_from_the_run_again(
    tmp_path: Path, reads: list[str], line: str
) -> None:
    run = evaluate(lambda q, k: ["a"], DATA, label="first", out=tmp_path / "runs")
    right = list_lines(tmp_path / "runs")
    (path,) = (tmp_path / "cache" / "runs").glob("*.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {_TABLE} SET line = ?", [line])
    assert list_lines(tmp_path / "runs") == right
    assert list_lines(tmp_path / "runs") == right
    assert reads == [run.name] * 2  # the row was replaced


def test_the_index_of_the_pages_reads_no_run_whose_summary_is_in_the_cache(
    tmp_path: Path, reads: list[str]
) -> None:
    runs = tmp_path / "runs"
    one = evaluate(lambda q, k: ["a"], DATA, gates=["ndcg@5>=0.5"], out=runs)
    list_lines(runs)
    reads.clear()
    index = RunIndex(runs)
    index.refresh()
    (point,) = index.trend_points(index.lines())
    assert point.values["ndcg@5"].mean == 1.0
    assert point.bounds == {"ndcg@5": 0.5}
    assert reads == []
    two = evaluate(lambda q, k: [], DATA, out=runs)
    index.refresh()
    assert len(index.trend_points(index.lines())) == 2
    assert reads == [two.name]
    one.folder.report_file.unlink()
    (one.folder.path / "run.json").unlink()
    index.refresh()
    assert [line.name for line in list_lines(runs)] == [two.name]
    assert reads == [two.name]


@pytest.mark.parametrize("name", ["half\udcff", "a\r\nb: c", "\x1b[2J", "\u202ebackwards"])
def test_a_folder_with_a_name_that_nothing_can_show_is_passed_over(
    tmp_path: Path, reads: list[str], name: str
) -> None:
    run = evaluate(lambda q, k: ["a"], DATA, out=tmp_path / "runs")
    shutil.copytree(run.folder.path, tmp_path / "runs" / name)
    index = RunIndex(tmp_path / "runs")
    index.refresh()
    assert [line.name for line in (*list_lines(tmp_path / "runs"), *index.lines())] == [
        run.name,
        run.name,
    ]


@pytest.mark.parametrize("facts", ["x'7b'", "x'5b5d'", "'text'", "x'7b2276616c756573223a317d'"])
def test_facts_that_assay_did_not_write_are_read_from_the_run(
    tmp_path: Path, reads: list[str], facts: str
) -> None:
    run = evaluate(lambda q, k: ["a"], DATA, out=tmp_path / "runs")
    list_lines(tmp_path / "runs")
    (path,) = (tmp_path / "cache" / "runs").glob("*.sqlite")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {_TABLE} SET facts = {facts}")
    index = RunIndex(tmp_path / "runs")
    index.refresh()
    (point,) = index.trend_points(index.lines())
    assert point.values["ndcg@5"].mean == 1.0
    assert reads == [run.name] * 2
