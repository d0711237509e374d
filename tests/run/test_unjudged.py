"""A difference that hangs on documents that nobody judged."""

from pathlib import Path

from assay import Dataset, evaluate
from assay.run.label_fit import check_unjudged

QUERIES = [f"q{i}" for i in range(40)]
JUDGMENTS = {q: {f"{q}-r": 1, f"{q}-n": 0} for q in QUERIES}


def test_a_run_that_finds_unjudged_documents_first_is_not_worse_for_sure() -> None:
    a = {q: [f"{q}-r", f"{q}-n"] for q in QUERIES}
    b = {q: [f"{q}-new", f"{q}-newer", f"{q}-r", f"{q}-n"] for q in QUERIES}
    found = check_unjudged(a, b, JUDGMENTS, 4)
    assert found is not None
    assert found.hangs
    assert found.metrics["ndcg@4"].difference == -0.5
    assert found.metrics["ndcg_judged@4"].difference == 0
    assert found.metrics["bpref"].difference == 0
    assert found.words.startswith(
        "the difference hangs on documents that nobody judged: 50% and 50%"
    )


def test_a_run_that_ranks_judged_documents_worse_is_worse() -> None:
    a = {q: [f"{q}-r", f"{q}-n", f"{q}-x", f"{q}-y"] for q in QUERIES}
    b = {q: [f"{q}-n", f"{q}-r", f"{q}-x", f"{q}-y"] for q in QUERIES}
    found = check_unjudged(a, b, JUDGMENTS, 4)
    assert found is not None
    assert not found.hangs
    assert found.words == ""


def test_where_all_is_judged_there_is_nothing_to_check() -> None:
    a = {q: [f"{q}-r", f"{q}-n"] for q in QUERIES}
    assert check_unjudged(a, a, JUDGMENTS, 2) is None


def test_without_judged_non_relevant_documents_nothing_can_be_told() -> None:
    judgments = {q: {f"{q}-r": 1} for q in QUERIES}
    a = {q: [f"{q}-r"] for q in QUERIES}
    b = {q: [f"{q}-x", f"{q}-r"] for q in QUERIES}
    found = check_unjudged(a, b, judgments, 4)
    assert found is not None
    assert (found.not_relevant, found.hangs) == (0, False)


def test_a_comparison_of_runs_warns(tmp_path: Path) -> None:
    dataset = Dataset.from_dicts({q: q for q in QUERIES}, JUDGMENTS)
    first = evaluate(lambda query, top_k: [f"{query}-r", f"{query}-n"], dataset, out=tmp_path)
    second = evaluate(
        lambda query, top_k: [f"{query}-new", f"{query}-r"], dataset, baseline=None, out=tmp_path
    )
    assert second.compare(first).unjudged is None  # a data set in memory cannot be found again
    again = evaluate(
        lambda query, top_k: [f"{query}-new", f"{query}-r"],
        dataset,
        baseline=lambda query, top_k: [f"{query}-r", f"{query}-n"],
        out=tmp_path,
    )
    assert again.comparison is not None
    assert again.comparison.unjudged is not None
    assert again.comparison.unjudged.hangs
    assert again.comparison.unjudged.words in again.comparison.warnings
    page = again.folder.page_file.read_text(encoding="utf-8")
    assert "hangs on documents that nobody judged" in page
