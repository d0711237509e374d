"""`report.json` in parts: the same as the whole."""

from pathlib import Path

import orjson
import pytest
from tests.evaluate.conftest import MakeDataset

from assay import Outcome, evaluate_agent
from assay.errors import RunError
from assay.evaluation.report_reading import read_head, read_rows


@pytest.fixture
def run(make_dataset: MakeDataset, tmp_path: Path) -> Outcome:
    return evaluate_agent(lambda query, top_k: ["d0"], make_dataset(7), out=tmp_path)


def test_head_and_rows_are_the_whole(run: Outcome) -> None:
    whole = orjson.loads(run.folder.report.read_bytes())
    rows = whole.pop("per_query_results")
    assert read_head(run.folder.report) == whole
    assert list(read_rows(run.folder.report)) == rows
    assert len(rows) == 7


def test_a_report_that_was_formatted_anew_is_read_all_the_same(run: Outcome) -> None:
    whole = orjson.loads(run.folder.report.read_bytes())
    run.folder.report.write_bytes(orjson.dumps(whole))
    assert list(read_rows(run.folder.report)) == whole.pop("per_query_results")
    assert read_head(run.folder.report) == whole


def test_the_head_is_found_without_looking_at_the_rows(run: Outcome) -> None:
    """What follows the head is no JSON: whoever read it would fail."""
    content = run.folder.report.read_bytes()
    start = content.index(b'"per_query_results": [')
    run.folder.report.write_bytes(content[:start] + b'"per_query_results": [ nonsense')
    assert read_head(run.folder.report)["state"] == "complete"


def test_a_cut_report_is_called_damaged(run: Outcome) -> None:
    run.folder.report.write_bytes(run.folder.report.read_bytes()[:300])
    with pytest.raises(RunError, match="damaged"):
        read_head(run.folder.report)
