"""Words, stems, sentences, times and the language of a text: the one reader of each."""

import hashlib
import re
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

_PLAIN_SIGNS = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u02bc", "'")
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# "1 200", and not the year of "2026 120 boats".
_NARROW_BLANK = re.compile(r"(?<=\d)(?<!\d{4})[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
# NFKC would make "102" of "10²".
_EXPONENT = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹])")

# A number with its separators; or what begins with a letter: "don't", "b12". A unit that touches
# its number ("20min") is a separate word.
_WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_][^\W_]*(?:'[^\W\d_]+)*")

# What the measures of answers leave out (`stems`, `is_stop`), of whole words: bm25s's list for
# English (NLTK's) without the fragments of contractions, and with auxiliaries.
_STOP_WORDS = frozenset(
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

_NEGATIONS = frozenset(_WORD.findall("no not never neither nor without cannot none nothing nobody"))

# A full stop ends a sentence only before what can begin one (not "e.g. tea"), and not after an
# abbreviation. "no." is one before a number only.
_SENTENCE_END = re.compile(
    r"(?<=[.!?])"
    r"(?<!\b(?:Dr|Mr|Ms|St|Nr|Eq|ca|vs)\.)(?<!\b(?:ext|tel|Mrs|Fig|e\.g|i\.e)\.)(?<!\bProf\.)"
    r"(?<!\bapprox\.)"
    r"(?!(?<=\b[Nn]o\.)\s+\d)"
    # Nor after a German ordinal: "am 3. Werktag", "3. August".
    r"(?<!\b[Aa]m \d\.)(?<!\b[Dd]e[rmns] \d\.)"
    r"(?!(?:(?<=\b\d\.)|(?<=\b\d\d\.))\s+(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez))"
    r"\s+(?=[^a-z\s])|(?<=[。！？])|\n+"
)
_LIST_MARK = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+(?=\S)", re.MULTILINE)

# C0 and C1 controls except tab, line feed and carriage return, which are white space.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

# Stop words by language: they show the language of a text, and BM25 leaves them out; `is_stop` has
# another list, for answers in English. English is NLTK's list, without contractions, which are
# split at the apostrophe, and without those of their pieces that mean something alone: vitamin D,
# won, re.
FUNCTION_WORDS = {
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
_SCRIPT_LANGUAGES = {
    "CJK": "chinese",
    "HIRAGANA": "japanese",
    "KATAKANA": "japanese",
    "HANGUL": "korean",
}
_LETTERS_READ = 100_000
# What a language must show of its function words before it is believed: text has about 40%.
_SURE = 0.12
_MIN_HITS = 2

_SHORT = 500
_local = threading.local()


def strip_controls(text: str) -> str:
    """The text without lone surrogates and control characters, which become `?` and spaces.

    JSON may hold half a surrogate pair, which no UTF-8 engine accepts; NUL ends C strings.
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub(" ", text)


def normalize(text: str) -> str:
    """One spelling for what differs in case, white space, dashes, quotes or thousands separators.

    "10²" becomes "10^2", "1,200" becomes "1200".
    """
    # Every check of an answer reads its sentences again; longer texts would fill the memory.
    return _normalize_short(text) if len(text) <= _SHORT else _normalize(text)


def _normalize(text: str) -> str:
    if text.isascii():  # which has none of these, and is read ten times as fast
        plain = text.lower()
    else:
        joined = _EXPONENT.sub("^", _NARROW_BLANK.sub("", bounded_marks(text)))
        plain = unicodedata.normalize("NFKC", joined).casefold().translate(_PLAIN_SIGNS)
    return " ".join((_THOUSANDS.sub("", plain) if "," in plain else plain).split())


_normalize_short = lru_cache(maxsize=4096)(_normalize)


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
    """Whether a normalized word carries no meaning alone, contractions included."""
    if "'" not in word:
        return word in _STOP_WORDS
    return word.partition("'")[0] in _STOP_WORDS or word.endswith("n't")


def is_negation(word: str) -> bool:
    """Whether a normalized English word turns a statement around, and does nothing else."""
    return word in _NEGATIONS or word.endswith("n't")


def sentences(text: str) -> list[str]:
    """The sentences of a text in their order, each letter by letter as it is in the text.

    Every line ends a sentence. Bullets, list numbers and what has neither letter nor digit are left
    out.
    """
    parts = _SENTENCE_END.split(_LIST_MARK.sub("", text))
    bare = (part.strip(" \t\r-*•") for part in parts)
    return [part for part in bare if any(map(str.isalnum, part))]


def detect_language(texts: Iterable[str], *, min_words: int = 5) -> str | None:
    """What texts are written in, "german"; for a script that several languages share its name,
    "cyrillic"; None if it cannot be told.

    Latin letters are told apart by function words. One that several languages have ("in", "de")
    counts less for each of them, so that few words are enough. With fewer than `min_words` words in
    Latin letters the language is not told.
    """
    scripts: Counter[str] = Counter()
    latin: list[str] = []
    for text in texts:
        for word in words(text):
            if word.isascii() or _script_of(word[0]) == "LATIN":
                latin += word.split("'")
                scripts["LATIN"] += len(word)
                continue
            for letter in word:
                script = _script_of(letter)
                # A sign of these says as much as a few letters.
                scripts[script] += 3 if script in _SCRIPT_LANGUAGES else 1
        if scripts.total() > _LETTERS_READ:
            break
    named: Counter[str] = Counter()
    for script, letters in scripts.items():
        named[_SCRIPT_LANGUAGES.get(script, script.lower())] += letters
    language = named.most_common(1)[0][0] if named else ""
    return language if language != "latin" else _latin_language(latin, min_words)


def _latin_language(said: Sequence[str], min_words: int) -> str | None:
    said = [word for word in said if not word[:1].isdigit()]
    if len(said) < min_words:
        return None
    known = _languages_by_word()
    shown: defaultdict[str, float] = defaultdict(float)
    hits: Counter[str] = Counter()
    for word in said:
        for language in (found := known.get(word, ())):
            hits[language] += 1
            shown[language] += 1 / len(found)
    # English first on a tie of texts of any length; two others that are alike are not told apart.
    ranked = sorted(shown, key=lambda each: (-shown[each], each != "english"))
    if not ranked or hits[ranked[0]] < max(_MIN_HITS, _SURE * len(said)):
        return None
    tied = len(ranked) > 1 and shown[ranked[0]] == shown[ranked[1]]
    return None if tied and ranked[0] != "english" else ranked[0]


@cache
def _languages_by_word() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for language, listed in FUNCTION_WORDS.items():
        for word in listed.split():
            found[word] = (*found.get(word, ()), language)
    return found


@lru_cache(maxsize=4096)
def _script_of(letter: str) -> str:
    """The script as Unicode names it."""
    return unicodedata.name(letter, "LATIN").partition(" ")[0]


def _stemmer() -> Any:
    """One for each thread: PyStemmer is not thread-safe."""
    if not hasattr(_local, "stemmer"):
        import Stemmer

        _local.stemmer = Stemmer.Stemmer("english")
    return _local.stemmer


_MAX_MARKS = 30
# Other signs may be among them: none is a letter.
_MANY_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{_MAX_MARKS + 1},}}")


def bounded_marks(text: str) -> str:
    """The text with at most 30 combining marks on one letter, as in Unicode's stream-safe format.

    To normalize a run of marks takes time with the square of its length: minutes for a hostile one.
    """

    def first_marks(found: re.Match[str]) -> str:
        kept, run = [], 0
        for sign in found[0]:
            run = run + 1 if unicodedata.combining(sign) else 0
            if run <= _MAX_MARKS:
                kept.append(sign)
        return "".join(kept)

    return text if text.isascii() else _MANY_MARKS.sub(first_marks, text)


def parse_time(text: str) -> datetime:
    """A day or a time in ISO 8601, in UTC if it names no zone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def text_hash(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
