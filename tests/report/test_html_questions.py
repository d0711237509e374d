"""Which marks in an answer are citations, and of what."""

import pytest

from assay.report.html_questions import split_citations

RETRIEVED = ["a", "b", "c"]


def linked(answer: str, citations: list[str], retrieved: list[str]) -> list[tuple[str, str]]:
    parts = split_citations(answer, citations, retrieved)
    assert "".join(part.words for part in parts) == answer  # nothing is lost or changed
    return [(part.words, part.doc_id) for part in parts if part.doc_id]


@pytest.mark.parametrize(
    ("answer", "citations", "expected"),
    [
        ("So [1] and so [3].", ["a", "c"], [("1", "a"), ("3", "c")]),
        ("So [1, 3].", ["a", "c"], [("1", "a"), ("3", "c")]),
        ("So [1][3]", ["a", "c"], [("1", "a"), ("3", "c")]),
        ("So [b] and [x].", ["b", "x"], [("b", "b"), ("x", "x")]),
        # [2] is c only if what is cited is counted, since b was not cited.
        ("So [1] and [2].", ["a", "c"], [("1", "a"), ("2", "c")]),
        ("An array [0] and a list [1, two].", ["a"], []),
        ("[4] and [1]", ["a"], []),
        ("[ ] open, [x] done", ["a"], []),
        ("No marks.", ["a"], []),
        ("", [], []),
    ],
)
def test_a_mark_is_linked_where_it_stands_for_one_document(
    answer: str, citations: list[str], expected: list[tuple[str, str]]
) -> None:
    assert linked(answer, citations, RETRIEVED) == expected


def test_many_brackets_take_no_time() -> None:
    assert linked("[" * 20_000 + "1" + "]" * 20_000, ["a"], ["a"]) == [("1", "a")]
