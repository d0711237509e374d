"""A car rental: each of its faults is named first, and right answers in any style are not."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.planted.rental_faults import RENTAL_FAULTS, rental
from tests.planted.workshop import Change, Reply, application
from tests.planted.workshop_faults import WorkshopFault

from assay.evaluation.api import evaluate
from assay.run.answers import AnswersReport
from assay.text import sentences


def diagnosed(out: Path, change: Change = lambda reply, query_id: reply) -> AnswersReport:
    agent = application(rental(), change)
    answers = evaluate(agent, rental(), out=out, answers=True).report.answers
    assert answers is not None
    return answers


@pytest.mark.parametrize("fault", RENTAL_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_the_rental_is_named(fault: WorkshopFault, tmp_path: Path) -> None:
    answers = diagnosed(tmp_path, fault.change)
    found = [each.words for each in answers.findings]
    assert answers.findings[0].kind == fault.finding, found
    assert answers.findings[0].number >= fault.fewest, found


def _converted(said: str) -> str:
    said = re.sub(r"(\d+) euros", lambda m: f"{m[0]} (about {int(m[1]) * 1.1:.0f} dollars)", said)
    return re.sub(r"(\d+) kilometres", lambda m: f"{m[0]} ({int(m[1]) / 1.6:.0f} miles)", said)


def _page(reply: Reply) -> str:
    """What the page says beyond the answer."""
    text = sentences(rental().documents[reply["citations"][0]].text)
    return " ".join(each for each in text if each not in reply["answer"])


def _heading(reply: Reply) -> str:
    return rental().documents[reply["citations"][0]].title


def _lower(said: str) -> str:
    first = said.split()[0]
    return said if first in _page_names() else said[0].lower() + said[1:]


def _page_names() -> set[str]:
    return {"Petra", "Osman", "Rufus", "Miriam", "Winter", "Insurance"}


# Written down before any of them was run.
STYLES: dict[str, Callable[[Reply, str], str]] = {
    "bullets": lambda reply, said: "\n".join(f"* {each}" for each in sentences(said)),
    "a table": lambda reply, said: f"| question | answer |\n|---|---|\n| yours | {said} |",
    "in two languages": lambda reply, said: (
        f"{said}\n\nVielen Dank für Ihre Frage! Bei weiteren Fragen helfen wir Ihnen gerne."
    ),
    "in French courtesy": lambda reply, said: (
        f"Bonjour ! {said} N'hésitez pas à nous contacter pour toute autre question."
    ),
    "in Spanish courtesy": lambda reply, said: (
        f"¡Hola! {said} Espero que esta información le ayude."
    ),
    "long, with the rest of the page": lambda reply, said: f"{said} {_page(reply)}",
    "converted in brackets": lambda reply, said: _converted(said),
    "hedged by its scope": lambda reply, said: f"In general, {_lower(said)}",
    "quoted": lambda reply, said: f'The page "{_heading(reply)}" says: "{said}"',
    "with a disclaimer": lambda reply, said: (
        f"{said} This is not legal advice, and prices may change without notice."
    ),
    "numbered steps": lambda reply, said: "\n".join(
        f"{place}. {each}" for place, each in enumerate(sentences(f"{said} {_page(reply)}"), 1)
    ),
    "headings": lambda reply, said: f"### Answer\n{said}\n\n### Source\n- {_heading(reply)}",
    "looked up": lambda reply, said: f"I looked this up for you: {_lower(said)}",
    "the short form after it": lambda reply, said: (
        f"{said} In short: {said.partition(' is ')[2]}" if " is " in said else said
    ),
    "a letter": lambda reply, said: (
        f"Dear customer,\n\n{said}\n\nBest regards,\nYour team at the rental"
    ),
    "for the time being": lambda reply, said: f"As of today, {_lower(said)}",
    "with the page behind it": lambda reply, said: f"{said} (see {_heading(reply)})",
    "thanks of the house": lambda reply, said: (
        f"Hello and thank you for your interest in our rental! {said}"
    ),
    "a raised footnote": lambda reply, said: f"{said}¹\n\n¹ {_heading(reply)}",
    "no full stop": lambda reply, said: said.rstrip("."),
    "a question after it": lambda reply, said: f"{said}\n\nShall I book a convertible for you?",
    "a caveat about documents": lambda reply, said: (
        f"{said}\n\nPlease note that this reflects the documentation I was given; details may "
        "change, so check the official docs for the latest information."
    ),
    "its confidence": lambda reply, said: f"**Answer:** {said}\n\n**Confidence:** high",
    "a picture": lambda reply, said: f"Great question! 😊 {said}",
    "a note in Markdown": lambda reply, said: f"{said}[^1]\n\n[^1]: {_heading(reply)}",
    "where to find it": lambda reply, said: (
        f"Here's what the documentation says:\n\n- {said}\n\nYou'll find this on the page "
        f"“{_heading(reply)}” of the documentation."
    ),
    "figures as code": lambda reply, said: re.sub(r"(?<![\w.:,])\d+(?![\w.:,])", r"`\g<0>`", said),
    "yes first": lambda reply, said: said if said[:3] == "No," else f"Sure! {said}",
}


@pytest.mark.parametrize("style", ["as it is", *STYLES])
def test_right_answers_of_the_rental_have_no_finding(style: str, tmp_path: Path) -> None:
    def styled(reply: Reply, query_id: str) -> Reply:
        if style not in STYLES or not reply["citations"]:
            return reply
        return reply | {"answer": STYLES[style](reply, reply["answer"])}

    answers = diagnosed(tmp_path, styled)
    assert [each.words for each in answers.findings] == []
    assert answers.outcomes["right"] == answers.questions
