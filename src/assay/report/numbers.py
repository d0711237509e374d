"""How every number is written, in the terminal, in HTML and in messages.

A figure that does not exist (an interval of one query, a share of nothing) is a dash, never a 0
that looks measured.
"""

import math

ABSENT = "–"
_DIGITS = 4
_SMALLEST_P = 0.001
_SMALLEST_PRICE = 0.0001


def figure(value: float | None, digits: int = _DIGITS) -> str:
    """A score: `0.3412`."""
    if value is None or math.isnan(value):
        return ABSENT
    return f"{_no_negative_zero(value, digits):.{digits}f}"


def ceiling(value: float | None) -> str:
    """The best that a mean can be; for a rate of which less is better there is none."""
    return "0 is best" if value is None else figure(value)


def interval(low: float | None, high: float | None) -> str:
    """`[0.3102, 0.3753]`"""
    if low is None or high is None:
        return ABSENT
    return f"[{figure(low)}, {figure(high)}]"


def with_interval(value: float, low: float | None, high: float | None) -> str:
    """`0.3412 [0.3102, 0.3753]`, or the figure alone if there is no interval."""
    if low is None or high is None:
        return figure(value)
    return f"{figure(value)} {interval(low, high)}"


def difference(value: float | None, digits: int = _DIGITS) -> str:
    """`+0.0120`, `-0.0120`; nothing in front of a zero."""
    if value is None or math.isnan(value):
        return ABSENT
    shown = _no_negative_zero(value, digits)
    return f"{shown:+.{digits}f}" if shown else figure(0.0, digits)


def p_value(value: float | None) -> str:
    """`0.031`, and `< 0.001` below that: resampling knows no smaller one."""
    if value is None:
        return ABSENT
    return f"< {_SMALLEST_P}" if value < _SMALLEST_P else f"{value:.3f}"


def percent(value: float | None) -> str:
    """A share between 0 and 1: `67.3%`."""
    if value is None or math.isnan(value):
        return ABSENT
    return f"{_no_negative_zero(100 * value, 1):.1f}%"


def share(part: float, whole: float) -> str:
    """`67.3%`, or a dash if the whole is nothing."""
    return percent(part / whole if whole else None)


def count(value: int) -> str:
    """`12,334`"""
    return f"{value:,}"


def approximate(value: int) -> str:
    """An estimate to two digits, so that it claims no more than it knows: `15,000`."""
    return count(int(float(f"{value:.1e}")))


def counted(value: int, one: str, many: str | None = None) -> str:
    """`1 query`, `12,334 queries`"""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def rate(per_second: float) -> str:
    """Three digits that mean something: `5,210`, `52.1`, `0.52`."""
    if per_second >= 100:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}" if per_second >= 10 else f"{per_second:.2f}"


def duration(seconds: float | None) -> str:
    """`0.34 ms`, `340 ms`, `1.20 s`, `2 min 05 s`, `1 h 02 min`"""
    if seconds is None or math.isnan(seconds):
        return ABSENT
    # The bounds are where rounding reaches the next unit: no `1000 ms` and no `60.0 s`.
    if seconds < 0.9995:
        milliseconds = 1000 * seconds
        return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.2f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds >= 9.995 else f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{count(minutes // 60)} h {minutes % 60:02d} min"


def moment(iso: str) -> str:
    """`2026-11-15 05:36 UTC` of an ISO time; other text as it is."""
    return f"{iso[:10]} {iso[11:16]} UTC" if len(iso) >= 16 else iso


def dollars(value: float | None) -> str:
    """US dollars, with digits that mean something: `$12.30`, `$0.0042`, `<$0.0001`."""
    if value is None or math.isnan(value):
        return ABSENT
    if 0 < value < _SMALLEST_PRICE:
        return f"<${_SMALLEST_PRICE}"
    digits = 2 if value >= 1 or value == 0 else 4
    return f"${value:,.{digits}f}"


def _no_negative_zero(value: float, digits: int) -> float:
    """`-0.0000` would claim a direction that the digits do not show."""
    rounded = round(value, digits)
    return rounded if rounded else 0.0
