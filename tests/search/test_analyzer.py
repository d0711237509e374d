"""The analyzer in several languages: what plain words miss, its terms find."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.data import Document
from assay.errors import UsageError
from assay.search import analyzer
from assay.search.analyzer import Analyzer, language_named, language_of
from assay.search.bm25 import Bm25Index, Bm25Settings

GERMAN = """
Die alten Häuser am Fluss wurden im Winter von zwei Ärzten gekauft.
Unser Garten braucht im Sommer sehr viel Wasser, und der Brunnen ist leer.
Die Kinder spielten auf der Straße, bis ihre Mütter sie zum Essen riefen.
Der Bäcker hat heute keine Brötchen, weil der Ofen nicht heiß wird.
In den Bergen liegt noch Schnee, und die Hütten sind geschlossen.
Mein Bruder repariert alte Fahrräder und verkauft sie auf dem Markt.
Die Bibliothek hat ihre Öffnungszeiten geändert und bleibt am Montag zu.
Wir haben drei Katzen, die am liebsten auf dem Sofa schlafen.
Die Züge nach Norden fahren wegen der Bauarbeiten nur jede Stunde.
Für den Kuchen brauchst du vier Eier, Mehl und etwas Zucker.
Die Versicherung zahlt den Schaden nicht, wenn das Fenster offen war.
Am Abend singen die Vögel in den Bäumen vor unserem Haus.
"""
FRENCH = """
Les chevaux du voisin sont sortis du pré pendant la nuit.
Nous avons mangé des pommes cuites avec un peu de cannelle.
L'école sera fermée jusqu'à la fin des travaux de peinture.
Le médecin m'a conseillé de marcher une heure par jour.
Les étudiantes préparent leurs examens à la bibliothèque municipale.
Il faut arroser les tomates le soir quand la terre est sèche.
Ma grand-mère fabriquait des bougies qu'elle vendait sur le marché.
Le train de Lyon arrive avec vingt minutes de retard à cause de la neige.
Les fenêtres du salon donnent sur une petite cour silencieuse.
On a trouvé des champignons dans la forêt derrière le moulin.
Le garagiste a changé les pneus et vérifié les freins de la voiture.
Les journaux racontent que le maire a démissionné hier matin.
"""
RUSSIAN = """
Старые книги лежали на полках в доме моей бабушки.
Мы купили на рынке свежие огурцы, помидоры и зелёный лук.
Дети играли во дворе, пока не начался сильный дождь.
Врачи советуют больше ходить пешком и раньше ложиться спать.
Поезд из Москвы опоздал на два часа из-за снега.
Кошка спит на окне и смотрит на птиц в саду.
Мой брат чинит велосипеды и продаёт их соседям.
Библиотека закрыта по понедельникам, но открыта в воскресенье.
Для пирога нужны мука, яйца, масло и немного сахара.
Рыбаки вернулись с озера без рыбы и очень усталые.
Учительница рассказывала нам о звёздах и далёких планетах.
Новый мост через реку построят только будущей осенью.
"""
JAPANESE = """
祖母の家には古い本がたくさんあります。
駅前の図書館は月曜日に休みです。
昨日は雨が降ったので、公園に行きませんでした。
弟は自転車を修理して、友達に売っています。
朝ごはんに納豆と味噌汁を食べました。
電車は雪のために三十分遅れました。
猫は窓のそばで昼寝をしています。
先生は星座と惑星について話してくれた。
ｺｰﾋｰ豆を挽いて、ゆっくり淹れるのが好きです。
新しい橋は来年の秋に完成する予定です。
この店のラーメンは安くて美味しいです。
健康のために毎日一時間歩いています。
"""
CHINESE = """
奶奶家里有很多旧书。
火车站旁边的图书馆星期一不开门。
昨天下雨了，所以我们没有去公园。
弟弟会修理自行车，然后卖给邻居。
早上我喝了一杯绿茶，吃了两个包子。
因为下雪，火车晚点了半个小时。
小猫在窗台上睡午觉。
老师给我们讲了星座和行星的故事。
新的大桥计划明年秋天完工。
这家饭馆的牛肉面又便宜又好吃。
医生建议他每天走路一个小时。
渔民从湖上回来，一条鱼也没有抓到。
"""
QUESTIONS = {
    "german": (GERMAN, {"Haus Arzt": 0, "Strasse Kind": 2, "Fahrrad": 5, "ZUG": 8, "Baum": 11}),
    "french": (FRENCH, {"cheval": 0, "etudiante": 4, "journal": 11, "fenêtre": 8, "foret": 9}),
    "russian": (RUSSIAN, {"книга": 0, "велосипед": 6, "зеленый": 1, "звезда": 10, "рыбак": 9}),
    "japanese": (JAPANESE, {"自転車": 3, "図書館": 1, "コーヒー": 8, "星": 7, "ラーメン屋": 10}),
    "chinese": (CHINESE, {"自行车": 3, "图书馆": 1, "绿茶": 4, "星座": 7, "鱼": 11}),
}  # fmt: skip
CASES = [
    (language, query, place)
    for language, (_, asked) in QUESTIONS.items()
    for query, place in asked.items()
]


def documents(language: str) -> list[Document]:
    lines = QUESTIONS[language][0].split("\n")[1:-1]
    return [Document(f"{number:02}", "", line) for number, line in enumerate(lines)]


@pytest.mark.parametrize(("language", "query", "place"), CASES)
def test_a_query_finds_the_other_forms_of_its_words(language: str, query: str, place: int) -> None:
    found = Bm25Index(documents(language)).search(query, 3)
    assert found[0][0] == f"{place:02}"


@pytest.mark.parametrize(("language", "query", "place"), CASES)
def test_plain_words_find_none_of_them(language: str, query: str, place: int) -> None:
    text = documents(language)[place].text
    plain = set(re.findall(r"\w+", text.lower()))
    assert not plain & set(re.findall(r"\w+", query.lower()))


@pytest.mark.parametrize(
    ("language", "detected"),
    [("german", "german"), ("french", "french"), ("russian", "russian"), ("japanese", "cjk")],
)
def test_the_language_is_detected(language: str, detected: str) -> None:
    assert language_of(documents(language)) == detected
    assert Bm25Index(documents(language)).model.language == detected


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the cat sat on the mat and it was not what we had thought of it at all " * 3, "english"),
        ("el perro de la casa no quiere salir porque hace frío y está muy oscuro " * 3, "spanish"),
        ("il gatto dorme sul divano perché non ha voglia di uscire con questa pioggia " * 3,
         "italian"),
        ("o gato não quer sair de casa porque está muito frio e a rua é escura " * 3, "portuguese"),
        ("de kat wil niet naar buiten want het is te koud en er ligt nog sneeuw " * 3, "dutch"),
        ("katten vill inte gå ut för att det är kallt och mörkt när jag är här " * 3, "swedish"),
        ("kot nie chce wyjść na dwór, bo jest zimno i ciemno, ale to się zmieni " * 3, "polish"),
        ("aspirin 500 mg tablet, ibuprofen 200 mg tablet, paracetamol syrup", "english"),
        ("too short", "english"),
        ("", "english"),
        ("שלום עולם " * 30, "english"),
        ("หมาและแมวนอนอยู่ในบ้าน", "cjk"),
        ("η γάτα κοιμάται στο παράθυρο", "greek"),
    ],
)  # fmt: skip
def test_detection_by_script_and_function_words(text: str, language: str) -> None:
    assert language_of([Document("d", "", text)]) == language


def test_documents_may_say_their_language() -> None:
    told = [Document(str(n), "", "hund katze maus", {"language": "de"}) for n in range(3)]
    assert language_of(told) == "german"
    assert language_of([*told, *(Document(f"x{n}", "", "cat") for n in range(4))]) == "english"
    assert language_of([Document("d", "", "cat", {"lang": "Klingon"})]) == "english"


@pytest.mark.parametrize(
    ("name", "language"),
    [("de", "german"), ("German", "german"), ("pt-BR", "portuguese"), ("zh", "cjk"),
     (" auto ", "auto"), ("none", "none")],
)  # fmt: skip
def test_languages_have_names_and_codes(name: str, language: str) -> None:
    assert language_named(name) == language


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown language 'germn'.*german.*or a code such as de"):
        Bm25Settings(language="germn")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＣＡＦÉ ﬁne cafe\u0301", ["cafe", "fin", "cafe"]),  # width, ligature, loose accent
        ("Haeuser Häuser Haus", ["haus", "haus", "haus"]),
        ("don't l'eau", ["don", "t", "l", "eau"]),
        ("चाय पीते हैं", ["चाय", "पीत", "हैं"]),
        ("絵本abc", ["絵本", "abc"]),
    ],
)
def test_terms_are_folded_after_stemming(text: str, expected: list[str]) -> None:
    assert Analyzer("german").terms(text) == expected


def test_no_language_stems_nothing_and_stops_nothing() -> None:
    assert Analyzer("none").terms("The Häuser of зелёный чай") == [
        "the", "hauser", "of", "зеленыи", "чаи",
    ]  # fmt: skip


def test_a_single_character_is_found_inside_a_word() -> None:
    one = Analyzer("cjk")
    assert one.count_query("茶").keys() <= one.count("緑茶").keys()
    assert one.count_query("緑茶").keys() <= one.count("緑茶").keys()
    assert len(one.count_query("緑茶")) == 1  # the pair, not its characters


def test_threads_that_fill_the_table_of_words_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer, "_WORDS_KEPT", 50)
    one = Analyzer("english")
    texts = [" ".join(f"word{n}{m} cats" for m in range(30)) for n in range(40)]
    expected = [Analyzer("english").count(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one.count, texts)) == expected
