"""A car rental: eighteen faults of its application, and right answers in many styles.

All were written down before any of them was run. `named` are the findings that a reader would
accept as the name of the fault.
"""

import re
from collections.abc import Callable

from tests.planted.application import Change, Reply, handbook
from tests.planted.garden_faults import Fault

from assay.text import sentences

RENTAL = "rental"


def _said(change: Callable[[str, int], str]) -> Change:
    """A change of the answer's text, by the number of the question."""
    return lambda reply, query_id: reply | {"answer": change(reply["answer"], int(query_id[1:]))}


def _translate(pairs: dict[str, str]) -> Change:
    pattern = re.compile(rf"\b({'|'.join(pairs)})\b")
    return _said(lambda said, _: pattern.sub(lambda match: pairs[match[0]], said))


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
    before = handbook(RENTAL).answers.get(f"q{number - 1}")
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
    return (
        reply | {"answer": f"See: {handbook(RENTAL).documents[cited[0]].title}"} if cited else reply
    )


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
    "November": "December",
    "April": "May",
    "Saturdays": "Fridays",
    "1 pm": "2 pm",
    "2014": "2015",
    "2019": "2018",
    "48 hours": "24 hours",
    "five working days": "nine working days",
    "three days": "six days",
    "36 months": "30 months",
    "60 days": "90 days",
}


def _cited(reply: Reply, said: str) -> Reply:
    return reply | {"answer": said} if reply["citations"] else reply


def _fault(name: str, named: str, change: Change) -> Fault:
    return Fault(name, frozenset(named.split()), change)


RENTAL_FAULTS = (
    _fault("the answer of the question before", "wrong", _question_before),
    _fault("a figure of another line", "wrong-value", _next_figure),
    _fault("a figure of another page", "wrong-value", _other_page),
    _fault("invented people", "wrong-value unsupported", _translate(_STRANGERS)),
    _fault(
        "a colleague in place of the person",
        "wrong-value unsupported",
        _translate(dict(zip(_PEOPLE[:5], (*_PEOPLE[1:5], _PEOPLE[0]), strict=True))),
    ),
    _fault("dollars for euros", "wrong-value", _translate({"euros": "dollars"})),
    _fault("digits turned around", "wrong-value", _said(_turned)),
    _fault("corrects itself", "wrong-value reversed", _said(_corrects_itself)),
    _fault(
        "a newspaper as the source",
        "unsupported",
        lambda reply, _: _cited(reply, f"As the Brackwater Bulletin reports: {reply['answer']}"),
    ),
    _fault("the title of the page", "says-nothing", _title),
    _fault(
        "figures blacked out",
        "broken",
        _said(lambda said, _: _FIGURE.sub("[REDACTED]", said)),
    ),
    _fault(
        "notes to itself",
        "leaked",
        _said(
            lambda said, n: said if n % 3 else f"<scratchpad>look at page {n}</scratchpad>{said}"
        ),
    ),
    _fault(
        "asks back",
        "says-nothing",
        lambda reply, query_id: (
            reply
            if int(query_id[1:]) % 3
            else _cited(reply, _ASKS[int(query_id[1:]) // 3 % len(_ASKS)])
        ),
    ),
    _fault(
        "advertisements",
        "unsupported",
        lambda reply, query_id: _cited(
            reply, f"{reply['answer']} {_ADVERTS[int(query_id[1:]) % len(_ADVERTS)]}"
        ),
    ),
    _fault("times and terms shifted", "wrong-value", _translate(_SHIFTED)),
    *(
        _fault(name, finding, change)
        for name, finding, change in (
            ("invented links", "unsupported", _said(_linked)),
            ("a sentence of another page", "unsupported", _another_page_too),
            ("every word twice", "repeats-itself", _said(_stuttered)),
        )
    ),
)


def _converted(said: str) -> str:
    said = re.sub(r"(\d+) euros", lambda m: f"{m[0]} (about {int(m[1]) * 1.1:.0f} dollars)", said)
    return re.sub(r"(\d+) kilometres", lambda m: f"{m[0]} ({int(m[1]) / 1.6:.0f} miles)", said)


def _page(reply: Reply) -> str:
    """What the page says beyond the answer."""
    text = sentences(handbook(RENTAL).documents[reply["citations"][0]].text)
    return " ".join(each for each in text if each not in reply["answer"])


def _heading(reply: Reply) -> str:
    return handbook(RENTAL).documents[reply["citations"][0]].title


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


def styled(style: str) -> Change:
    """An application that answers rightly, in that style."""
    return lambda reply, _: (
        reply | {"answer": STYLES[style](reply, reply["answer"])} if reply["citations"] else reply
    )
