"""Faults of a ferry line's application: tables, rates, dates, conditions, people, editions.

They were written down before anybody looked at what the rules see, and `finding` is what a reader
would call each of them; `benchmarks/README.md` has how many were named at first.
"""

import re

from tests.planted.workshop import Reply, workshop
from tests.planted.workshop_faults import CONTRADICTS, WorkshopFault, _said, _translate

_CELLS = re.compile(r"^\|(?!-)(.+)\|$", re.MULTILINE)


def _next_row(reply: Reply, query_id: str) -> Reply:
    """The figure of the row below (or above) in place of the one that was asked for."""
    rows = [
        [cell.strip() for cell in row.split("|")]
        for row in _CELLS.findall(reply["contexts"][0]["text"])[1:]
    ]
    said = reply["answer"]
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            if column and cell in said and row[0] in said.lower().split() + [row[0]] * (column > 1):
                other = rows[(place + 1) % len(rows)][column]
                return reply | {"answer": said.replace(cell, other)}
    return reply


def _previous_question(reply: Reply, query_id: str) -> Reply:
    """The answer of the question before, with its citation: the state of a conversation leaks."""
    answers = workshop("Ferry").answers
    ids = list(answers)
    previous = answers[ids[ids.index(query_id) - 1]]
    return reply | {"answer": previous.answer, "citations": list(previous.documents)}


def _merged(said: str, _: int) -> str:
    """The first name of one person with the surname of another on the same page."""
    return said.replace("Ida Solheim", "Ida Kettle").replace("Signe Aas", "Bruno Aas")


def _old_edition(reply: Reply, query_id: str) -> Reply:
    """What held until last year, from the same page."""
    old = {"30 kg": "20 kg", "40 Mbit": "15 Mbit"}
    return reply | {"answer": re.sub("30 kg|40 Mbit", lambda m: old[m[0]], reply["answer"])}


_REASONS = (
    "For reasons of data protection this may not be disclosed.",
    "This information is confidential and reserved for employees.",
    "The page could not be loaded because of a timeout of the server.",
)
_GERMAN_ENDS = (
    "Das gilt für alle, die mit der Fähre fahren wollen, und auch für die Rückfahrt.",
    "Bitte beachten Sie, dass dies nicht an Feiertagen gilt und sich ändern kann.",
)

FERRY_FAULTS = (
    WorkshopFault("another row of the table", "wrong number", _next_row, 3),
    WorkshopFault(
        "currency dropped",
        "drops units",
        _said(lambda said, _: said.replace(" euros", "")),
        5,
    ),
    WorkshopFault("two people merged", CONTRADICTS, _said(_merged), 2),
    WorkshopFault(
        "morning for evening",
        CONTRADICTS,
        _translate({"in the evening": "in the morning", "a.m": "p.m"}),
        2,
    ),
    WorkshopFault(
        "per year for per month", CONTRADICTS, _translate({"month": "year", "night": "week"}), 2
    ),
    WorkshopFault(
        "the condition is left out",
        "incomplete",
        _said(lambda said, _: re.sub(r", (?:but only if|provided that) .*", ".", said)),
        2,
    ),
    WorkshopFault("the question before is answered", "answers other questions", _previous_question),
    WorkshopFault(
        "goes on in another language",
        "other language",
        _said(lambda said, n: f"{said} {_GERMAN_ENDS[n % 2]}"),
    ),
    WorkshopFault(
        "refuses for an invented reason",
        "declines wrongly",
        _said(lambda said, n: _REASONS[n % 3]),
    ),
    WorkshopFault(
        "day and month swapped",
        "wrong date",
        _said(lambda said, _: re.sub(r"\b(\d\d)\.(\d\d)\.(\d{4})", r"\2.\1.\3", said)),
        2,
    ),
    WorkshopFault("what held in the old edition", "wrong number", _old_edition, 2),
    WorkshopFault(
        "true of others",
        CONTRADICTS,
        _said(
            lambda said, _: said.replace("children under 6 years", "adults").replace(
                "passengers with a suite", "staff"
            )
        ),
        2,
    ),
    WorkshopFault(
        "a group that no page has",
        "foreign items",
        _said(lambda said, _: f"{said.rstrip('.')} for pensioners."),
    ),
    WorkshopFault(
        "a separator of thousands read as a decimal point",
        "wrong number",
        _said(lambda said, _: re.sub(r"(\d),(\d{3})", r"\1.\2", said)),
        2,
    ),
)
