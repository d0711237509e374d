"""Text as the model-free measures see it: folded, cut into sentences, reduced to its stems."""

import re
import unicodedata
from functools import cache

import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from assay.answer.citations import without_markers

_DASHES = re.compile(r"[\u2010-\u2015\u2212]")
_APOSTROPHES = re.compile(r"[\u2018\u2019\u02bc]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# NFKC would make "102" of "10²".
_EXPONENT = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹])")
# A unit that touches its number ("20min") is a word of its own.
_WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+")
# A full stop ends a sentence only before what can begin one: not in "1. September" or "e.g. tea".
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|(?<=[。！？])|\n+")
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+(?=\S)", re.MULTILINE)
_STOPWORDS = frozenset(STOPWORDS_EN_PLUS)


def fold(text: str) -> str:
    """One spelling for what differs by case, white space, kind of dash or thousands separator."""
    plain = unicodedata.normalize("NFKC", _EXPONENT.sub("^", text)).casefold()
    plain = _APOSTROPHES.sub("'", _DASHES.sub("-", plain))
    return " ".join(_THOUSANDS.sub("", plain).split())


def content_words(text: str) -> frozenset[str]:
    """Stems of the words that carry meaning, numbers among them as they are written."""
    words = (word for word in _WORD.findall(fold(text)) if word not in _STOPWORDS)
    return frozenset(_stemmer().stemWord(word) for word in words)


def sentences(text: str) -> list[str]:
    """Without citation markers, bullets, the numbers of a list and empty lines."""
    parts = _SENTENCE_END.split(_LIST_MARK.sub("", without_markers(text)))
    bare = (part.strip(" \t-*•") for part in parts)
    return [part for part in bare if any(map(str.isalnum, part))]


@cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
