"""Token ids by looking words up must be those of the tokenizer itself."""

from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers

from assay.errors import SearchError
from assay.search.onnx_embedding import MODEL_PACKAGE
from assay.search.token_ids import TokenProcesses, TokenReader, WordPieces, splits_words

TEXTS = ["Green tea is steeped.", "", "naïve café – 7,5 % \u200b", "日本語 and English", "a" * 300]
ODD = "\x85\x0b\x1c\u2028\u00a0\u3000\u0301\ufeff\ufffd[MASK]##ing日本é"

CHARACTERS = st.sampled_from(ODD + "abc .,'-  ") | st.characters(exclude_categories=["Cs"])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    made = Tokenizer.from_buffer(files(MODEL_PACKAGE).joinpath("tokenizer.json").read_bytes())
    made.no_truncation()
    made.no_padding()
    return made


@pytest.fixture(scope="module")
def pieces(tokenizer: Tokenizer) -> WordPieces:
    return WordPieces(tokenizer)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    text=st.text(
        st.sampled_from(ODD + "abc .,'-  ") | st.characters(exclude_categories=["Cs"]), max_size=80
    ),
    limit=st.sampled_from([3, 7, 20, 256]),
)
def test_any_text_has_the_tokenizers_ids(
    pieces: WordPieces, tokenizer: Tokenizer, text: str, limit: int
) -> None:
    whole = tokenizer.encode(text, add_special_tokens=False).ids
    first, last = tokenizer.encode("").ids
    assert pieces.encode(text, limit).tolist() == [first, *whole[: limit - 2], last]
    assert pieces.count(text) == len(whole)
    assert pieces.known(text) in (0, len(whole))


def test_a_word_that_was_split_is_known(tokenizer: Tokenizer) -> None:
    pieces, reader = WordPieces(tokenizer), TokenReader(tokenizer.to_str(), 8)
    assert pieces.known("antioxidants") == 0
    count = pieces.count("antioxidants")
    assert pieces.known("antioxidants") == count > 1
    assert reader.count(["antioxidants", "antioxidants", "an antioxidants"]) == [
        *(count, count, count + 1)
    ]


def test_a_tokenizer_that_looks_beyond_words_is_not_replaced(tokenizer: Tokenizer) -> None:
    other = Tokenizer.from_str(tokenizer.to_str())
    other.pre_tokenizer = pre_tokenizers.ByteLevel()
    assert splits_words(tokenizer)
    assert not splits_words(other)
    reader = TokenReader(other.to_str(), 8)
    other.enable_truncation(8)
    ids = [row.tolist() for row in reader.rows(TEXTS)]
    assert ids == [one.ids for one in other.encode_batch(TEXTS)]


def test_processes_return_the_ids_in_the_order_of_the_texts(tokenizer: Tokenizer) -> None:
    texts = [f"{text} {number}" for number in range(300) for text in TEXTS]
    reader = TokenReader(tokenizer.to_str(), 16)
    processes = TokenProcesses(tokenizer.to_str(), 16, 2)
    try:
        windows = list(processes.encode(texts, 512))
    finally:
        processes.close()
    assert [len(window.lengths) for window in windows] == [512, 512, 476]
    ids = [number for window in windows for number in window.ids.tolist()]
    assert ids == reader.encode(texts).ids.tolist()


def test_a_process_that_ends_is_said(tokenizer: Tokenizer) -> None:
    processes = TokenProcesses(tokenizer.to_str(), 16, 1)
    try:
        list(processes.encode(["tea"], 512))
        processes._started[0].kill()
        processes._started[0].wait()
        with pytest.raises(SearchError, match="a process that tokenizes has ended"):
            list(processes.encode(["tea"], 512))
    finally:
        processes.close()


def test_padding_is_masked(tokenizer: Tokenizer) -> None:
    import numpy as np

    encoded = TokenReader(tokenizer.to_str(), 16).encode(["tea", "green tea leaves", ""])
    ids, mask = encoded.padded(np.array([1, 0, 2]))
    assert mask.sum(1).tolist() == [5, 3, 2]
    assert ids[1, :3].tolist() == tokenizer.encode("tea").ids
    assert (ids[mask == 0] == 0).all()
