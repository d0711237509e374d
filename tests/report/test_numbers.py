"""Each rule for writing a number, as a table of what goes in and what is read."""

import pytest

from assay.report import numbers


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.34126, "0.3413"), (1, "1.0000"), (0, "0.0000"), (-0.00001, "0.0000"), (None, "–")],
)
def test_a_figure_has_four_digits_and_no_negative_zero(value: float | None, written: str) -> None:
    assert numbers.figure(value) == written


def test_a_figure_that_is_not_a_number_is_a_dash() -> None:
    assert numbers.figure(float("nan")) == "–"
    assert numbers.difference(float("nan")) == "–"
    assert numbers.percent(float("nan")) == "–"
    assert numbers.duration(float("nan")) == "–"


def test_an_interval_shows_both_ends_or_a_dash() -> None:
    assert numbers.interval(0.31, 0.37534) == "[0.3100, 0.3753]"
    assert numbers.interval(None, None) == "–"


def test_a_figure_without_an_interval_stands_alone() -> None:
    assert numbers.with_interval(0.3412, 0.31, 0.37) == "0.3412 [0.3100, 0.3700]"
    assert numbers.with_interval(0.3412, None, None) == "0.3412"


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.012, "+0.0120"), (-0.012, "-0.0120"), (0.0, "0.0000"), (-0.00004, "0.0000"), (None, "–")],
)
def test_a_difference_has_a_sign_unless_its_digits_are_zero(
    value: float | None, written: str
) -> None:
    assert numbers.difference(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0312, "p = 0.031"), (1.0, "p = 1.000"), (0.001, "p = 0.001"), (0.0009, "p < 0.001")],
)
def test_a_small_p_value_is_given_as_a_bound(value: float, written: str) -> None:
    assert numbers.p_value(value) == written


def test_a_share_of_nothing_is_a_dash() -> None:
    assert numbers.share(1, 3) == "33.3%"
    assert numbers.share(0, 0) == "–"
    assert numbers.percent(1.0) == "100.0%"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (12.3, "$12.30"),
        (0.00423, "$0.0042"),
        (0.0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.00002, "<$0.0001"),
        (None, "–"),
    ],
)
def test_dollars_keep_the_digits_that_matter(value: float | None, written: str) -> None:
    assert numbers.dollars(value) == written


def test_counts_have_thousands_separators_and_agree_in_number() -> None:
    assert numbers.count(12334) == "12,334"
    assert numbers.counted(1, "query", "queries") == "1 query"
    assert numbers.counted(12334, "query", "queries") == "12,334 queries"
    assert numbers.counted(0, "call") == "0 calls"


@pytest.mark.parametrize(
    ("value", "written"), [(5210.4, "5,210"), (52.14, "52.1"), (0.521, "0.52"), (0, "0.00")]
)
def test_a_rate_keeps_three_digits(value: float, written: str) -> None:
    assert numbers.rate(value) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.00034, "0.34 ms"),
        (0.34, "340 ms"),
        (0.9996, "1.00 s"),
        (1.2, "1.20 s"),
        (12.34, "12.3 s"),
        (59.99, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (3720, "1 h 02 min"),
        (None, "–"),
    ],
)
def test_a_duration_is_written_in_the_unit_of_its_size(seconds: float | None, written: str) -> None:
    assert numbers.duration(seconds) == written
