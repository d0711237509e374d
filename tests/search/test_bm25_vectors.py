import pytest

from assay.search.bm25_vectors import Bm25Encoder, average_length, overlap


def test_a_query_meets_other_forms_of_its_words_and_no_stop_words() -> None:
    encoder = Bm25Encoder(100.0)
    assert overlap(encoder.document("Statins lowered the risk"), encoder.query("the statin")) > 0
    assert not encoder.query("the of and")


def test_more_of_the_words_is_more_overlap() -> None:
    encoder = Bm25Encoder(100.0)
    query = encoder.query("green tea")
    assert overlap(encoder.document("green tea"), query) > overlap(encoder.document("tea"), query)


@pytest.mark.parametrize("text", ["", "!!!", "\x00", "\ud800"])
def test_text_without_words_is_an_empty_vector(text: str) -> None:
    assert not Bm25Encoder(100.0).query(text)


def test_other_scripts_have_words_too() -> None:
    encoder = Bm25Encoder(100.0)
    assert overlap(encoder.document("зелёный чай"), encoder.query("чай")) > 0


def test_a_few_more_documents_leave_the_average_length_as_it_is() -> None:
    texts = ["word " * 200] * 100
    assert average_length(texts) == average_length([*texts, "short", "word " * 900])
    assert average_length(texts) != average_length(["word " * 400] * 100)


def test_no_documents_have_an_average_length_all_the_same() -> None:
    assert average_length([]) == average_length([""]) == 1.0
