"""`assay compare --overlap`: how far rankings differ, without a judgment."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay import Dataset, Run, evaluate
from assay.cli.app import app
from assay.errors import RunError
from assay.report.html_comparison import ComparedSide, render_comparison_page
from assay.run.overlap import compare_run_rankings

QUERIES = {f"q{i}": f"query {i}" for i in range(6)}


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Run, Run]:
    first_set = Dataset.from_dicts(QUERIES, {q: {"a": 1} for q in QUERIES}, name="one")
    other_labels = Dataset.from_dicts(QUERIES, {q: {"z": 1} for q in QUERIES}, name="two")

    def changed(query: str, top_k: int) -> list[str]:
        number = int(query.split()[1])
        if number == 5:
            raise ConnectionError("down")
        return [["a", "b", "c"], ["b", "a", "c"], ["x", "y", "z"]][min(number, 2)]

    one = evaluate(lambda query, top_k: ["a", "b", "c"], first_set, label="old", out=tmp_path)
    two = evaluate(changed, other_labels, label="new", retries=0, out=tmp_path)
    return one, two


def test_rankings_are_compared_whatever_the_labels_are(runs: tuple[Run, Run]) -> None:
    found = compare_run_rankings(runs[0].folder, runs[1].folder)
    assert (found.queries, found.identical, found.disjoint, found.same_first) == (5, 1, 3, 1)
    assert found.shared == pytest.approx(2 / 5)
    assert [each.query_id for each in found.changed] == ["q2", "q3", "q4", "q1"]
    assert found.changed[-1].swapped == 1
    assert "(new) against" in found.title
    assert found.warnings == ["1 queries failed in one of the runs and are left out"]


def test_the_command_prints_a_table_or_json(runs: tuple[Run, Run]) -> None:
    folders = [str(run.folder) for run in runs]
    shown = CliRunner().invoke(app, ["compare", "--overlap", *folders], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    for words in ("queries that changed most", "q2 query 2", "Only judgments can tell"):
        assert words in " ".join(shown.output.split())
    result = CliRunner().invoke(app, ["compare", "--overlap", "--json", *folders])
    value = json.loads(result.stdout)
    assert value["queries"] == 5
    assert value["changed"][0]["query_id"] == "q2"


def test_the_page_of_a_comparison_has_it(tmp_path: Path) -> None:
    data = Dataset.from_dicts(QUERIES, {q: {"a": 1} for q in QUERIES})
    one = evaluate(lambda query, top_k: ["a", "b"], data, label="old", out=tmp_path)
    two = evaluate(lambda query, top_k: ["b", "a"], data, label="new", out=tmp_path)
    sides = [ComparedSide.read(run.folder) for run in (one, two)]
    page = render_comparison_page(sides, [two.compare(one)])
    assert "How far the rankings differ" in page
    assert "the same first document: 0" in page


def test_runs_without_a_common_answer_are_refused(tmp_path: Path) -> None:
    one = evaluate(lambda q, k: ["a"], Dataset.from_dicts({"q1": "x"}, {"q1": ["a"]}), out=tmp_path)
    two = evaluate(lambda q, k: ["a"], Dataset.from_dicts({"q2": "x"}, {"q2": ["a"]}), out=tmp_path)
    with pytest.raises(RunError, match="no query that both answered"):
        compare_run_rankings(one.folder, two.folder)


def test_options_that_have_no_effect_are_refused(runs: tuple[Run, Run]) -> None:
    folders = [str(run.folder) for run in runs]
    result = CliRunner().invoke(app, ["compare", "--overlap", "--metric", "ndcg@5", *folders])
    assert result.exit_code != 0
