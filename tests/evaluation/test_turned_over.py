"""Judged ids that vanish: noticed, typed in the report, and never called a regression."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay import Dataset, Document, Run, evaluate
from assay.cli.app import app
from assay.data import load_dataset
from assay.evaluation.compare_to import regression_gate
from assay.report.ci import render_markdown
from assay.report.terminal import plain_text, render_comparison
from assay.run.models import Report

QUERIES = 30


def questions(with_documents: bool = False, prefix: str = "d") -> Dataset:
    """Question i is answered by d{i}; documents are keyed by `prefix`."""
    queries = {f"q{i}": f"query {i}" for i in range(QUERIES)}
    judgments = {f"q{i}": {f"d{i}": 1} for i in range(QUERIES)}
    documents = {f"{prefix}{i}": f"text {i}" for i in range(QUERIES)} if with_documents else None
    return Dataset.from_dicts(queries, judgments, documents, name="handbook")


def keyed(prefix: str, right: int = QUERIES) -> Callable[[str, int], list[str]]:
    """Finds the right document of the first questions, under ids with this prefix."""

    def search(query: str, top_k: int) -> list[str]:
        number = int(query.split()[1])
        found = number if number < right else (number + 7) % QUERIES
        return [f"{prefix}{found}", f"{prefix}{(found + 3) % QUERIES}"]

    return search


def compared(tmp_path: Path, first: Dataset, second: Dataset, prefix: str, right: int) -> Run:
    evaluate(keyed("d"), first, label="main", out=tmp_path)
    agent = keyed(prefix, right)
    gates = ["ndcg@5>=main-0.01"]
    return evaluate(agent, second, compare_to="main", gates=gates, out=tmp_path)


def test_a_service_with_new_ids_is_no_regression(tmp_path: Path) -> None:
    run = compared(tmp_path, questions(), questions(), "chunk-", QUERIES)
    assert run.comparison is not None
    labels = run.comparison.labels
    assert labels is not None
    assert labels.turned_over
    assert (labels.a.returned, labels.b.returned, labels.new_ids) == (QUERIES, 0, 1.0)
    (gate,) = run.report.gates
    assert not gate.passed
    assert str(gate.reason).startswith("the corpus changed")
    assert not any(row.significant for row in run.comparison.metrics.values())
    assert not regression_gate(run.comparison).passed
    assert run.exit_code == 3


def test_the_report_has_it_typed(tmp_path: Path) -> None:
    run = compared(tmp_path, questions(), questions(), "chunk-", QUERIES)
    written = json.loads(run.folder.report_file.read_bytes())
    assert written["labels"] == {
        "judged": QUERIES,
        "in_corpus": None,
        "returned": 0,
        "unknown": None,
    }
    assert Report.model_validate(run.folder.read_json()).comparison == run.comparison
    assert written["label_fit"]["turned_over"] is True
    assert run.comparison is not None
    assert run.report.label_fit == run.comparison.labels
    for page in (
        run.folder.page_file.read_text(encoding="utf-8"),
        render_markdown(run.report, run.folder.read_header(), run.name),
    ):
        assert "The corpus changed: 0 of 30 judged documents were returned" in page
        assert "a significant difference" not in page


def test_no_table_shows_a_p_value_or_a_changed_slice(tmp_path: Path) -> None:
    run = compared(tmp_path, questions(), questions(), "chunk-", QUERIES)
    assert run.comparison is not None
    terminal = plain_text(render_comparison(run.comparison))
    summary = render_markdown(run.report, run.folder.read_header(), run.name)
    both = ["compare", "main", run.name, "--html", "c.html", "--out", str(tmp_path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = CliRunner().invoke(app, both)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    for text in (terminal, summary, page, run.folder.page_file.read_text(encoding="utf-8")):
        assert "0.001" not in text
    assert summary.count("| – |\n") == len(run.comparison.metrics)
    assert "Where it changed" not in page


def test_a_worse_ranking_of_the_same_documents_is_a_regression(tmp_path: Path) -> None:
    run = compared(tmp_path, questions(), questions(), "d", 5)
    assert run.comparison is not None
    assert run.comparison.labels is not None
    assert not run.comparison.labels.turned_over
    assert "regression: nDCG@5 -" in str(regression_gate(run.comparison).reason)
    assert run.exit_code == 1
    assert "against" in str(run.report.gates[0].reason)


def test_a_corpus_with_new_keys_is_noticed_before_a_gate_is_judged(tmp_path: Path) -> None:
    before, after = questions(True), questions(True, "page-")
    run = compared(tmp_path, before, after, "page-", QUERIES)
    assert run.comparison is not None
    labels = run.comparison.labels
    assert labels is not None
    assert (labels.a.in_corpus, labels.b.in_corpus) == (QUERIES, 0)
    assert labels.documents_changed
    assert "it has 0 of 30 judged documents" in labels.words
    assert run.exit_code == 3


def test_a_corpus_that_only_grew_is_compared_with_a_note(tmp_path: Path) -> None:
    before = questions(True)
    more = {**before.documents, "new": Document("new", "", "one more")}
    run = compared(tmp_path, before, replace(before, documents=more), "d", QUERIES)
    assert run.comparison is not None
    assert run.comparison.labels is not None
    assert not run.comparison.labels.turned_over
    assert any(
        "the documents differ between the runs (30 and 31" in w for w in run.comparison.warnings
    )
    assert run.gates_passed


def test_other_labels_are_never_compared(tmp_path: Path) -> None:
    from assay.errors import RunError

    other = Dataset.from_dicts({"q0": "query 0"}, {"q0": {"d0": 1}}, name="handbook")
    evaluate(keyed("d"), questions(), label="main", out=tmp_path)
    with pytest.raises(RunError, match=r"no complete run under .* on the same data"):
        evaluate(keyed("d"), other, compare_to="main", out=tmp_path)


def test_compare_says_it_in_the_terminal(tmp_path: Path) -> None:
    first = evaluate(keyed("d"), questions(), out=tmp_path)
    second = evaluate(keyed("x-"), questions(), out=tmp_path)
    result = CliRunner().invoke(app, ["compare", str(first.folder), str(second.folder)])
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "The corpus changed: 0 of 30 judged documents were returned for any question" in words
    assert "write the new ids" in words
    assert "is 1.0000 worse" not in words


def test_runs_of_an_older_assay_are_compared_as_before(tmp_path: Path) -> None:
    first = evaluate(keyed("d"), questions(), out=tmp_path)
    report = first.folder.report_file
    written = json.loads(report.read_bytes())
    del written["labels"]
    report.write_text(json.dumps(written))
    second = evaluate(keyed("x-"), questions(), out=tmp_path)
    comparison = second.compare(str(first.folder))
    assert comparison.labels is None
    assert next(iter(comparison.metrics.values())).significant


def test_an_agent_that_returns_one_document_for_everything_is_a_regression(tmp_path: Path) -> None:
    data = load_dataset("notes")
    evaluate("builtin:bm25", data, label="main", out=tmp_path)
    judged = {each for row in data.judgments["test"].values() for each in row}
    unjudged = sorted(data.documents.keys() - judged)[:1]
    run = evaluate(lambda query, top_k: unjudged, data, compare_to="main", out=tmp_path)
    assert run.comparison is not None
    assert run.comparison.labels is not None
    assert not run.comparison.labels.turned_over
    assert not regression_gate(run.comparison).passed
