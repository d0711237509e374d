"""Words, stems and sentences of a text: the one reader of each.

The analyzers of the search engines are not here: what a BM25 index was built with belongs to the
index. Nothing is imported until a stem is asked for.
"""

import re
import threading
import unicodedata
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

_DASHES = re.compile(r"[\u2010-\u2015\u2212]")
_APOSTROPHES = re.compile(r"[\u2018\u2019\u02bc]")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# NFKC would make "102" of "10²".
_EXPONENT = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹])")

# A number with its separators; or what begins with a letter: "don't", "b12". A unit that touches
# its number ("20min") is a word of its own.
_WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_][^\W_]*(?:'[^\W\d_]+)*")

# bm25s's list for English (NLTK's) without the fragments of contractions, and with auxiliaries.
STOP_WORDS = frozenset(
    _WORD.findall(
        "a about above after again against all am an and any are as at be because been before "
        "being below between both but by can cannot could did do does doing done down during each "
        "few for from further had has have having he her here hers herself him himself his how i "
        "if in into is it its itself just many me might mine more most much must my myself no nor "
        "not now of off on once only or other our ours ourselves out over own same shall she "
        "should so some such than that the their theirs them themselves then there these they "
        "this those through to too under until up very was we were what when where which while "
        "who whom whose why will with would you your yours yourself yourselves"
    )
)

# A full stop ends a sentence only before what can begin one (not "e.g. tea"), and not after an
# abbreviation. "no." is one before a number only.
_SENTENCE_END = re.compile(
    r"(?<=[.!?])"
    r"(?<!\b(?:Dr|Mr|Ms|St|Nr|Eq|ca|vs)\.)(?<!\b(?:ext|tel|Mrs|Fig|e\.g|i\.e)\.)(?<!\bProf\.)"
    r"(?<!\bapprox\.)"
    r"(?!(?<=\b[Nn]o\.)\s+\d)"
    # An ordinal before a month, as in "am 3. August", ends no sentence.
    r"(?!(?:(?<=\b\d\.)|(?<=\b\d\d\.))\s+(?:Jan|Jän|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)[a-zä]*\b)"
    r"\s+(?=[^a-z\s])|(?<=[。！？])|\n+"
)
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+(?=\S)", re.MULTILINE)

# C0 and C1 controls except tab, line feed and carriage return, which are white space.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

_SHORT = 500
_local = threading.local()


def remember_short(read: Callable[[str], str]) -> Callable[[str], str]:
    """Let a function of a text keep its results for sentences and phrases, which every check of an
    answer reads again; longer texts would fill the memory."""
    kept = lru_cache(maxsize=4096)(read)

    @wraps(read)
    def remembering(text: str) -> str:
        return kept(text) if len(text) <= _SHORT else read(text)

    return remembering


def strip_controls(text: str) -> str:
    """The text without lone surrogates and control characters, which become `?` and spaces.

    JSON may hold half a surrogate pair, which no UTF-8 engine accepts; NUL ends C strings.
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub(" ", text)


@remember_short
def normalize(text: str) -> str:
    """One spelling for what differs in case, white space, dashes, quotes or thousands separators.

    "10²" becomes "10^2", "1,200" becomes "1200".
    """
    if text.isascii():  # which has none of these, and is read ten times as fast
        plain = text.lower()
    else:
        plain = unicodedata.normalize("NFKC", _EXPONENT.sub("^", bounded_marks(text))).casefold()
        plain = _APOSTROPHES.sub("'", _DASHES.sub("-", plain))
    return " ".join((_THOUSANDS.sub("", plain) if "," in plain else plain).split())


def words(text: str) -> list[str]:
    """The words and numbers of a text in their order, normalized.

    A contraction is one word ("don't"), a number keeps its separators ("17:00", "3.5"), a hyphen
    separates words.
    """
    return _WORD.findall(normalize(text))


def stem(word: str) -> str:
    """The English stem (Snowball) of a normalized word."""
    found: str = _stemmer().stemWord(word)
    return found


def stems(text: str) -> list[str]:
    """Stems of the words that carry meaning, in their order: stop words are left out."""
    found: list[str] = _stemmer().stemWords([word for word in words(text) if not is_stop(word)])
    return found


def is_stop(word: str) -> bool:
    """Whether a normalized word carries no meaning of its own, contractions included."""
    if "'" not in word:
        return word in STOP_WORDS
    return word.partition("'")[0] in STOP_WORDS or word.endswith("n't")


def sentences(text: str) -> list[str]:
    """The sentences of a text in their order, each letter by letter as it is in the text.

    Every line ends a sentence. Bullets, list numbers and what has neither letter nor digit are left
    out.
    """
    parts = _SENTENCE_END.split(_LIST_MARK.sub("", text))
    bare = (part.strip(" \t\r-*•") for part in parts)
    return [part for part in bare if any(map(str.isalnum, part))]


def _stemmer() -> Any:
    """One for each thread: PyStemmer is not thread-safe."""
    if not hasattr(_local, "stemmer"):
        import Stemmer

        _local.stemmer = Stemmer.Stemmer("english")
    return _local.stemmer


_MARKS = 30
_MANY_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{_MARKS + 1},}}")  # or other signs: none is a letter


def bounded_marks(text: str) -> str:
    """The text with at most 30 combining marks on one letter, as in Unicode's stream-safe format.

    To normalize a run of marks takes time with the square of its length: minutes for a hostile one.
    """
    return text if text.isascii() else _MANY_MARKS.sub(_first_marks, text)


def _first_marks(found: re.Match[str]) -> str:
    kept, run = [], 0
    for sign in found[0]:
        run = run + 1 if unicodedata.combining(sign) else 0
        if run <= _MARKS:
            kept.append(sign)
    return "".join(kept)
