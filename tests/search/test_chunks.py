import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.samples import WordEmbedder

from assay.data import Document
from assay.search.chunks import shown_text, split_documents

SENTENCES = [f"Sentence number{i} has seven words in it." for i in range(12)]


def split(title: str, text: str, max_tokens: int = 24) -> tuple[list[str], list[str]]:
    """What is embedded of each chunk, and what is shown."""
    document = Document("d", title, text)
    (chunks,) = split_documents([document], WordEmbedder(max_tokens=max_tokens))
    shown = [shown_text(document, chunk.span, len(chunks)) for chunk in chunks]
    return [chunk.embedded for chunk in chunks], shown


def test_a_short_document_is_one_chunk_of_its_whole_text() -> None:
    embedded, shown = split("Tea", "Green tea\n\nis steeped.")
    assert embedded == ["Tea Green tea\n\nis steeped."]
    assert shown == ["Green tea\n\nis steeped."]


def test_no_word_is_read_twice() -> None:
    words = " ".join(SENTENCES).split()
    embedded, _ = split("Title", " ".join(words), max_tokens=24)
    assert [word for chunk in embedded for word in chunk.split()[1:22]] == words


@pytest.mark.parametrize(
    "text", ["word " * 200, "茶" * 300 + " " + "x" * 300, "。".join("茶酒水" * 60)]
)
def test_text_without_sentences_is_split_too(text: str) -> None:
    _, shown = split("", text, max_tokens=16)
    assert all(size <= 16 * 2 for size in WordEmbedder().count_tokens(shown))


@given(st.text(max_size=400), st.text(max_size=60))
def test_every_word_of_any_text_is_in_some_chunk(text: str, title: str) -> None:
    embedded, _ = split(title, text, max_tokens=12)
    assert embedded
    kept = "".join("".join(chunk.split()) for chunk in embedded)
    for word in text.encode("utf-8", "replace").decode().split():
        if word.isalnum() and len(word) < 6:
            assert word in kept
