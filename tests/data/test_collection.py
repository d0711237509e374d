"""Data sets from dictionaries, lists of dictionaries and data frames."""

from typing import Any

import pandas
import pytest

from assay.data import Dataset, Document
from assay.errors import DataError, UsageError

QUERIES = {"q1": "how long?", "q2": "why?"}
JUDGMENTS = {"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 1}}
DOCUMENTS = {"d1": {"title": "Tea", "text": "Steep."}, "d2": {"title": "", "text": "Because."}}


@pytest.mark.parametrize(
    ("queries", "judgments", "documents"),
    [
        (QUERIES, JUDGMENTS, DOCUMENTS),
        (
            [{"query_id": key, "query": text} for key, text in QUERIES.items()],
            [
                {"query_id": query_id, "doc_id": doc_id, "grade": grade}
                for query_id, grades in JUDGMENTS.items()
                for doc_id, grade in grades.items()
            ],
            [{"doc_id": key, **fields} for key, fields in DOCUMENTS.items()],
        ),
        (
            pandas.DataFrame({"_id": ["q1", "q2"], "text": ["how long?", "why?"]}),
            pandas.DataFrame(
                {"qid": ["q1", "q1", "q2"], "doc_id": ["d1", "d2", "d2"], "score": [2.0, 0.0, 1.0]}
            ),
            pandas.DataFrame(
                {"id": ["d1", "d2"], "title": ["Tea", ""], "text": ["Steep.", "Because."]}
            ),
        ),
        (
            QUERIES,
            JUDGMENTS,
            {"d1": Document("d1", "Tea", "Steep."), "d2": "Because."},
        ),
    ],
)
def test_every_form_gives_the_same_data_set(
    queries: object, judgments: object, documents: object
) -> None:
    dataset = Dataset.from_dicts(queries, judgments, documents)
    assert {each.id: each.text for each in dataset.queries.values()} == QUERIES
    assert dataset.judgments_in("test") == JUDGMENTS
    assert dataset.documents["d1"] == Document("d1", "Tea", "Steep.")
    assert dataset.documents["d2"].full_text == "Because."


def test_ids_may_be_numbers_and_judgments_a_list() -> None:
    dataset = Dataset.from_dicts({1: "how?"}, {1: [7, 8]}, answers={1: "so", "1": "so"})  # type: ignore[dict-item]
    assert dataset.judgments_in("test") == {"1": {"7": 1, "8": 1}}
    assert dataset.answers["1"].documents == ("7", "8")
    assert dataset.corpus_ids is None
    with pytest.raises(UsageError, match=r"a search needs the texts .*'memory' has only"):
        dataset.require_documents("a search")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (({}, {}), "queries must be texts, at least one"),
        (({"q": None}, {}), "queries must be texts, at least one"),
        (
            ([{"query_id": "q", "frage": "x"}], {}),
            "row 1: has no text in a column query, text, question, .*'frage'",
        ),
        (({"q": "x"}, {"p": ["d"]}), "judgments: row 1: there is no query 'p'"),
        (({"q": "x"}, {"q": "d"}), "query 'q' must have {id: grade} or a list of ids, got 'd'"),
        (({"q": "x"}, {"q": {"d": 0.5}}), "judgments: row 1: a grade must be an integer"),
        (
            ({"q": "x"}, {"q": {"d": None}}),
            "judgments: row 1: a grade must be an integer.*got None",
        ),
        (({"q": "x"}, [{"query_id": "q"}]), "judgments: row 1: has no id in a column doc_id"),
        (
            ({"q": "x"}, {}, [{"id": "d", "text": "a"}, {"id": "d", "text": "b"}]),
            "documents: row 2: id 'd' is already used for other content",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_dicts(*values)
