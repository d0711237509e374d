"""From a text to the terms that BM25 counts: folding, words, stop words, stems, in any language.

A word is stemmed by the language of its script: Cyrillic as Russian and so on. Many languages share
the Latin script, so a corpus has one language for these words: an option, what its documents say,
or what their function words show. Scripts without spaces between words (Chinese, Japanese, Thai),
and Korean, whose words carry their particles, are cut into pairs of characters.

A query and a document meet when they have the same term. So width, case and accents are folded;
accents only after stemming, because a stemmer reads them (English has none and is folded first).
"""

import re
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import TypeVar

from assay.data.dataset import Document
from assay.errors import UsageError, did_you_mean
from assay.text import FUNCTION_WORDS, bounded_marks, detect_language

# Changes whenever terms do: an index made by another analyzer is built again
ANALYZER = "folded words, stop words and Snowball stems by language, pairs of CJK, v2"

AUTO, NO_LANGUAGE, DEFAULT_LANGUAGE = "auto", "none", "english"

# By the character that a word begins with: which stemmers read the script, the usual one first.
_SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "CYRILLIC": ("russian", "serbian"),
    "GREEK": ("greek",),
    "ARABIC": ("arabic", "persian"),
    "DEVANAGARI": ("hindi", "nepali"),
    "TAMIL": ("tamil",),
    "ARMENIAN": ("armenian",),
    "HEBREW": (NO_LANGUAGE, "yiddish"),
}
_NOT_LATIN = {language for known in _SCRIPTS.values() for language in known} - {"none"} | {"cjk"}
# ISO 639-1 codes, as metadata of documents have them.
_CODES_OF_LANGUAGES = """
    ar=arabic ca=catalan cs=czech da=danish de=german el=greek en=english es=spanish et=estonian
    eu=basque fa=persian fi=finnish fr=french ga=irish hi=hindi hu=hungarian hy=armenian
    id=indonesian it=italian lt=lithuanian nb=norwegian ne=nepali nl=dutch no=norwegian
    pl=polish pt=portuguese ro=romanian ru=russian sr=serbian sv=swedish ta=tamil tr=turkish
    yi=yiddish ja=cjk ko=cjk th=cjk zh=cjk
"""
_CODES = dict(code.split("=") for code in _CODES_OF_LANGUAGES.split())
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
_Value = TypeVar("_Value", str, int)
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
    # A script that several languages share is read by its usual stemmer; Hebrew has none.
    named = _SCRIPTS.get(found.upper(), (found,))[0]
    return named if named in LANGUAGES and named != NO_LANGUAGE else DEFAULT_LANGUAGE


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}


class Analyzer:
    """The terms of texts in one of `LANGUAGES`. Safe to use from several threads.

    `none` stems nothing and has no stop words. `open_analyzer` returns one that is there.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        # English words stand in documents of every script.
        self._latin = DEFAULT_LANGUAGE if language in _NOT_LATIN else language
        known, none = _stop_words(), frozenset[str]()
        # No word of this language is in another script: Russian stop words are dropped everywhere.
        languages = {language, self._latin, "russian"} if language != NO_LANGUAGE else ()
        self._stop = none.union(*(known.get(one, none) for one in languages))
        self._stems, self._hashes = _Memo(self._stem_word), _Memo(self._hash_word)

    def terms(self, text: str) -> list[str]:
        """The terms of a query or a passage, in order: folded, without stop words, stemmed."""
        return [stem for stem in map(self._stems.__getitem__, _words(text, alone=False)) if stem]

    def count(self, text: str) -> Counter[int]:
        """How often a document has each term, by its hash in a sparse vector.

        Characters of unspaced scripts also count alone, so that a query of one of them finds it.
        """
        return self._count(_words(text, alone=True))

    def count_query(self, text: str) -> Counter[int]:
        """How often a query has each term."""
        return self._count(_words(text, alone=False))

    def _count(self, words: Sequence[str]) -> Counter[int]:
        counts = Counter(map(self._hashes.__getitem__, words))
        counts.pop(_NO_TERM, None)
        return counts

    def _hash_word(self, word: str) -> int:
        stem = self._stem_word(word)
        return zlib.crc32(stem.encode()) if stem else _NO_TERM

    def _stem_word(self, word: str) -> str:
        """Empty for a stop word."""
        if word in self._stop:
            return ""
        language = self._language_of(word)
        if language == NO_LANGUAGE:
            return _unaccented(word)
        english = language == DEFAULT_LANGUAGE
        with _stemming:
            stem = _stemmer(language)(_unaccented(word) if english else word)
        return stem if english else _unaccented(stem)

    def _language_of(self, word: str) -> str:
        if self._language == NO_LANGUAGE or _RUN.match(word):
            return NO_LANGUAGE
        script = "" if word.isascii() else _script(word[0])
        if not script:
            return self._latin
        known = _SCRIPTS[script]
        return self._language if self._language in known else known[0]


class _Memo(dict[str, _Value]):
    """What was computed of each word: a corpus repeats most of its words."""

    def __init__(self, compute: Callable[[str], _Value]) -> None:
        self._compute: Callable[[str], _Value] = compute

    def __missing__(self, word: str) -> _Value:
        if len(self) > _WORDS_KEPT:
            self.clear()
        found = self._compute(word)
        self[word] = found
        return found


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
    folded = _folded(text)
    if folded.isascii() or not _SPECIAL.search(folded):
        return _WORD.findall(folded)
    return list(_with_pairs(_RUN_OR_WORD.findall(folded), alone))


def _with_pairs(words: Iterable[str], alone: bool) -> Iterator[str]:
    """Runs of unspaced characters as overlapping pairs, as Lucene does."""
    for word in words:
        if not _RUN.match(word):
            yield word
            continue
        yield from (word[start : start + 2] for start in range(len(word) - 1))
        if alone or len(word) == 1:
            yield from word


def _folded(text: str) -> str:
    """One width, one case, accents joined with their letters."""
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFKC", bounded_marks(text)).casefold()
    if not unicodedata.is_normalized("NFKC", composed):
        composed = unicodedata.normalize("NFKC", composed)
    return _ACCENTS.sub("", composed)  # those that no letter is made with


def _unaccented(word: str) -> str:
    if word.isascii():
        return word
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", word))
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=1 << 12)
def _script(letter: str) -> str:
    """The script of a letter if it has a stemmer; "" for Latin and all others."""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in _SCRIPTS else ""
