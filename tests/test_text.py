"""The one word reader and the one sentence splitter."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.search.analyzer import open_analyzer
from assay.text import (
    bounded_marks,
    detect_language,
    is_stop,
    normalize,
    parse_time,
    sentences,
    stem,
    stems,
    strip_controls,
    words,
)


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (normalize, "The Fee", "the fee"),
        (normalize, " two \n\t blanks ", "two blanks"),
        (normalize, "1,200 euros", "1200 euros"),
        (normalize, "1,20 euros", "1,20 euros"),
        (normalize, "10²", "10^2"),
        (normalize, "−1.75", "-1.75"),
        (normalize, "it’s", "it's"),
        (normalize, "Straße", "strasse"),
        (normalize, "ﬁne", "fine"),
        (words, "", []),
        (words, "Don't move!", ["don't", "move"]),
        (words, "Anna’s café", ["anna's", "café"]),
        (words, "from 17:00, 3.5 km", ["from", "17:00", "3.5", "km"]),
        (words, "20min", ["20", "min"]),
        (words, "vitamin B12, A4", ["vitamin", "b12", "a4"]),
        (words, "snake_case well-known", ["snake", "case", "well", "known"]),
        (words, "1,200.50", ["1200.50"]),
        (words, "... --- '' ", []),
        (words, "東京は", ["東京は"]),
        (stem, "running", "run"),
        (stems, "The runner was running, running", ["runner", "run", "run"]),
        (stems, "to Anna's 2 houses", ["anna", "2", "hous"]),
        (sentences, "", []),
        (sentences, "One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        (sentences, "It costs 3.5 euros. Yes.", ["It costs 3.5 euros.", "Yes."]),
        (sentences, "Ask Dr. Smith, e.g. Monday. Done.", ["Ask Dr. Smith, e.g. Monday.", "Done."]),
        (sentences, "See no. 5. It said no. Then.", ["See no. 5.", "It said no.", "Then."]),
        (sentences, "- one\n* two\n3. three\n• four", ["one", "two", "three", "four"]),
        (sentences, "。東京です。大阪です。", ["東京です。", "大阪です。"]),
        (sentences, "One.\r\nTwo.\n---\n***\n", ["One.", "Two."]),
        # Every engine can take a text without controls and half characters.
        (strip_controls, "tea\x00and\x1bmilk", "tea and milk"),
        (strip_controls, "line\nline\ttab\r", "line\nline\ttab\r"),
        (strip_controls, "half \ud83d pair", "half ? pair"),
        (strip_controls, "茶 и чай", "茶 и чай"),
        (strip_controls, "\x85next", " next"),
    ],
)
def test_one_way_to_read_a_text(read: Callable[[str], object], text: str, expected: object) -> None:
    assert read(text) == expected


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert parse_time("2026-11-01").isoformat() == "2026-11-01T00:00:00+00:00"
    assert parse_time("2026-11-01T08:30:00+02:00").isoformat() == "2026-11-01T08:30:00+02:00"
    with pytest.raises(ValueError, match="Invalid isoformat"):
        parse_time("soon")


def test_stop_words_include_contractions() -> None:
    every = ["the", "it's", "we'd", "don't", "i'm", "anna's", "o'clock", "won", "may", "us", "2"]
    assert [word for word in every if is_stop(word)] == ["the", "it's", "we'd", "don't", "i'm"]


def test_stems_may_be_asked_for_by_many_threads() -> None:
    texts = [f"the houses of runner {number} were running" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(stems, texts))
    assert found == [stems(text) for text in texts]


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
    if language == "german":  # told by more words if they are asked for
        assert detect_language([text], min_words=30) is None
        assert detect_language([text] * 5, min_words=30) == "german"
