import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.samples import WordEmbedder

from assay.data import Document
from assay.search.chunks import Chunk, shown_text, split_documents

SENTENCES = [f"Sentence number{i} has seven words in it." for i in range(12)]


def split(document: Document, embedder: WordEmbedder) -> list[Chunk]:
    (chunks,) = split_documents([document], embedder)
    return chunks


def chunks_of(title: str, text: str, max_tokens: int = 24) -> list[str]:
    document = Document("d", title, text)
    (chunks,) = split_documents([document], WordEmbedder(max_tokens=max_tokens))
    return [shown_text(document, chunk.span, len(chunks)) for chunk in chunks]


def test_a_short_document_is_one_chunk_of_its_whole_text() -> None:
    document = Document("d", "Tea", "Green tea\n\nis steeped.")
    (chunks,) = split_documents([document], WordEmbedder())
    assert [chunk.embedded for chunk in chunks] == ["Tea Green tea\n\nis steeped."]
    assert shown_text(document, chunks[0].span, 1) == "Green tea\n\nis steeped."


def test_the_first_chunk_is_what_a_truncating_model_reads() -> None:
    document = Document("d", "Title", " ".join(SENTENCES))
    first = split(document, WordEmbedder())[0].embedded.split()
    assert first[:22] == document.full_text.split()[:22]


def test_no_word_is_read_twice() -> None:
    embedder, words = WordEmbedder(), " ".join(SENTENCES).split()
    read: list[str] = []
    for chunk in split(Document("d", "Title", " ".join(words)), embedder):
        read += chunk.embedded.split()[1 : embedder.max_tokens - 2]
    assert read == words


def test_a_title_longer_than_half_the_limit_is_split_like_text() -> None:
    chunks = chunks_of(" ".join(SENTENCES), "The end.")
    assert chunks[0].startswith("Sentence number0")
    assert chunks[-1].endswith("The end.")


@pytest.mark.parametrize(
    "text", ["word " * 200, "茶" * 300 + " " + "x" * 300, "。".join("茶酒水" * 60)]
)
def test_text_without_sentences_is_split_too(text: str) -> None:
    embedder = WordEmbedder(max_tokens=16)
    document = Document("d", "", text)
    chunks = split(document, embedder)
    shown = [shown_text(document, one.span, len(chunks)) for one in chunks]
    assert all(size <= 16 * 2 for size in embedder.count_tokens(shown))


@given(st.text(max_size=400), st.text(max_size=60))
def test_every_word_of_any_text_is_in_some_chunk(text: str, title: str) -> None:
    embedder = WordEmbedder(max_tokens=12)
    (chunks,) = split_documents([Document("d", title, text)], embedder)
    assert chunks
    kept = "".join("".join(chunk.embedded.split()) for chunk in chunks)
    for word in text.encode("utf-8", "replace").decode().split():
        if word.isalnum() and len(word) < 6:
            assert word in kept
