"""The one word reader and the one sentence splitter."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.search.analyzer import open_analyzer
from assay.text import (
    bounded_marks,
    detect_language,
    is_stop,
    normalize,
    parse_time,
    respelled,
    sentences,
    stem,
    stems,
    strip_controls,
    words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Fee", "the fee"),
        (" two \n\t blanks ", "two blanks"),
        ("1,200 euros", "1200 euros"),
        ("1,20 euros", "1,20 euros"),
        ("10²", "10^2"),
        ("−1.75", "-1.75"),
        ("it’s", "it's"),
        ("Straße", "strasse"),
        ("ﬁne", "fine"),
    ],
)
def test_normalize(text: str, expected: str) -> None:
    assert normalize(text) == expected


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert parse_time("2026-11-01").isoformat() == "2026-11-01T00:00:00+00:00"
    assert parse_time("2026-11-01T08:30:00+02:00").isoformat() == "2026-11-01T08:30:00+02:00"
    with pytest.raises(ValueError, match="Invalid isoformat"):
        parse_time("soon")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Don't move!", ["don't", "move"]),
        ("Anna’s café", ["anna's", "café"]),
        ("from 17:00, 3.5 km", ["from", "17:00", "3.5", "km"]),
        ("20min", ["20", "min"]),
        ("vitamin B12, A4", ["vitamin", "b12", "a4"]),
        ("snake_case well-known", ["snake", "case", "well", "known"]),
        ("1,200.50", ["1200.50"]),
        ("... --- '' ", []),
        ("東京は", ["東京は"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_stop_words_include_contractions() -> None:
    every = ["the", "it's", "we'd", "don't", "i'm", "anna's", "o'clock", "won", "may", "us", "2"]
    assert [word for word in every if is_stop(word)] == ["the", "it's", "we'd", "don't", "i'm"]


def test_stems_keep_order_and_repetitions() -> None:
    assert stem("running") == "run"
    assert stems("The runner was running, running to Anna's 2 houses") == [
        "runner",
        "run",
        "run",
        "anna",
        "2",
        "hous",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("It costs 3.5 euros, e.g. for tea. Yes.", ["It costs 3.5 euros, e.g. for tea.", "Yes."]),
        ("Ask Dr. Smith, e.g. Monday. Done.", ["Ask Dr. Smith, e.g. Monday.", "Done."]),
        ("See no. 5. It said no. Then it left.", ["See no. 5.", "It said no.", "Then it left."]),
        ("- one\n* two\n3. three\n• four", ["one", "two", "three", "four"]),
        ("。東京です。大阪です。", ["東京です。", "大阪です。"]),
        ("One.\r\nTwo.\n---\n***\n", ["One.", "Two."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected
    assert all(sentence in text for sentence in sentences(text))


def test_stems_may_be_asked_for_by_many_threads() -> None:
    texts = [f"the houses of runner {number} were running" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(stems, texts))
    assert found == [stems(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tea", "tea"),
        ("tea\x00and\x1bmilk", "tea and milk"),
        ("line\nline\ttab\r", "line\nline\ttab\r"),
        ("half \ud83d pair", "half ? pair"),
        ("茶 и чай", "茶 и чай"),
        ("\x85next", " next"),
        ("", ""),
    ],
)
def test_every_engine_can_take_a_text_without_controls(text: str, expected: str) -> None:
    assert strip_controls(text) == expected


def test_marks_on_one_letter_are_bounded() -> None:
    """A run of them is sorted in time with the square of its length: this one took minutes."""
    hostile = "a" + "\u0315\u0300" * 200_000
    assert len(bounded_marks(hostile)) == 31
    assert len(normalize(hostile)) <= 31
    assert open_analyzer().terms(f"tea {hostile}")[0] == "tea"
    for usual in ("e\u0301te\u0301", "—" * 100, "👍" * 50, "x" + "\u0301" * 30):
        assert bounded_marks(usual) == usual


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The pool opens at seven in the morning.", "english"),
        ("Der Schlüssel liegt bei der Kasse.", "german"),
        ("La piscine ouvre à sept heures du matin.", "french"),
        ("La piscina abre a las siete de la mañana.", "spanish"),
        ("A piscina abre às sete da manhã.", "portuguese"),
        ("Havuz sabah yedide açılır ve çok güzel.", "turkish"),
        ("Бассейн открывается в семь часов утра.", "cyrillic"),
        ("プールは朝七時に開きます。", "japanese"),
        ("游泳池早上七点开门。", "chinese"),
        ("수영장은 아침 일곱 시에 엽니다.", "korean"),
        ("Nadia Brunner, 4.5 bar, page 7", None),
        ("Aspirin 500 mg, Ibuprofen 200 mg, Paracetamol", None),
        ("Yes.", None),
        ("café Müller Straße Zürich Genève", None),
        ("de la de la de", None),
    ],
)
def test_the_language_of_one_short_sentence(text: str, language: str | None) -> None:
    assert detect_language([text]) == language


def test_a_language_is_told_by_more_words_if_they_are_asked_for() -> None:
    text = "Der Schlüssel liegt bei der Kasse."
    assert detect_language([text], min_words=30) is None
    assert detect_language([text] * 5, min_words=30) == "german"


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("Mu\u0308ller", "in another Unicode form"),
        ("kb%2Fnote%207", "percent-encoded"),
        ("med-10", "in another case"),
        (" MED-10", "with spaces around them"),
        ("MED-10", ""),
        ("MED-11", ""),
    ],
)
def test_another_spelling_of_a_known_name_is_told(name: str, how: str) -> None:
    assert respelled(name, {"M\u00fcller", "kb/note 7", "MED-10"}) == how
