"""Labels that no longer fit, and documents that nobody judged, are told from a worse ranking."""

from pathlib import Path

import pytest

from assay import Dataset, evaluate
from assay.run.label_fit import LabelCoverage, check_unjudged, fit_of, new_share

QUERIES = [f"q{i}" for i in range(40)]
JUDGMENTS = {q: {f"{q}-r": 1, f"{q}-n": 0} for q in QUERIES}


def coverage(returned: int, in_corpus: int | None = None, judged: int = 100) -> LabelCoverage:
    return LabelCoverage(judged=judged, in_corpus=in_corpus, returned=returned)


@pytest.mark.parametrize(
    ("a", "b", "new_ids", "turned_over"),
    [
        (coverage(70), coverage(68), 0.1, False),
        (coverage(70), coverage(30), 0.4, False),  # worse, but the ids are the old ones
        (coverage(70), coverage(10), 0.3, False),  # much worse
        (coverage(70), coverage(0), 1.0, True),
        (coverage(70), coverage(10), 0.9, True),
        (coverage(3), coverage(0), 1.0, False),  # too few to say
        (coverage(70), coverage(0), None, False),  # nothing came back at all
        (coverage(70, 100), coverage(65, 100), 0.0, False),
        (coverage(70, 100), coverage(69, 97), 0.0, False),
        (coverage(70, 100), coverage(60, 90), 0.1, True),
        (coverage(70, 100), coverage(0, 0), 1.0, True),
        (coverage(10, 50), coverage(9, 48), 0.1, False),  # half was missing before as well
        (coverage(70), coverage(5, 10), 0.2, True),
    ],
)
def test_what_vanished_decides(
    a: LabelCoverage, b: LabelCoverage, new_ids: float | None, turned_over: bool
) -> None:
    fit = fit_of(a, b, new_ids, documents_changed=True)
    assert fit.turned_over is turned_over
    assert bool(fit.words) is turned_over


def test_the_sentence_has_the_figures_and_the_remedy() -> None:
    words = fit_of(coverage(70), coverage(2), 0.93, documents_changed=False).words
    assert words == (
        "the corpus changed: 2 of 100 judged documents were returned for any question, 70 in the "
        "run before, and 93% of the returned ids are new; the labels no longer fit, so this is not "
        "a regression: write the new ids into the judgments"
    )


def test_the_share_of_new_ids() -> None:
    assert new_share({"a", "b"}, {"b", "c", "d", "e"}) == 0.75
    assert new_share({"a"}, set()) is None


def test_other_documents_of_the_same_corpus_are_a_worse_ranking() -> None:
    a, b = coverage(70), coverage(2)
    few, most = (b.model_copy(update={"unknown": share}) for share in (0.3, 0.9))
    assert not fit_of(a, few, 1.0, documents_changed=False).turned_over
    assert fit_of(a, most, 1.0, documents_changed=False).turned_over


def test_a_run_that_finds_unjudged_documents_first_is_not_worse_for_sure() -> None:
    a = {q: [f"{q}-r", f"{q}-n"] for q in QUERIES}
    b = {q: [f"{q}-new", f"{q}-newer", f"{q}-r", f"{q}-n"] for q in QUERIES}
    found = check_unjudged(a, b, JUDGMENTS, 4)
    assert found is not None
    assert found.hangs
    assert found.metrics["ndcg@4"].difference == -0.5
    assert found.metrics["ndcg_judged@4"].difference == 0
    assert found.metrics["bpref"].difference == 0
    assert found.words.startswith("the difference depends on unjudged documents: 50% and 50%")


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
    assert "depends on unjudged documents" in page
