"""A car rental and fifteen faults of its application, written down before any of them was run.

`finding` is what a reader would call each; `docs/quality.md` has how many were named at first.
"""

import json
import re
from functools import cache
from pathlib import Path

from tests.planted.workshop import Reply
from tests.planted.workshop_faults import WorkshopFault, _said, _translate

from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer

_FILE = Path(__file__).with_name("rental.json")


@cache
def rental() -> Dataset:
    """The pages of the rental with one to three questions each, and some that none answers."""
    written = json.loads(_FILE.read_text(encoding="utf-8"))
    documents, asked = {}, []
    for number, page in enumerate(written["pages"], start=1):
        name = f"page-{number:02}"
        documents[name] = Document(name, page["title"], page["text"])
        asked += [(name, *each) for each in page["questions"]]
    asked += [("", question, None, []) for question in written["unanswerable"]]
    queries, answers, judgments = {}, {}, {}
    for number, (name, question, answer, facts) in enumerate(asked, start=1):
        query = f"q{number}"
        queries[query] = Query(query, question)
        known = tuple(Fact(each[0], tuple(each)) for each in facts)
        answers[query] = ReferenceAnswer(query, answer, known, (name,) if name else ())
        if name:
            judgments[query] = {name: 1}
    return Dataset("rental", documents, queries, {"test": judgments}, answers)


_FIGURE = re.compile(r"\d[\d.,:]*\d|\d")
_PEOPLE = (
    *("Petra Lindqvist", "Osman Yildiz", "Dagny Holm", "Rufus Amadi", "Miriam Castellan"),
    *("Aquaplan", "Petra Lindqvist"),
)
_STRANGERS = dict(
    zip(
        _PEOPLE,
        ["Ulf Brandt", "Ines Kovac", "Tom Reyes", "Eva Stark", "Jon Weir", "Hydrofix"],
        strict=False,
    )
)


def _question_before(reply: Reply, query_id: str) -> Reply:
    number = int(query_id[1:])
    before = rental().answers.get(f"q{number - 1}")
    if before is None or before.answer is None:
        return reply
    return reply | {"answer": before.answer, "citations": list(before.documents)}


def _next_figure(reply: Reply, query_id: str) -> Reply:
    """The last figure of the answer is that of another line of the same page."""
    said = reply["answer"]
    figures = _FIGURE.findall(said)
    page = _FIGURE.findall(reply["contexts"][0]["text"])
    others = [each for each in page if each not in figures]
    if not figures or not others or not reply["citations"]:
        return reply
    head, _, tail = said.rpartition(figures[-1])
    return reply | {"answer": f"{head}{others[0]}{tail}"}


def _other_page(reply: Reply, query_id: str) -> Reply:
    """The last figure is one of the next page that was shown, in the same unit where it has one."""
    said = reply["answer"]
    figures = _FIGURE.findall(said)
    if not figures or not reply["citations"]:
        return reply
    head, _, tail = said.rpartition(figures[-1])
    unit = tail.split()[0].rstrip(".,") if tail.split() else ""
    for page in reply["contexts"][1:]:
        for match in _FIGURE.finditer(page["text"]):
            after = page["text"][match.end() :].split()[:1]
            if match[0] not in figures and after and after[0].rstrip(".,") == unit:
                return reply | {"answer": f"{head}{match[0]}{tail}"}
    return reply


def _turned(said: str, _: int) -> str:
    return _FIGURE.sub(lambda match: match[0][::-1], said)


def _corrects_itself(said: str, number: int) -> str:
    figure = _FIGURE.search(said)
    if number % 2 or not figure or not figure[0].isdigit():
        return said
    return f"{said} Correction: it is {int(figure[0]) + 3}."


def _title(reply: Reply, query_id: str) -> Reply:
    cited = reply["citations"]
    return reply | {"answer": f"See: {rental().documents[cited[0]].title}"} if cited else reply


def _linked(said: str, number: int) -> str:
    return f"{said} More: https://www.rental.example/help/{number}.html"


def _stuttered(said: str, _: int) -> str:
    return " ".join(f"{word} {word}" for word in said.split())


def _another_page_too(reply: Reply, query_id: str) -> Reply:
    other = reply["contexts"][-1]["text"].partition(". ")[0]
    return _cited(reply, f"{reply['answer']} {other}.")


_ASKS = (
    "Which branch and which car do you mean?",
    "For which dates would you like to know that?",
    "Do you mean private or company rentals?",
    "Could you tell me your booking number first?",
)
_ADVERTS = (
    "Book before Friday and save 33 euros with code SUNNY.",
    "Our partner Hotel Miramar gives guests 17 percent off.",
    "Try the new convertible with 450 horse power.",
)
_SHIFTED = {
    "November": "December", "April": "May", "Saturdays": "Fridays", "1 pm": "2 pm", "2014": "2015",
    "2019": "2018", "48 hours": "24 hours", "five working days": "nine working days",
    "three days": "six days", "36 months": "30 months", "60 days": "90 days",
}  # fmt: skip


def _cited(reply: Reply, said: str) -> Reply:
    return reply | {"answer": said} if reply["citations"] else reply


RENTAL_FAULTS = (
    WorkshopFault("the answer of the question before", "answers other questions", _question_before),
    WorkshopFault("a figure of another line", "wrong number", _next_figure),
    WorkshopFault("a figure of another page", "wrong number", _other_page),
    WorkshopFault("invented people", "wrong name", _translate(_STRANGERS), 4),
    WorkshopFault(
        "a colleague in place of the person",
        "wrong name",
        _translate(dict(zip(_PEOPLE[:5], (*_PEOPLE[1:5], _PEOPLE[0]), strict=True))),
        4,
    ),
    WorkshopFault("dollars for euros", "wrong unit", _translate({"euros": "dollars"}), 4),
    WorkshopFault("digits turned around", "wrong number", _said(_turned)),
    WorkshopFault("corrects itself", "contradicts itself", _said(_corrects_itself)),
    WorkshopFault(
        "a newspaper as the source",
        "names unknown sources",
        lambda reply, _: _cited(reply, f"As the Brackwater Bulletin reports: {reply['answer']}"),
    ),
    WorkshopFault("the title of the page", "names a document", _title),
    WorkshopFault(
        "figures blacked out",
        "unfilled template",
        _said(lambda said, _: _FIGURE.sub("[REDACTED]", said)),
    ),
    WorkshopFault(
        "notes to itself",
        "shows its reasoning",
        _said(
            lambda said, n: said if n % 3 else f"<scratchpad>look at page {n}</scratchpad>{said}"
        ),
    ),
    WorkshopFault(
        "asks back",
        "asks back",
        lambda reply, query_id: (
            reply
            if int(query_id[1:]) % 3
            else _cited(reply, _ASKS[int(query_id[1:]) // 3 % len(_ASKS)])
        ),
    ),
    WorkshopFault(
        "advertisements",
        "foreign numbers",
        lambda reply, query_id: _cited(
            reply, f"{reply['answer']} {_ADVERTS[int(query_id[1:]) % len(_ADVERTS)]}"
        ),
    ),
    WorkshopFault("times and terms shifted", "wrong number", _translate(_SHIFTED), 4),
    *(
        WorkshopFault(name, finding, change)
        for name, finding, change in (
            ("invented links", "foreign addresses", _said(_linked)),
            ("a sentence of another page", "mixes documents", _another_page_too),
            ("every word twice", "repeats itself", _said(_stuttered)),
        )
    ),
)
