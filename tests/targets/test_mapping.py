"""`--map`: expressions over an answer, and what is said where they do not fit it."""

import json
from typing import Any

import pytest

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.llm.passages import ContextChunk
from assay.run.config import RunConfig
from assay.targets.answer_reader import AnswerReader, Received, parse_mapping
from assay.targets.protocol import AgentAnswer


def read(value: Any, *texts: str, known: tuple[str, ...] = ()) -> AgentAnswer:
    received = Received.from_text(value if isinstance(value, str) else json.dumps(value))
    return AnswerReader(parse_mapping(texts), known).read(received)


def failure(value: Any, *texts: str) -> str:
    with pytest.raises(AgentFailure) as caught:
        read(value, *texts)
    assert caught.value.kind is FailureKind.INVALID_ANSWER
    return f"{caught.value}; it said: {caught.value.said}"


def test_ids_and_scores_are_read_by_expressions_and_numbers_become_text() -> None:
    hits = {"hits": {"total": 2, "hits": [{"_id": "d1", "_score": 2.5}, {"_id": 7, "_score": 1}]}}
    answer = read(hits, "ids=hits.hits[]._id", "scores=hits.hits[]._score")
    assert (answer.doc_ids, answer.scores) == (("d1", "7"), (2.5, 1.0))


@pytest.mark.parametrize(
    ("value", "expression", "ids"),
    [
        ({"ids": [["a", "b"]]}, "ids[]", ("a", "b")),
        ({"ids": [["a", "b"], ["c"]]}, "ids[0]", ("a", "b")),
        ({"items": [{"docno": 1}, {"docno": 2.0}]}, "items[].docno", ("1", "2")),
        ({"hits": []}, "hits[].id", ()),
    ],
)
def test_the_ranking_is_what_an_expression_yields(value: Any, expression: str, ids: Any) -> None:
    assert read(value, f"ids={expression}").doc_ids == ids


def test_a_pattern_finds_ids_in_text_in_their_order_and_each_once() -> None:
    prose = "See MED-2, then MED-1 (and MED-2 again)."
    assert read(prose, r"ids=re:(MED-\d+)").doc_ids == ("MED-2", "MED-1")
    text = json.dumps({"result": json.dumps([{"doc_id": "a,b"}])})
    assert read(text, r'ids=re:doc_id\\": \\"([^"\\]+)').doc_ids == ("a,b",)


def test_the_texts_of_the_documents_are_the_passages_of_an_answer() -> None:
    value = {"text": "Yes.", "docs": [{"id": "d1", "title": "T", "body": "B"}]}
    mapping = ("ids=docs[].id", "texts=docs[].body", "titles=docs[].title")
    assert read(value, *mapping).contexts == ()  # nothing was written from them
    assert read(value, *mapping, "answer=text").contexts == (ContextChunk("T\nB", "d1"),)
    assert read(value, *mapping[:2], "answer=text").contexts == (ContextChunk("B", "d1"),)
    wrong = failure(value, "ids=docs[].id", "texts=docs[].nothing", "answer=text")
    assert "yields 0 texts for 1 ids" in wrong


def test_an_application_that_only_answers_has_no_ids() -> None:
    assert read({"out": "Yes."}, "answer=out") == AgentAnswer((), "Yes.")
    assert read({"answer": "Yes."}, "ids=ids || `[]`").answer == "Yes."
    assert read({"answer": "Yes."}, "ids=ids || `[]`", "answer=missing").answer is None
    assert read("Yes, clearly.", "answer=re:(Yes)") == AgentAnswer((), "Yes")


NUMBERS = ("1", "2", "3", "7", "17")


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ([{"id": 1, "source": 17}, {"id": 2, "source": 3}], ("17", "3")),  # places in the list
        ([{"rank": 7, "doc_id": 1}, {"rank": 3, "doc_id": 2}], ("1", "2")),
        ([{"url": "https://h/kb/17.html?from=3#top"}, {"url": "https://h/kb/3"}], ("17", "3")),
        ({"hits": [{"id": 9, "source": "17"}, {"id": 8, "source": "3"}]}, ("17", "3")),
    ],
)
def test_the_field_with_ids_of_the_data_set_is_taken(value: Any, ids: tuple[str, ...]) -> None:
    assert read(value, known=NUMBERS).doc_ids == ids


@pytest.mark.parametrize(
    ("value", "mapping"),
    [
        ({"a": {"b": [{"c": "17"}, {"c": "3"}]}}, "ids=a.b[].c"),
        ({"a": [["17", "3"]], "c": []}, "ids=a[][]"),
        ({"hits": [{"doc-no": "17"}, {"doc-no": "3"}]}, 'ids=hits[]."doc-no"'),
    ],
)
def test_a_refusal_names_the_mapping_that_reads_it(value: Any, mapping: str) -> None:
    with pytest.raises(AgentFailure) as caught:
        read(value, known=NUMBERS)
    assert str(caught.value).endswith(f"; try: --map '{mapping}'")
    assert read(value, mapping, known=NUMBERS).doc_ids == ("17", "3")


@pytest.mark.parametrize(
    ("value", "mapping", "words"),
    [
        ({"hits": {"n": 1}}, "ids=hits", ["yields an object, not a list", "{'hits': {'n': 1}}"]),
        ({"a": 1}, "ids=hits[].id", ["yields null, not a list", "|| `[]`"]),
        ({"ids": ["a", 1.5]}, "ids=ids", ["a number (1.5) as item 2"]),
        ("<html>no</html>", "ids=ids", ["not JSON", "<html>no</html>", "ids=re:PATTERN"]),
        ({"a": "x"}, "ids=sort(a)", ["sort()"]),
        ({"ids": ["a"], "s": [1, 2]}, "ids=ids\nscores=s", ["scores=s yields 2 numbers for 1 ids"]),
        ({"ids": [], "a": {}}, "ids=ids\nanswer=a", ["answer=a yields an object, not a text"]),
    ],
)
def test_a_wrong_mapping_says_what_came(value: Any, mapping: str, words: list[str]) -> None:
    message = failure(value, *mapping.split("\n"))
    assert [each for each in words if each not in message] == [], message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ids=hits[", "is not an expression"),
        ("ids=re:abc", "it has 0 groups"),
        ("ids=re:(", "is not an expression"),
        ("id=hits", "'id=hits' is not KEY=EXPR; KEY is one of ids, scores"),
    ],
)
def test_a_mapping_that_cannot_be_one_is_refused_before_the_run(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_mapping([text])
    assert words in str(caught.value)


def test_values_may_have_commas_and_the_last_counts() -> None:
    assert parse_mapping(["ids=[a, b][]", "arg.fields=id,title"]) == {
        "ids": "[a, b][]",
        "arg.fields": "id,title",
    }
    assert parse_mapping([r"ids=re:x{1,2}(\d+),ids=y"]) == {"ids": r"re:x{1,2}(\d+),ids=y"}
    assert parse_mapping(["ids=a", "ids=b"]) == {"ids": "b"}


def test_runs_from_before_the_option_was_repeatable_still_open() -> None:
    old = {**RunConfig(target="x").to_json(), "mapping": "doc_id=id"}
    assert RunConfig.from_json(old).mapping == ("doc_id=id",)
    assert RunConfig.from_json({**old, "mapping": ""}).mapping == ()


@pytest.mark.parametrize(
    "expression",
    ["hits[].id", "hits[].id || `[]`", "hits[*].id", "hits[0:5].id", "groups[].hits[].id", "ids[]"],
)
def test_results_without_an_id_do_not_let_others_move_up(expression: str) -> None:
    hits = [{"id": "a"}, {"id": None}, {"id": "b"}, {}]
    value = {"hits": hits, "groups": [{"hits": hits}], "ids": ["a", None, "b", None]}
    reader = AnswerReader({"ids": expression})
    with pytest.raises(AgentFailure, match="2 of 4 items have no id there"):
        reader.ids(Received("", value))
