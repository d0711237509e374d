"""Findings: what the checks say about the answers of a run, and when that is worth a headline.

An exact check makes a finding of one answer. A heuristic one is wrong now and then: its hits make
a finding if there are more of them than its false-alarm rate explains, and are else listed as
worth reading.
"""

import math
from collections.abc import Sequence

from assay.answers.case import AnswerCase
from assay.answers.checks import Check, check_lists
from assay.metrics.answer_values import AnswerFinding
from assay.text import strip_controls

_SIGNIFICANT = 0.05
_MAX_IDS = 100
_MAX_QUOTE = 120
_SEVERITIES = ("wrong", "unsafe", "form")


def find_faults(
    cases: Sequence[AnswerCase],
    *,
    quote: bool = True,
    skip: Sequence[str] = (),
    further: Sequence[Check] = (),
) -> list[AnswerFinding]:
    """What is wrong with the answers of a run, the worst and the most frequent first.

    Without `quote`, as in a private run, no finding quotes an answer. `skip` are ids of checks that
    nothing is known about, `further` are checks at the end of the last list.
    """
    found: list[AnswerFinding] = []
    *lists, last = check_lists(cases)
    for checks in (*lists, (*last, *further)):
        hits: dict[str, dict[str, str]] = {check.id: {} for check in checks}
        for case in cases:
            for check in checks:
                if check.covers(case) and (evidence := check.test(case)) is not None:
                    hits[check.id][case.query_id] = evidence
                    break
        found += [
            _finding(check, hits[check.id], sum(map(check.covers, cases)), quote=quote)
            for check in checks
            if hits[check.id] and check.id not in skip
        ]
    return sorted(
        found, key=lambda each: (not each.sure, _SEVERITIES.index(each.severity), -each.number)
    )


def _finding(check: Check, hits: dict[str, str], of: int, *, quote: bool) -> AnswerFinding:
    number = len(hits)
    count = f"All {of}" if number == of > 1 else f"{number} of {of}"
    example = next(filter(None, hits.values()), "") if quote else ""
    line = strip_controls(" ".join(example.split())).rstrip(".")
    short = line if len(line) <= _MAX_QUOTE else f"{line[: _MAX_QUOTE - 1]}…"
    return AnswerFinding(
        kind=check.id,
        number=number,
        of=of,
        words=f"{count} {check.what} {check.says}" + (f": {short}" if short else ""),
        query_ids=list(hits)[:_MAX_IDS],
        sure=binomial_tail(number, of, check.false_rate) < _SIGNIFICANT,
        severity=check.severity,
    )


def binomial_tail(hits: int, of: int, rate: float) -> float:
    """The probability of so many hits or more among `of` answers, if each is one with `rate`.

    >>> binomial_tail(1, 24, 0.0), round(binomial_tail(2, 24, 0.02), 2)
    (0.0, 0.08)
    """
    if rate == 0:
        return float(hits == 0)
    # Log terms: the coefficients of a thousand answers do not fit into a float.
    below = (
        math.exp(
            math.lgamma(of + 1)
            - math.lgamma(k + 1)
            - math.lgamma(of - k + 1)
            + k * math.log(rate)
            + (of - k) * math.log1p(-rate)
        )
        for k in range(hits)
    )
    return max(0.0, 1 - sum(below))
