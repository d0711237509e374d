"""Inputs that are almost right: a good one of a corpus, changed in a few places.

Random bytes would be refused at the first of them, and get past no check.
"""

import os
from collections.abc import Sequence

from hypothesis import strategies as st

_SIGNS = rb"""
    { } [ ] " \ \ud800 : , null true -0 NaN 1e999 -1e-400 Infinity 0.1.2 @ # = >= < ; % %00 :// ..
    / ? re: re:( data: event: _id text query-id Q0 http:// [::1 xn--
"""
_TOKENS = (
    *_SIGNS.split(),
    *(b"", b" ", b"\t", b"\r", b"\r\n", b"\n\n", b"\x00", b"\xff", b"\xed\xa0\x80"),
    *(b"9" * 400, b"[" * 300, b'{"a":' * 50, b"id:\x00", b"retry: 99999999999999999999", b": "),
    *("\ufeff\u2028".encode(), "\u0130\u0661".encode()),
)
_places = st.integers(0, 2**16)
_change = st.tuples(
    st.sampled_from(["insert", "replace", "delete", "repeat", "cut", "flip", "swap"]),
    _places,
    _places,
    st.sampled_from(_TOKENS),
)


def examples(usual: int) -> int:
    """How many examples a slow test draws: `usual`, and in proportion more in `make fuzz`."""
    return usual * max(1, int(os.environ.get("ASSAY_FUZZ", "0")) // 100)


def almost(*corpus: bytes) -> st.SearchStrategy[bytes]:
    """An input of the corpus with up to six changes, or two of them spliced."""
    one = st.sampled_from(corpus)
    return st.builds(_mutated, one, one, st.lists(_change, max_size=6), st.booleans())


def almost_text(*corpus: str) -> st.SearchStrategy[str]:
    """The same for text; bytes that are none become surrogates, as in a command line."""
    whole = almost(*(each.encode() for each in corpus))
    return whole.map(lambda each: each.decode("utf-8", "surrogateescape"))


def _mutated(
    content: bytes, other: bytes, changes: Sequence[tuple[str, int, int, bytes]], splice: bool
) -> bytes:
    if splice and changes:
        _, first, second, _ = changes[0]
        content = content[: first % (len(content) + 1)] + other[second % (len(other) + 1) :]
    for how, first, second, token in changes:
        size = len(content) + 1
        start, end = sorted((first % size, second % size))
        content = {
            "insert": content[:start] + token + content[start:],
            "replace": content[:start] + token + content[start + len(token) :],
            "delete": content[:start] + content[min(end, start + 8) :],
            "repeat": content[:end] + content[start:end][:200] + content[end:],
            "cut": content[:end],
            "flip": content[:start]
            + bytes([(content[start] if start < len(content) else 0) ^ (1 << second % 8)])
            + content[start + 1 :],
            "swap": content[end:] + content[start:end] + content[:start],
        }[how]
    return content[:20_000]
