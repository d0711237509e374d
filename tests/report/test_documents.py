"""Documents and answers on pages: marks of a ranking, what was lost, facts."""

from tests.report.conftest import SCRIPT

from assay import Dataset, Document, Query, Run
from assay.report.html import JudgedDocuments

DATA = Dataset(
    name="tea",
    documents={
        "d1": Document("d1", "Brewing", "Steep green teas for two minutes"),
        "d2": Document("d2", "", "A " * 400),
    },
    queries={"q": Query("q", "how long does the green tea steep?", ("drinks",))},
    judgments={"test": {"q": {"d1": 2, "d2": 1, "d3": 0}}},
)
DOCS = JudgedDocuments(3, "test", DATA)


def test_a_ranking_shows_grades_and_faults() -> None:
    ids = ["d2", "d2", "nowhere", "d1", "d1"]
    marks = [DOCS.mark("q", doc_id, ids[:place]).text for place, doc_id in enumerate(ids)]
    assert marks == ["1", "×2", "?", "+", "×2"]
    assert [DOCS.mark("q", each).tone for each in ("d1", "d2")] == ["highly", "relevant"]
    assert DOCS.relevant("q") == ["d1", "d2"]
    assert JudgedDocuments(3, "test", None).mark("q", "d1").text == ""


def test_titles_and_texts_are_cut_only_in_files() -> None:
    assert DOCS.title("d2").startswith("A A A")
    assert DOCS.text("d2").endswith("…")
    assert JudgedDocuments(3, "test", DATA, excerpt=None).text("d2") == "A " * 400
    assert DOCS.title("nowhere") == DOCS.text("nowhere") == ""


def test_what_a_ranking_lost_is_told_with_the_words_that_had_found_it() -> None:
    text = DATA.queries["q"].text
    assert DOCS.lost("q", text, ["d9", "d1"], ["d9"]) == [("d1", 2, ["green", "tea", "steep"])]
    assert DOCS.lost("q", text, ["d1"], ["x", "d1"]) == []
    assert DOCS.lost("q", text, ["x", "y", "z", "d1"], []) == []  # beyond top_k


def test_facts_say_whether_the_answer_states_them(
    answered_run: Run, answered_dataset: Dataset
) -> None:
    rows = {row.query_id: row for row in answered_run.answers()}
    docs = JudgedDocuments(5, "test", answered_dataset)
    assert docs.facts(rows["q2"]) == [("fact 2", True), ("right", True)]
    assert [stated for _, stated in docs.facts(rows["q1"])] == [False, False]
    unknown = JudgedDocuments(5, "test", None).facts(rows["q2"])
    assert [stated for _, stated in unknown] == [None, None]
    assert not docs.exists(f"made-up{SCRIPT}")
