"""From a text to the terms that BM25 counts: folding, words, stop words, stems, by language.

Scripts without spaces between words, and Korean, are cut into pairs of characters.
"""

import re
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain, islice

from assay.data.dataset import Document
from assay.errors import UsageError, did_you_mean
from assay.text import FUNCTION_WORDS, bounded_marks, detect_language

# Changes whenever terms do: an index made by another analyzer is built again
ANALYZER = "folded words, stop words and Snowball stems by language, pairs of CJK, v3"

AUTO, NO_LANGUAGE, DEFAULT_LANGUAGE = "auto", "none", "english"

# What `detect_language` says of a script that several languages share: the usual one.
_USUAL = {"cyrillic": "russian", "devanagari": "hindi"}
# ISO 639-1 codes, as metadata of documents have them.
_LATIN_CODES = """
    ca=catalan cs=czech da=danish de=german en=english es=spanish et=estonian eu=basque fi=finnish
    fr=french ga=irish hu=hungarian id=indonesian it=italian lt=lithuanian nb=norwegian nl=dutch
    no=norwegian pl=polish pt=portuguese ro=romanian sv=swedish tr=turkish
"""
_OTHER_CODES = """
    ar=arabic el=greek fa=persian hi=hindi hy=armenian ne=nepali ru=russian sr=serbian ta=tamil
    yi=yiddish ja=cjk ko=cjk th=cjk zh=cjk
"""
_CODES = dict(code.split("=") for code in f"{_LATIN_CODES} {_OTHER_CODES}".split())
_NOT_LATIN = frozenset(code.split("=")[1] for code in _OTHER_CODES.split())
LANGUAGES = (AUTO, NO_LANGUAGE, *sorted(set(_CODES.values())))

DOCUMENTS_READ, _CHARACTERS_READ = 100, 1000
_WORDS_TO_TELL_BY = 30
_UNSPACED_SCRIPTS = frozenset({"chinese", "japanese", "korean", "thai", "lao", "myanmar", "khmer"})

# A longer run of letters is cut into words, as Lucene does. The signs of vowels in Indic scripts
# are not letters to Python, but belong to the word.
_SIGNS = (
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0980-\u0983\u09bc-\u09d7\u0a00-\u0df4"
)
_WORD = re.compile(r"[^\W_]{1,64}")
# Thai, Lao, Burmese, Khmer, kana, Chinese characters, Hangul.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
_UNSPACED += "\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
_SPECIAL = re.compile(f"[{_SIGNS}{_UNSPACED}]")
_RUN = re.compile(f"[{_UNSPACED}]+")
_RUN_OR_WORD = re.compile(
    f"[{_UNSPACED}]{{1,64}}|(?:(?![{_UNSPACED}])(?:[^\\W_]|[{_SIGNS}])){{1,64}}"
)
_ACCENTS = re.compile("[\u0300-\u036f]")
_WORDS_KEPT = 500_000
_NO_TERM = -1


def language_named(name: str) -> str:
    """The language's name as it is recorded, from that name or its ISO code in any case.

    `UsageError` for a language that nothing here reads.
    """
    found = _plain_name(name)
    if found not in LANGUAGES:
        raise UsageError(
            f"unknown language {name!r}{did_you_mean(found, LANGUAGES)}; use one of "
            f"{', '.join(LANGUAGES)}, or a code such as de"
        )
    return found


def _plain_name(name: object) -> str:
    plain = str(name).strip().casefold()
    return _CODES.get(plain.partition("-")[0], plain)


def language_of(documents: Iterable[Document]) -> str:
    """What the first of the documents are written in.

    Their own word for it (`language` or `lang` in their metadata) where most of them have one, else
    what script and function words show; English where these show nothing.
    """
    sample = list(islice(documents, DOCUMENTS_READ))
    told = (_plain_name(one.metadata.get("language", one.metadata.get("lang"))) for one in sample)
    declared = Counter(name for name in told if name in LANGUAGES and name not in (AUTO, "none"))
    if declared.total() > len(sample) / 2:
        return declared.most_common(1)[0][0]
    texts = (f"{one.title} {one.text[:_CHARACTERS_READ]}" for one in sample)
    found = detect_language(texts, min_words=_WORDS_TO_TELL_BY) or DEFAULT_LANGUAGE
    if found in _UNSPACED_SCRIPTS:
        return "cjk"
    named = _USUAL.get(found, found)
    return named if named in LANGUAGES else DEFAULT_LANGUAGE  # Hebrew has no stemmer


class Analyzer:
    """The terms of texts in one of `LANGUAGES`. Safe to use from several threads.

    `none` stems nothing and has no stop words. `open_analyzer` returns one that is there.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        # English words stand in documents of every script.
        self._ascii = DEFAULT_LANGUAGE if language in _NOT_LATIN else language
        known = (FUNCTION_WORDS.get(one, "").split() for one in (language, self._ascii))
        self._stop = frozenset(chain.from_iterable(known))
        # A corpus repeats most of its words, and a stemmer takes longer than a look-up.
        self._stem = lru_cache(_WORDS_KEPT)(self._stem_word)
        self._hash = lru_cache(_WORDS_KEPT)(self._hash_word)

    def terms(self, text: str) -> list[str]:
        """The terms of a query or a passage, in order: folded, without stop words, stemmed."""
        return [stem for stem in map(self._stem, _words(text, alone=False)) if stem]

    def count(self, text: str) -> Counter[int]:
        """How often a document has each term, by its hash in a sparse vector.

        Characters of unspaced scripts also count alone, so that a query of one of them finds it.
        """
        return self._count(_words(text, alone=True))

    def count_query(self, text: str) -> Counter[int]:
        """How often a query has each term."""
        return self._count(_words(text, alone=False))

    def _count(self, words: Sequence[str]) -> Counter[int]:
        counts = Counter(map(self._hash, words))
        counts.pop(_NO_TERM, None)
        return counts

    def _hash_word(self, word: str) -> int:
        # In 32 bits words rarely share a hash, and postings are arrays of integers, not of words.
        stem = self._stem_word(word)
        return zlib.crc32(stem.encode()) if stem else _NO_TERM

    def _stem_word(self, word: str) -> str:
        """Empty for a stop word."""
        if word in self._stop:
            return ""
        language = self._ascii if word.isascii() else self._language
        if language in (NO_LANGUAGE, "cjk"):
            return _unaccented(word)
        # A stemmer reads accents, so they go after it; English has none, and they go before.
        english = language == DEFAULT_LANGUAGE
        with _stemming:
            stem = _stemmer(language)(_unaccented(word) if english else word)
        return stem if english else _unaccented(stem)


_stemming = threading.Lock()  # PyStemmer is not safe for threads


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    import Stemmer

    found: Callable[[str], str] = Stemmer.Stemmer(language).stemWord
    return found


@lru_cache(maxsize=32)
def open_analyzer(language: str = DEFAULT_LANGUAGE) -> Analyzer:
    """The same one for the same language, with the words that it has seen."""
    return Analyzer(language)


def _words(text: str, *, alone: bool) -> list[str]:
    """Of one width and one case; runs of unspaced characters as overlapping pairs, as in Lucene."""
    if text.isascii():
        return _WORD.findall(text.lower())
    composed = unicodedata.normalize("NFKC", bounded_marks(text)).casefold()
    composed = unicodedata.normalize("NFKC", composed)  # folding a case may take letters apart
    folded = _ACCENTS.sub("", composed)  # those that no letter is made with
    if not _SPECIAL.search(folded):
        return _WORD.findall(folded)
    found = []
    for word in _RUN_OR_WORD.findall(folded):
        if not _RUN.match(word):
            found.append(word)
            continue
        found += [word[start : start + 2] for start in range(len(word) - 1)]
        if alone or len(word) == 1:
            found += word
    return found


def _unaccented(word: str) -> str:
    if word.isascii():
        return word
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", word))
    return unicodedata.normalize("NFC", bare)
