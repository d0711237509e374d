"""The analyzer in several languages: what plain words miss, its terms find."""

import pytest

from assay.data import Document
from assay.errors import UsageError
from assay.search.analyzer import Analyzer, language_named, language_of
from assay.search.bm25 import Bm25Index, Bm25Settings

# Each document with a query that shares none of its words as they are written.
FINDS = {
    "german": {
        "Haus Arzt": "Die alten Häuser am Fluss wurden im Winter von zwei Ärzten gekauft.",
        "Strasse Kind": "Die Kinder spielten auf der Straße, bis ihre Mütter sie zum Essen riefen.",
        "Fahrrad": "Mein Bruder repariert alte Fahrräder und verkauft sie auf dem Markt.",
    },
    "russian": {
        "книга": "Старые книги лежали на полках в доме моей бабушки.",
        "зеленый": "Мы купили на рынке свежие огурцы, помидоры и зелёный лук.",
    },
    "japanese": {
        "図書館": "駅前の図書館は月曜日に休みです。",
        "コーヒー": "ｺｰﾋｰ豆を挽いて、ゆっくり淹れるのが好きです。",
    },
    "chinese": {
        "图书馆": "火车站旁边的图书馆星期一不开门。",
        "鱼": "渔民从湖上回来，一条鱼也没有抓到。",
    },
}
CASES = [(language, query) for language, asked in FINDS.items() for query in asked]


@pytest.mark.parametrize(("language", "query"), CASES)
def test_a_query_finds_the_other_forms_of_its_words(language: str, query: str) -> None:
    index = Bm25Index(Document(asked, "", text) for asked, text in FINDS[language].items())
    assert index.model.language in (language, "cjk")
    assert index.search(query, 1)[0][0] == query


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the cat sat on the mat and it was not what we had thought of it at all " * 3, "english"),
        ("el perro de la casa no quiere salir porque hace frío y está muy oscuro " * 3, "spanish"),
        ("kot nie chce wyjść na dwór, bo jest zimno i ciemno, ale to się zmieni " * 3, "polish"),
        ("หมาและแมวนอนอยู่ในบ้าน", "cjk"),
        ("η γάτα κοιμάται στο παράθυρο", "greek"),
    ],
)
def test_detection_by_script_and_function_words(text: str, language: str) -> None:
    assert language_of([Document("d", "", text)]) == language


def test_documents_may_say_their_language() -> None:
    told = [Document(str(n), "", "hund katze maus", {"language": "de"}) for n in range(3)]
    assert language_of(told) == "german"
    assert language_of([*told, *(Document(f"x{n}", "", "cat") for n in range(4))]) == "english"
    assert language_of([Document("d", "", "cat", {"lang": "Klingon"})]) == "english"


def test_languages_have_names_and_codes() -> None:
    known = {"German": "german", "pt-BR": "portuguese", "zh": "cjk", " auto ": "auto"}
    assert {name: language_named(name) for name in known} == known
    with pytest.raises(UsageError, match=r"'germn'.*german"):
        Bm25Settings(language="germn")


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("english", "Vitamin D and the Café's", "vitamin d cafe"),
        ("english", "STRASSE Straße ﬁne", "strass strass fine"),
        ("english", "!!! \x00 \ud800", ""),
        ("english", "x" * 150, f"{'x' * 64} {'x' * 64} {'x' * 22}"),
        ("german", "ＣＡＦÉ ﬁne cafe\u0301", "cafe fin cafe"),  # width, ligature, loose accent
        ("german", "Haeuser Häuser Haus", "haus haus haus"),
        ("none", "The Häuser зелёный", "the hauser зеленыи"),
    ],
)
def test_words_are_folded_stopped_and_stemmed(language: str, text: str, terms: str) -> None:
    assert Analyzer(language).terms(text) == terms.split()


def test_a_single_character_is_found_inside_a_word() -> None:
    one = Analyzer("cjk")
    assert one.count_query("茶").keys() <= one.count("緑茶").keys()
    assert one.count_query("緑茶").keys() <= one.count("緑茶").keys()
    assert len(one.count_query("緑茶")) == 1  # the pair, not its characters
