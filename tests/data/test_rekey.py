"""Labels on documents with new ids: found by text, listed, and moved only where accepted."""

import csv
import random
from pathlib import Path

import pytest

from assay.data import Dataset, Document
from assay.data.rekey import RekeyMatch, carry_over, find_matches, read_accepted, write_matches
from assay.errors import DataError, UsageError

VOCABULARY = [f"word{number}" for number in range(400)]


def text(seed: int, length: int = 60) -> str:
    return " ".join(random.Random(seed).choices(VOCABULARY, k=length))


def documents(**texts: str) -> dict[str, Document]:
    return {name: Document(name, "", each) for name, each in texts.items()}


OLD = Dataset.from_dicts(
    {"q1": "one", "q2": "two"},
    {"q1": {"a": 2, "b": 0}, "q2": {"b": 1}},
    {"a": text(1), "b": text(2), "unjudged": text(3)},
    answers={"q1": "yes"},
)


def by_id(matches: list[RekeyMatch]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for each in matches:
        found.setdefault(each.old_id, []).append((each.new_id, each.how))
    return found


def test_the_same_text_is_found_whatever_its_spelling() -> None:
    new = documents(x=text(2).upper() + "!", y=text(1).replace(" ", "\n"), z=text(9))
    matches = find_matches(OLD, new)
    assert by_id(matches) == {"a": [("y", "same")], "b": [("x", "same")]}
    assert all(each.sure and each.score == 1.0 for each in matches)
    assert matches[1].judgments == 2


def test_a_document_that_kept_its_id_and_text_is_not_given_to_a_copy() -> None:
    new = documents(a=text(1), copy=text(1), b=text(2))
    assert by_id(find_matches(OLD, new))["a"] == [("a", "same")]


def test_a_text_that_was_edited_is_nearly_the_same() -> None:
    edited = text(1).split()
    edited[30] = "changed"
    (match, _) = find_matches(OLD, documents(x=" ".join(edited)))
    assert (match.new_id, match.how) == ("x", "near")
    assert 0.7 < match.score < 0.9
    assert not match.sure


def test_smaller_chunks_are_parts() -> None:
    pieces = text(1, 60).split()
    new = documents(first=" ".join(pieces[:30]), second=" ".join(pieces[30:]), other=text(8))
    found = by_id(find_matches(OLD, new))["a"]
    assert sorted(found) == [("first", "part"), ("second", "part")]


def test_larger_chunks_are_around() -> None:
    new = documents(page=" ".join([text(1), text(2), text(5)]))
    matches = find_matches(OLD, new)
    assert by_id(matches) == {"a": [("page", "around")], "b": [("page", "around")]}
    assert all(each.score == 1.0 and not each.sure for each in matches)


def test_other_texts_are_not_proposed() -> None:
    found = by_id(find_matches(OLD, documents(x=text(20), y="word1", z="")))
    assert found == {"a": [("", "none")], "b": [("", "none")]}


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    sentence = (
        "緑茶は湯の温度が低いほうが甘くなると言われているので急須を冷ましてから淹れることにしている"
    )
    old = Dataset.from_dicts({"q": "茶"}, {"q": ["a"]}, {"a": sentence})
    (match,) = find_matches(old, documents(x=sentence[:20] + "、" + sentence[20:] + "のだ"))
    assert match.how in ("near", "around")


def test_boilerplate_alone_makes_no_match() -> None:
    footer = "this page is copyright of the company and all rights are reserved by it " * 3
    old = Dataset.from_dicts(
        {"q": "x"}, {"q": [f"d{i}" for i in range(300)]},
        {f"d{i}": f"{text(100 + i, 20)} {footer}" for i in range(300)},
    )  # fmt: skip
    (first, *_) = find_matches(old, documents(x=f"{text(999, 20)} {footer}"))
    assert first.how == "none"


def test_judged_documents_without_a_text_are_listed_as_not_found() -> None:
    old = Dataset.from_dicts({"q": "x"}, {"q": ["a", "gone"]}, {"a": text(1)})
    assert by_id(find_matches(old, documents(x=text(1))))["gone"] == [("", "none")]


def test_what_has_no_texts_is_refused() -> None:
    with pytest.raises(UsageError, match="needs the texts of documents"):
        find_matches(Dataset.from_dicts({"q": "x"}, {"q": ["a"]}), {})
    only_others = Dataset.from_dicts({"q": "x"}, {"q": ["a"]}, {"b": "text"})
    with pytest.raises(UsageError, match="no text of its 1 judged documents"):
        find_matches(only_others, {})


def test_labels_move_where_they_are_accepted() -> None:
    new = documents(x=text(1), y=text(2), z=text(7))
    result = carry_over(OLD, new, [("a", "x"), ("b", "y")])
    assert result.dataset.judgments == {"test": {"q1": {"x": 2, "y": 0}, "q2": {"y": 1}}}
    assert list(result.dataset.documents) == ["x", "y", "z"]
    assert (result.judgments, result.carried, result.lost_queries) == (3, 3, ())
    assert result.dataset.answers["q1"].documents == ("x",)


def test_what_is_not_accepted_is_counted_and_named() -> None:
    result = carry_over(OLD, documents(x=text(1)), [("a", "x")])
    assert (result.judgments, result.carried) == (3, 1)
    assert result.lost_queries == ("q2",)


def test_one_document_of_several_has_the_highest_grade() -> None:
    result = carry_over(OLD, documents(page=text(1)), [("a", "page"), ("b", "page")])
    assert result.dataset.judgments["test"] == {"q1": {"page": 2}, "q2": {"page": 1}}


def test_one_document_becomes_several() -> None:
    new = documents(p1=text(1), p2=text(2))
    result = carry_over(OLD, new, [("a", "p1"), ("a", "p2"), ("a", "p2")])
    assert result.dataset.judgments["test"]["q1"] == {"p1": 2, "p2": 2}


def test_an_id_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="'nowhere', which is not among the new"):
        carry_over(OLD, documents(x="x"), [("a", "nowhere")])


def test_the_list_is_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    odd = "=HYPERLINK(1) text"
    matches = [
        RekeyMatch("a,\n1", "x", "same", 1.0, 2, odd, "new"),
        RekeyMatch("b", "y", "near", 0.7, 1, "old", "new"),
        RekeyMatch("c", "", "none", 0.0, 1, "old", ""),
    ]
    write_matches(path, matches)
    assert read_accepted(path) == [("a,\n1", "x")]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["accept"] for row in rows] == ["yes", "", "no"]
    assert rows[0]["old_text"] == f"'{odd}"
    rows[1]["accept"] = "Yes"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert read_accepted(path) == [("a,\n1", "x"), ("b", "y")]


def test_no_id_of_the_list_runs_as_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    write_matches(path, [RekeyMatch("=1+1", "-2", "same", 1.0, 1, "old", "new")])
    assert ",'=1+1,'-2," in path.read_text()
    assert read_accepted(path) == [("=1+1", "-2")]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("accept,old_id,new_id\nmaybe,a,b\n", r":2: 'accept' must be yes or no, got 'maybe'"),
        ("accept,old_id,new_id\nyes,a,\n", r":2: is accepted and has no 'new_id'"),
        ("old_id,new_id\na,b\n", r":2: has no column 'accept'"),
    ],
)
def test_a_list_that_is_wrong_is_named_with_its_line(
    tmp_path: Path, content: str, what: str
) -> None:
    path = tmp_path / "list.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=what):
        read_accepted(path)
