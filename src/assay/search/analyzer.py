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

from assay.data.dataset import Document
from assay.errors import UsageError, did_you_mean
from assay.text import bounded_marks

ANALYZER = "folded words, stop words and Snowball stems by language, pairs of CJK, v2"
"""Changes whenever terms do: an index made by another analyzer is built again."""

AUTO, NO_LANGUAGE, DEFAULT_LANGUAGE = "auto", "none", "english"
DEFAULT_STOP_WORDS = "default"

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
_CODES = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "nb": "norwegian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish", "ja": "cjk", "ko": "cjk", "th": "cjk", "zh": "cjk",
}  # fmt: skip
LANGUAGES = (AUTO, NO_LANGUAGE, *sorted(set(_CODES.values())))

# English: NLTK's list, without contractions, which are split at the apostrophe, and without those
# of their pieces that mean something alone: vitamin D, won, re.
_STOP_LISTS = {
    "english": """a about above after again against ain all am an and any are aren as at be
        because been before being below between both but by can couldn did didn do does doesn
        doing don down during each few for from further had hadn has hasn have haven having he
        her here hers herself him himself his how i if in into is isn it its itself just ll me
        mightn more most mustn my myself needn no nor not now of off on once only or other our
        ours ourselves out over own s same shan she should shouldn so some such t than that the
        their theirs them themselves then there these they this those through to too under until
        up ve very was wasn we were weren what when where which while who whom why will with
        wouldn you your yours yourself yourselves""",
    "german": """aber alle allem allen aller alles als also am an auch auf aus bei bin bis bist
        da damit dann das dass dein deine dem den denn der des dich die dies diese diesem diesen
        dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch
        euer für gegen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre
        ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jetzt kann kein keine
        keinen können man mein meine mich mir mit muss nach nicht nichts noch nun nur ob oder
        ohne sehr sein seine seinem seinen seiner seit sich sie sind so soll sollte sondern über
        um und uns unser unter vom von vor war waren warum was weil welche welcher wenn wer werde
        werden wie wieder will wir wird wo wurde wurden zu zum zur zwischen""",
    "french": """à au aucun aussi autre aux avec avoir c car ce ceci cela celle celui ces cet
        cette ceux chez comme d dans de depuis des donc dont du elle elles en encore entre es est
        et étaient était été être eu eux fait font il ils j je l la là le les leur leurs lui m ma
        mais me même mes moi mon n ne ni nos notre nous on ont ou où par pas peu peut plus pour
        pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son
        sont sous sur t ta te tes toi ton tous tout toute toutes très tu un une vers vos votre
        vous y""",
    "spanish": """a al algo ante antes aunque cada como con contra cual cuando de del desde donde
        dos durante e el él ella ellas ellos en entre era eran es esa ese eso esta está están
        este esto estos fue fueron ha había hace hacia han hasta hay la las le les lo los más me
        mi mientras muy nada ni no nos o otra otro para pero poco por porque puede que qué quien
        se según ser si sí sin sobre son su sus también tan te tiene toda todo todos tras tu tus
        un una unos y ya yo""",
    "italian": """a ad ai al alla alle allo anche avere c che chi ci come con cosa cui d da dai
        dal dalla dalle dei del della delle dello di dopo dove e è ed era erano essere fra gli ha
        hanno ho i il in io l la le lei li lo loro lui ma mi mia mio ne nei nel nella nelle nello
        noi non o ogni per perché però più poi può quale quando quanto quella quelle quelli
        quello questa queste questi questo qui se sei si sia sono sta su sua sue sui sul sulla
        suo suoi tra tu tutti tutto un una uno vi voi""",
    "portuguese": """a à ao aos as às até com como da das de dela dele depois do dos e é ela elas
        ele eles em entre era eram essa esse esta está este eu foi foram há isso isto já lhe mais
        mas me mesmo meu minha muito na não nas nem no nos nós num numa o onde os ou para pela
        pelas pelo pelos pode por porque qual quando que quem são se sem ser seu seus só sobre
        sua suas também tem têm um uma você""",
    "dutch": """aan al alle als altijd ben bij daar dan dat de deze die dit doch doen door dus
        een en er ge geen had heb hebben heeft hem het hier hij hoe hun ik in is je jij kan kon
        maar me meer men met mij mijn moet na naar niet niets nog nu of om onder ons ook op over
        te tegen toch toen tot u uit uw van veel voor want waren was wat we wel werd wie wij wil
        worden wordt zal ze zich zij zijn zo zonder zou""",
    "swedish": """alla att av bara blev bli då de dem den denna deras dess det detta dig din du
        där efter ej eller en ett från för han har hans här hon hur hade i icke inte är jag
        kan kunde man med mellan men mig min mot mycket ni nu när någon något och om oss på sedan
        sig sin sina sitt ska skulle som så till under upp ut utan vad var vara varför vi vid
        vilka över""",
    "danish": """af alle at blev blive da de dem den der deres det dette dig din disse dog du
        efter eller en end er et for fra ham han hans har havde hende her hun hvad hvis hvor
        hvorfor i ikke ind jeg kan kunne man med meget men mig min mod mellem ned nogle noget nu
        når og også om op os over på sig sin skal skulle som så til ud under var vi vil være""",
    "norwegian": """alle at av bare ble bli da de dem den denne der deres det dette dere deg din
        du eller en enn er et etter for fra ha hadde han hans har her hun hva hvem hvis hvor
        hvorfor i ikke inn jeg kan kunne man med meg meget mellom men min mot mye nå når noe noen
        og også om opp oss over på seg sin skal skulle som så til ut under var ved vi vil være""",
    "finnish": """ei eivät eli emme en että hän he hänen heidän ja jo joka jos jossa jotka kanssa
        kuin kun me mikä minä mitä mukaan mutta myös ne niin niitä nyt oli olivat olla olen on
        ovat se sekä sen siitä sinä sitä siinä tai tämä tämän te vaan vai vain""",
    "polish": """a aby albo ale bez bo był była było były być co czy dla do gdy gdzie go i ich
        ile im ja jak jako je jego jej jest jeszcze jeśli już każdy kiedy kto która które który
        lub ma mi może można na nad nie nim o od on ona oni po pod przed przez przy są się tak
        także tam te tego tej ten to tu ty tylko tym w we więc wszystko z za ze że""",
    "turkish": """ama ancak bana bazı ben beni bir biri birkaç biz bu buna bunu bunun çok çünkü
        da daha de değil diye en gibi hem hep her için ile ise işte kadar ki kim mi mı mu mü
        nasıl ne neden nerede o olan olarak oldu olduğu onlar onu onun sen siz şey şu tüm var ve
        veya ya yok""",
    "russian": """а без бы был была были было быть в вам вас весь во вот все всего всех вы где да
        даже для до его ее ей если есть еще же за здесь и из или им их к как ко когда кто ли либо
        мне может мы на над надо наш не него нее нет ни них но ну о об однако он она они оно от
        очень по под при с со так также такой там те тем то того тоже той только том ты у уже
        хотя чего чей чем что чтобы чье чья эта эти это этого этой этом этот я""",
}
# What a language must show of its function words before it is believed: text has about 40%.
_SURE = 0.12
_WORDS_TO_TELL_BY = 30
DOCUMENTS_READ, _CHARACTERS_READ = 100, 1000

# A longer run of letters is cut into words, as Lucene does. The signs of vowels in Indic scripts
# are no letters to Python, and belong to the word all the same.
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
    plain = name.strip().casefold()
    found = _CODES.get(plain.partition("-")[0], plain)
    if found not in LANGUAGES:
        raise UsageError(
            f"unknown language {name!r}{did_you_mean(plain, LANGUAGES)}; use one of "
            f"{', '.join(LANGUAGES)}, or a code such as de"
        )
    return found


def language_of(documents: Iterable[Document]) -> str:
    """What the first of the documents are written in.

    Their own word for it (`language` or `lang` in their metadata) where most of them have one, else
    what script and function words show; English where these show nothing.
    """
    sample = list(islice(documents, DOCUMENTS_READ))
    told = Counter(
        found
        for one in sample
        if (found := _told_language(one.metadata.get("language", one.metadata.get("lang"))))
    )
    if told and told.total() > len(sample) / 2:
        return told.most_common(1)[0][0]
    return detect_language(f"{one.title} {one.text[:_CHARACTERS_READ]}" for one in sample)


def _told_language(value: object) -> str:
    try:
        found = language_named(value) if isinstance(value, str) else ""
    except UsageError:
        return ""
    return "" if found in (AUTO, NO_LANGUAGE) else found


def detect_language(texts: Iterable[str]) -> str:
    """By script, and for Latin letters by function words."""
    letters: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for text in texts:
        for word in _RUN_OR_WORD.findall(_folded(text)):
            script = "cjk" if _RUN.match(word) else _script_of(word)
            letters[script] += len(word) * (3 if script == "cjk" else 1)  # these say more
            words[word] += not script
    script = max(letters, key=letters.__getitem__, default="")
    if script:
        found = _SCRIPTS[script][0] if script in _SCRIPTS else script
        return found if found != NO_LANGUAGE else DEFAULT_LANGUAGE
    total = words.total()
    if total < _WORDS_TO_TELL_BY:
        return DEFAULT_LANGUAGE
    shares = {
        language: sum(words[one] for one in stop) / total
        for language, stop in _stop_words().items()
    }
    # English first: on a tie, what was there before languages were told apart.
    best = max(shares, key=lambda language: (shares[language], language == DEFAULT_LANGUAGE))
    return best if shares[best] >= _SURE else DEFAULT_LANGUAGE


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in _STOP_LISTS.items()}


class Analyzer:
    """The terms of texts in one language. Safe to use from several threads: see `open_analyzer`.

    Parameters:
        language: one of `LANGUAGES`, not `auto`.
        stop_words: `default` for those of the language, `none`, or words with commas between them.
    """

    def __init__(self, language: str, stop_words: str = DEFAULT_STOP_WORDS) -> None:
        self._language = language
        # English words stand in documents of every script.
        self._latin = DEFAULT_LANGUAGE if language in _NOT_LATIN else language
        self._stop = _chosen_stop_words({language, self._latin}, stop_words)
        self._lexicon = _Lexicon()

    def terms(self, text: str) -> list[str]:
        """Of a query or a passage, in order: folded, without stop words, stemmed."""
        words = _words(text, alone=False)
        lexicon = self._lexicon_of(words)
        return [stem for stem in map(lexicon.stems.__getitem__, words) if stem]

    def count(self, text: str) -> Counter[int]:
        """How often a document has each term, by its hash in a sparse vector.

        Characters of unspaced scripts also count alone, so that a query of one of them finds it.
        """
        return self._count(_words(text, alone=True))

    def count_query(self, text: str) -> Counter[int]:
        """The same of a query."""
        return self._count(_words(text, alone=False))

    def _count(self, words: Sequence[str]) -> Counter[int]:
        try:
            counts = Counter(map(self._lexicon.hashes.__getitem__, words))
        except KeyError:
            counts = Counter(map(self._lexicon_of(words).hashes.__getitem__, words))
        counts.pop(_NO_TERM, None)
        return counts

    def _lexicon_of(self, words: Sequence[str]) -> "_Lexicon":
        """One that has these words. A full one is replaced: other threads may be reading it."""
        lexicon = self._lexicon
        if not all(map(lexicon.hashes.__contains__, words)):
            if len(lexicon.hashes) > _WORDS_KEPT:
                lexicon = self._lexicon = _Lexicon()
            with _stemming:
                for word in {word for word in words if word not in lexicon.hashes}:
                    lexicon.add(word, "" if word in self._stop else self._stem(word))
        return lexicon

    def _stem(self, word: str) -> str:
        language = self._language_of(word)
        if language == NO_LANGUAGE:
            return _unaccented(word)
        if language == DEFAULT_LANGUAGE:
            return _stemmer(language)(_unaccented(word))
        return _unaccented(_stemmer(language)(word))

    def _language_of(self, word: str) -> str:
        if self._language == NO_LANGUAGE or _RUN.match(word):
            return NO_LANGUAGE
        script = "" if word.isascii() else _script_of(word)
        if not script:
            return self._latin
        known = _SCRIPTS[script]
        return self._language if self._language in known else known[0]


class _Lexicon:
    """Every word seen, with its stem and the hash of that: a corpus repeats most of its words."""

    def __init__(self) -> None:
        self.stems: dict[str, str] = {}
        """Empty for a stop word."""
        self.hashes: dict[str, int] = {}

    def add(self, word: str, stem: str) -> None:
        self.stems[word] = stem  # before the hash, by which others tell that a word is known
        self.hashes[word] = zlib.crc32(stem.encode()) if stem else _NO_TERM


_stemming = threading.Lock()  # PyStemmer is not safe for threads


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    import Stemmer

    found: Callable[[str], str] = Stemmer.Stemmer(language).stemWord
    return found


@lru_cache(maxsize=32)
def open_analyzer(
    language: str = DEFAULT_LANGUAGE, stop_words: str = DEFAULT_STOP_WORDS
) -> Analyzer:
    """The same one for the same settings, with the words that it has seen."""
    return Analyzer(language, stop_words)


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
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in _SCRIPTS else ""


def _script_of(word: str) -> str:
    """The script of a word that has a stemmer of its own; "" for Latin and all others."""
    return _script(word[0])


def _chosen_stop_words(languages: Iterable[str], chosen: str) -> frozenset[str]:
    if chosen == NO_LANGUAGE:
        return frozenset()
    if chosen != DEFAULT_STOP_WORDS:
        return frozenset(_WORD.findall(_folded(chosen)))
    known = _stop_words()
    # A word of another script is no word of this language: Russian ones are dropped everywhere.
    return frozenset().union(known["russian"], *(known.get(language, ()) for language in languages))
