from concurrent.futures import ThreadPoolExecutor

from tests.search.samples import DOCUMENTS

from assay.data import Document
from assay.search.lexical import LexicalIndex


def test_documents_that_share_words_come_best_first() -> None:
    index = LexicalIndex(DOCUMENTS)
    assert [doc_id for doc_id, _ in index.search("green teas", 5)] == ["tea"]
    assert {doc_id for doc_id, _ in index.search("brewed", 5)} == {"beer", "coffee"}


def test_nothing_in_common_is_nothing_found() -> None:
    assert LexicalIndex(DOCUMENTS).search("zeppelin \ud800 \x00", 5) == []
    assert LexicalIndex([]).search("tea", 5) == []


def test_ties_are_in_the_order_of_ids_whatever_the_order_of_documents() -> None:
    documents = [Document(name, "", "same words") for name in ("c", "a", "b")]
    assert [doc_id for doc_id, _ in LexicalIndex(documents).search("words", 2)] == ["a", "b"]


def test_several_threads_get_what_one_gets() -> None:
    index = LexicalIndex(DOCUMENTS)
    queries = ["green tea", "brewed water", "roasting beans", "onions in soups"] * 50
    alone = [index.search(query, 5) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: index.search(query, 5), queries)) == alone
