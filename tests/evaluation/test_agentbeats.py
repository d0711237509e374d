"""AgentBeats' result file: written from runs, and read back into the same figures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.test_merge import CONFIG, figures, run, shards

from assay.data import Dataset
from assay.errors import RunError
from assay.evaluation.agentbeats import runs_in_results, submission_of
from assay.evaluation.merge import merge, merged_config

MakeDataset = Callable[[int], Dataset]


def as_the_client_writes_it(document: dict[str, Any], path: Path) -> Path:
    """With every number a double, as A2A carries them, and without a status."""
    doubles = json.loads(json.dumps(document), parse_int=float)
    del doubles["status"]
    path.write_text(json.dumps(doubles, indent=2))
    return path


@pytest.mark.parametrize("count", [1, 3])
async def test_a_result_file_merges_to_the_figures_of_the_undivided_run(
    make_dataset: MakeDataset, tmp_path: Path, count: int
) -> None:
    dataset = make_dataset(120)
    whole = await run(CONFIG, dataset, tmp_path / "whole")
    parts = await shards(count, dataset, tmp_path / "parts")
    document = submission_of(parts[::-1], "agent-id")
    file = as_the_client_writes_it(document, tmp_path / "results.json")
    found = runs_in_results(file, tmp_path / "unpacked")
    merged = await merge(found, merged_config(found), dataset, tmp_path / "merged")
    assert figures(merged.folder.read_json()) == figures(whole.folder.read_json())
    assert merged.folder.read_config() == CONFIG
    origin = merged.folder.read_header().merged_from or []
    assert [name.partition("-")[2] for name in origin] == [part.name for part in parts]


async def test_a_submission_has_the_platforms_shape(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    parts = await shards(2, make_dataset(120), tmp_path)
    document = submission_of(parts[::-1], "0b1e-uuid")
    assert list(document) == ["status", "participants", "results"]
    assert document["status"] == "completed"
    assert document["participants"] == {"retrieval_agent": "0b1e-uuid"}
    assert [each["run"] for each in document["results"]] == [part.name for part in parts]
    assert submission_of(parts)["participants"] == {"retrieval_agent": "python:agent"}
    with pytest.raises(RunError, match="missing shards of 2: 2"):
        submission_of(parts[:1])


async def test_a_run_that_lost_its_target_is_a_partial_submission(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    (part,) = await shards(1, make_dataset(120), tmp_path)
    report = part.report_file.read_text()
    assert '"state": "complete"' in report
    part.report_file.write_text(report.replace('"state": "complete"', '"state": "target lost"'))
    assert submission_of([part])["status"] == "partial"


REPORT: dict[str, Any] = {"per_query_results": [], "config": {}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "no list 'results'"),
        ('{"results": []}', "no list 'results'"),
        ('{"status": "failed", "results": [{}]}', "of a failed assessment"),
        ('{"results": [{"score": 0.5}]}', "results[0] has no 'per_query_results'"),
        ('{"results": ["text"]}', "results[0] has no 'per_query_results'"),
        (json.dumps({"results": [REPORT]}), "merge the run folders instead"),
    ],
)
def test_what_is_no_result_file_is_told(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(content)
    with pytest.raises(RunError) as raised:
        runs_in_results(file, tmp_path / "unpacked")
    assert message in str(raised.value)
    assert str(file) in str(raised.value)


async def test_a_name_in_a_result_file_cannot_leave_the_folder(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    parts = await shards(1, make_dataset(120), tmp_path / "parts")
    document = submission_of(parts)
    document["results"][0]["run"] = "../../outside"
    file = as_the_client_writes_it(document, tmp_path / "results.json")
    (found,) = runs_in_results(file, tmp_path / "unpacked")
    assert found.path == tmp_path / "unpacked" / "001"


async def test_a_number_beyond_every_integer_does_not_break_a_result_file(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    found = await shards(3, make_dataset(120), tmp_path / "runs")
    document = submission_of(found)
    document["results"][0]["note"] = [1e300, -1e300, float(2**53)]
    path = as_the_client_writes_it(document, tmp_path / "results.json")
    (tmp_path / "read").mkdir()
    assert len(runs_in_results(path, tmp_path / "read")) == 3


def test_a_result_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"results": ' + "[" * 900 + "]" * 900 + "}")
    with pytest.raises(RunError, match="nested more than 128 deep"):
        runs_in_results(path, tmp_path / "read")
