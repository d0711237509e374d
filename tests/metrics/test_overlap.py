"""Rank-biased overlap and its companions; values were taken with the package rbo 0.1.3."""

import random

import pytest

from assay.run.overlap import compare_lists, rank_biased_overlap


@pytest.mark.parametrize(
    ("a", "b", "p", "value"),
    [
        ("abcdefg", "abcdefg", 0.9, 1.0),
        ("abcde", "vwxyz", 0.9, 0.0),
        ("", "", 0.9, 1.0),
        ("a", "", 0.9, 0.0),
    ],
)
def test_the_ends_of_the_scale(a: str, b: str, p: float, value: float) -> None:
    assert rank_biased_overlap(a, b, p) == pytest.approx(value, abs=1e-12)


def by_definition(a: str, b: str, p: float) -> float:
    """Equation 32 of the paper as it stands, with sets."""
    short, long = sorted((a, b), key=len)
    s, length = len(short), len(long)

    def overlap(depth: int) -> int:
        return len(set(short[:depth]) & set(long[:depth]))

    first = sum(overlap(d) / d * p**d for d in range(1, length + 1))
    second = sum(overlap(s) * (d - s) / (s * d) * p**d for d in range(s + 1, length + 1))
    rest = ((overlap(length) - overlap(s)) / length + overlap(s) / s) * p**length
    return (1 - p) / p * (first + second) + rest


def test_any_lists_are_as_the_paper_defines_them() -> None:
    draw = random.Random(3)
    letters = "abcdefghijklmnop"
    for _ in range(300):
        a, b = ("".join(draw.sample(letters, draw.randint(1, 16))) for _ in "ab")
        for p in (0.5, 0.9, 0.98):
            expected = by_definition(a, b, p)
            assert rank_biased_overlap(a, b, p) == pytest.approx(expected, abs=1e-12), (a, b, p)
            assert rank_biased_overlap(b, a, p) == pytest.approx(expected, abs=1e-12)


def test_lists_are_compared_place_by_place() -> None:
    found = compare_lists(["a", "b", "c", "d"], ["b", "a", "x", "c"])
    assert (found.shared, found.jaccard) == (0.75, 0.6)
    assert (found.swapped, found.moved_in, found.same_first) == (1, 1, False)
    assert found.tau == pytest.approx(1 / 3)
    assert not found.identical


def test_repeated_ids_count_once() -> None:
    assert compare_lists(["a", "a", "b"], ["a", "b"]).identical


def test_lists_with_one_common_document_have_no_order() -> None:
    assert compare_lists(["a", "b"], ["a", "c"]).tau is None
    assert compare_lists([], []).identical


def test_long_lists_are_counted_as_short_ones_are() -> None:
    draw = random.Random(5)
    a = [str(number) for number in range(300)]
    b = draw.sample(a, 300)
    place = {doc: rank for rank, doc in enumerate(b)}
    pairs = [(x, y) for i, x in enumerate(a) for y in a[i + 1 :]]
    assert compare_lists(a, b).swapped == sum(place[x] > place[y] for x, y in pairs)
