"""Each rule for writing a number, as a table of what goes in and what is read."""

from collections.abc import Callable
from typing import Any

import pytest

from assay.report import numbers

NAN = float("nan")


@pytest.mark.parametrize(
    ("write", "given", "written"),
    [
        (numbers.figure, (0.34126,), "0.3413"),
        (numbers.figure, (-0.00001,), "0.0000"),
        (numbers.figure, (None,), "–"),
        (numbers.interval, (0.31, 0.37534), "[0.3100, 0.3753]"),
        (numbers.interval, (None, None), "–"),
        (numbers.with_interval, (0.3412, 0.31, 0.37), "0.3412 [0.3100, 0.3700]"),
        (numbers.with_interval, (0.3412, None, None), "0.3412"),
        (numbers.difference, (0.012,), "+0.0120"),
        (numbers.difference, (-0.00004,), "0.0000"),
        (numbers.p_value, (0.0312,), "0.031"),
        (numbers.p_value, (0.0009,), "< 0.001"),
        (numbers.share, (1, 3), "33.3%"),
        (numbers.share, (0, 0), "–"),
        (numbers.percent, (NAN,), "–"),
        (numbers.dollars, (1234.5,), "$1,234.50"),
        (numbers.dollars, (0.00423,), "$0.0042"),
        (numbers.dollars, (0.00002,), "<$0.0001"),
        (numbers.counted, (1, "query", "queries"), "1 query"),
        (numbers.counted, (12334, "query", "queries"), "12,334 queries"),
        (numbers.rate, (5210.4,), "5,210"),
        (numbers.rate, (0.521,), "0.52"),
        (numbers.duration, (0.00034,), "0.34 ms"),
        (numbers.duration, (0.34,), "340 ms"),
        (numbers.duration, (0.9996,), "1.00 s"),
        (numbers.duration, (59.99,), "1 min 00 s"),
        (numbers.duration, (3599.7,), "1 h 00 min"),
        (numbers.duration, (3720,), "1 h 02 min"),
        (numbers.duration, (None,), "–"),
    ],
)
def test_a_number_is_written_by_its_rule(
    write: Callable[..., str], given: tuple[Any, ...], written: str
) -> None:
    assert write(*given) == written
