"""`report.json` in parts: the same as the whole."""

from pathlib import Path

import jsonschema
import orjson
import pytest
from tests.conftest import MakeDataset

import assay
from assay import Run
from assay.errors import RunError
from assay.run.folder import (
    ReportWriter,
)


@pytest.fixture
def run(make_dataset: MakeDataset, tmp_path: Path) -> Run:
    return assay.evaluate(lambda query, top_k: ["d0"], make_dataset(7), out=tmp_path)


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
def test_the_figures_are_found_wherever_a_block_ends(
    run: Run, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows them is no JSON: whoever read it would fail."""
    monkeypatch.setattr("assay.run.folder._BLOCK", block)
    content = run.folder.report_file.read_bytes()
    start = content.index(b'"per_query_results": [')
    run.folder.report_file.write_bytes(content[:start] + b'"per_query_results": [\n{ nonsense')
    assert run.folder.read_report().to_json() == run.report.to_json()


def test_a_full_disk_leaves_no_rows_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing writes what is in the buffer, which a full disk refuses."""

    writer = ReportWriter(tmp_path / "report.json")
    rows = writer._rows

    class Full:
        def close(self) -> None:
            rows.close()
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "_rows", Full())
    writer.close()
    assert list(tmp_path.iterdir()) == []
    writer.close()  # twice, or after the folder was removed


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
    for damaged, wanted in ((0, 6), (6, 0)):
        path.write_bytes(content.replace(rows[damaged].to_json(), b'{"nonsense'))
        assert run.folder.find_row(rows[wanted].query_id) == rows[wanted]
    assert next(run.folder.read_rows()) == rows[0]
