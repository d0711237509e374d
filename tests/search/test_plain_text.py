import pytest

from assay.search.plain_text import plain


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
def test_every_engine_can_take_the_text(text: str, expected: str) -> None:
    assert plain(text) == expected
