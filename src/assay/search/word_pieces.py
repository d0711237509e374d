"""BERT's word pieces from a table of words that were split before.

A tokenizer of this family looks at each word by itself, so a word that was split once never has to
be split again. Looking words up is about ten times as fast as running the tokenizer, and words
beyond the model's limit are never looked at.
"""

import json
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

# The tokenizer deletes these, which joins the words around them; Python would split there.
_JOINING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BYTES = 4
_LONGEST_WORD = 64
_WORDS_KEPT = 500_000


class WordPieces:
    """Token ids of texts, exactly as `tokenizer` gives them.

    Safe to use from several threads: an entry is the same in each thread.

    Parameters:
        tokenizer: one for which `splits_words` is true, with its truncation switched off.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pieces: dict[str, bytes] = {}
        first, *last = tokenizer.encode("", add_special_tokens=True).ids
        self._first, self._last = _packed([first]), _packed(last)

    def encode(self, text: str, max_tokens: int) -> NDArray[np.int32]:
        """At most `max_tokens` ids, those of the marks around the text included."""
        room = max_tokens - (len(self._first) + len(self._last)) // _BYTES
        return np.frombuffer(self._first + self._words(text, room) + self._last, np.int32)

    def count(self, text: str) -> int:
        """How many tokens the text has, without marks and without a limit."""
        if _JOINING.search(text):
            return len(self._split(text)) // _BYTES
        return len(self._join(text.split())) // _BYTES

    def known(self, word: str) -> int:
        """How many tokens a word has that was split before; 0 for any other text."""
        return len(self._pieces.get(word, b"")) // _BYTES

    def _words(self, text: str, room: int) -> bytes:
        if _JOINING.search(text):
            return self._split(text)[: room * _BYTES]
        found = b""
        while text and len(found) < room * _BYTES:
            # A word has one piece or more; only a few odd characters have none.
            words = text.split(None, room)
            text = words.pop() if len(words) > room else ""
            found += self._join(words)
        return found[: room * _BYTES]

    def _join(self, words: Sequence[str]) -> bytes:
        pieces = self._pieces
        try:
            return b"".join([pieces[word] for word in words])
        except KeyError:
            return b"".join([pieces.get(word) or self._split(word) for word in words])

    def _split(self, word: str) -> bytes:
        packed = _packed(self._tokenizer.encode(word, add_special_tokens=False).ids)
        if len(word) <= _LONGEST_WORD:
            if len(self._pieces) >= _WORDS_KEPT:
                self._pieces = {}
            self._pieces[word] = packed
        return packed


def _packed(ids: Sequence[int]) -> bytes:
    return np.array(ids, np.int32).tobytes()


def splits_words(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer is one of BERT's, which treats each word by itself."""
    parts = json.loads(tokenizer.to_str())
    kinds = [(parts.get(part) or {}).get("type") for part in ("normalizer", "pre_tokenizer")]
    added = [one["content"] for one in parts.get("added_tokens", []) if not one.get("special")]
    return (
        kinds == ["BertNormalizer", "BertPreTokenizer"]
        and not added
        and (parts["model"].get("type") == "WordPiece")
    )
