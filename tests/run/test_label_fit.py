"""Labels that no longer fit are told from a worse ranking."""

import pytest

from assay.run.label_fit import LabelCoverage, fit_of, new_share


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
        "the corpus turned over: of 100 judged documents 2 came back for any question, 70 in the "
        "run before, and 93% of the ids that came are new; the labels no longer fit, so this is no "
        "regression: carry the labels over with: assay data rekey"
    )


def test_the_share_of_new_ids() -> None:
    assert new_share({"a", "b"}, {"b", "c", "d", "e"}) == 0.75
    assert new_share({"a"}, set()) is None


def test_other_documents_of_the_same_corpus_are_a_worse_ranking() -> None:
    a, b = coverage(70), coverage(2)
    few, most = (b.model_copy(update={"unknown": share}) for share in (0.3, 0.9))
    assert not fit_of(a, few, 1.0, documents_changed=False).turned_over
    assert fit_of(a, most, 1.0, documents_changed=False).turned_over
