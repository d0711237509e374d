"""Faults of the workshop's application, each with the finding that has to name it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.planted.workshop import Change, Reply, workshop

from assay.llm.passages import NOT_FOUND


@dataclass(frozen=True)
class WorkshopFault:
    """`finding` comes first, and is about at least `fewest` answers."""

    name: str
    finding: str
    change: Change
    fewest: int = 9


def _said(change: Callable[[str, int], str]) -> Change:
    """A change of the answer's text, by the number of the question."""
    return lambda reply, query_id: reply | {"answer": change(reply["answer"], int(query_id[1:]))}


def _translate(pairs: dict[str, str]) -> Change:
    pattern = re.compile(rf"\b({'|'.join(pairs)})\b")
    return _said(lambda said, _: pattern.sub(lambda match: pairs[match[0]], said))


_UNITS = {
    "Nm": "kg", "mm": "cm", "days": "weeks", "euros": "dollars", "years": "months", "kg": "tons",
    "hours": "minutes",
}  # fmt: skip
_COMPARED = {
    "less than": "more than", "at most": "at least", "at least": "at most", "before": "after",
    "after": "before", "higher": "lower",
}  # fmt: skip
_NUMBER = re.compile(r"\d+(?:[.:]\d+)?")
_ADDED = ("a laser cutter", "a forklift", "an anvil", "a crane")


def _numbers_rotated(said: str, _: int) -> str:
    found = _NUMBER.findall(said)
    turned = iter([*found[1:], *found[:1]])
    return _NUMBER.sub(lambda _match: next(turned), said)


def _ten_times(said: str, _: int) -> str:
    whole = re.sub(r"(?<![\d.:])(\d+)(?![\d.:])", r"\g<1>0", said)
    return re.sub(r"(\d)\.(\d)", r"\1\2", whole)


def _same_text(reply: Reply, query_id: str) -> Reply:
    first = reply["contexts"][0]
    copies = [first | {"id": f"{first['doc_id']}#{place}"} for place in range(3)]
    return reply | {"contexts": copies, "doc_ids": reply["doc_ids"][:1]}


def _second_sentence(reply: Reply, query_id: str) -> Reply:
    text = workshop().documents[reply["doc_ids"][0]].text
    return reply | {"answer": text.split(". ", 1)[1]}


def _lower(said: str) -> str:
    return said[0].lower() + said[1:]


def _two_numbers(said: str, _: int) -> str:
    return re.sub(
        r"(?<![\d.:])(\d+)(?= [a-zN])", lambda one: f"{one[1]} or {int(one[1]) + 3}", said
    )


def _all_figures(reply: Reply, query_id: str) -> Reply:
    texts = " ".join(page["text"] for page in reply["contexts"])
    figures = re.findall(r"[\d.:]*\d \w+", texts)
    return reply | {
        "answer": f"{reply['answer'].rstrip('.')}; the pages have {', '.join(figures)}."
    }


def _cut_contexts(reply: Reply, query_id: str) -> Reply:
    cut = [page | {"text": page["text"][:40]} for page in reply["contexts"]]
    return reply | {"contexts": cut}


_DOUBTS = (
    "Do not take my word for it.",
    "If memory serves, that is.",
    "We cannot vouch for that, sadly.",
)
_REFUSALS = (
    "The handbook is silent on that.",
    "Our manual does not explain that.",
    "No page gives such a figure.",
    "We found nothing about it in the files.",
)
CONTRADICTS = "contradicts its citations"
WORKSHOP_FAULTS = (
    WorkshopFault("units changed", "wrong unit", _translate(_UNITS), 6),
    WorkshopFault("comparisons turned around", CONTRADICTS, _translate(_COMPARED), 5),
    WorkshopFault("numbers in each other's places", CONTRADICTS, _said(_numbers_rotated), 4),
    WorkshopFault("numbers ten times as large", "wrong number", _said(_ten_times)),
    WorkshopFault("last year's date", CONTRADICTS, _translate({"2026": "2025"}), 2),
    WorkshopFault(
        "negation added or dropped",
        "denies",
        _said(
            lambda said, _: (
                said.replace("No, ", "Yes, ").replace("must not", "must")
                if "must not" in said
                else re.sub(
                    r"\b(is|are|takes|holds|costs|carries|has)\b", r"\1 never", said, count=1
                )
            )
        ),
    ),
    WorkshopFault(
        "the last item of every list is missing",
        "incomplete",
        _said(lambda said, _: re.sub(r",? and .*", ".", said)),
        3,
    ),
    WorkshopFault(
        "an item that is in no list",
        "foreign items",
        _said(lambda said, number: f"{said.rstrip('.')}, and {_ADDED[number % 4]}."),
    ),
    WorkshopFault(
        "UTF-8 read as Latin-1",
        "broken characters",
        _said(lambda said, _: f"„{said}“ – größer".encode().decode("latin-1")),
    ),
    WorkshopFault(
        "HTML that was not decoded",
        "broken characters",
        _said(lambda said, _: f"&quot;{said}&quot; &amp; that is all."),
    ),
    WorkshopFault(
        "a template that was not filled in",
        "unfilled template",
        _said(lambda said, number: f"The answer to question {number} is {{answer}}."),
    ),
    WorkshopFault(
        "None after every answer", "unfilled template", _said(lambda said, _: f"{said} None")
    ),
    WorkshopFault(
        "the steps of an agent in the answer",
        "shows its reasoning",
        _said(
            lambda said, n: f"Thought: I look at page {n}.\nAction: search\nFinal Answer: {said}"
        ),
    ),
    WorkshopFault(
        "marks that point nowhere",
        "dangling marks",
        _said(lambda said, _: f"{said.rstrip('.')} [7]."),
    ),
    WorkshopFault(
        "an answer and a refusal",
        "answers and declines",
        _said(lambda said, _: f"{said} {NOT_FOUND}"),
    ),
    WorkshopFault(
        "every second answer is empty",
        "empty answer",
        _said(lambda said, number: said if number % 2 else " "),
    ),
    WorkshopFault(
        "contexts without text",
        "nothing shown",
        lambda reply, _: reply | {"contexts": [each | {"text": ""} for each in reply["contexts"]]},
    ),
    WorkshopFault("one text under three ids", "repeated documents", _same_text),
    WorkshopFault("the sentence after the right one", "something else", _second_sentence),
    WorkshopFault(
        "speaks of itself",
        "repeats instructions",
        _said(lambda said, _: f"As an AI language model I can say: {said}"),
    ),
    WorkshopFault(
        "the marks of a chat template",
        "repeats instructions",
        _said(lambda said, _: f"<|start|>assistant<|message|>{said}<|end|>"),
    ),
    WorkshopFault(
        "asks back in place of answering",
        "hedges",
        _said(lambda said, _: f"Is it the case that {_lower(said).rstrip('.')}?"),
    ),
    WorkshopFault(
        "takes it back in a sentence of its own",
        "hedges",
        _said(lambda said, n: f"{said} {_DOUBTS[n % len(_DOUBTS)]}"),
    ),
    WorkshopFault("two numbers in place of one", "hedges", _said(_two_numbers), 6),
    WorkshopFault("all figures of the pages in one list", "hedges", _all_figures, 6),
    WorkshopFault(
        "cut after two thirds of the words",
        "breaks off",
        _said(lambda said, _: " ".join(said.split()[: len(said.split()) * 2 // 3])),
    ),
    WorkshopFault(
        "an exception that nobody made",
        "foreign items",
        _said(lambda said, _: f"{said.rstrip('.')}, except during carnival."),
    ),
    WorkshopFault(
        "says that it has no access, and answers",
        "answers and declines",
        _said(lambda said, _: f"We do not have access to the handbook. {said}"),
    ),
    WorkshopFault(
        "refuses in words of its own",
        "declines wrongly",
        _said(lambda said, n: _REFUSALS[n % len(_REFUSALS)]),
    ),
    WorkshopFault("contexts cut after forty characters", "wrong part", _cut_contexts, 6),
)
