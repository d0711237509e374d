"""A question that somebody wrote from a document, before anybody believes it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from assay.data.dataset import Fact


class Drop(StrEnum):
    """Why a draft was dropped, in the order in which drafts are examined."""

    NOTHING_TO_ASK = "the document holds nothing to ask about"
    REFUSED = "the model refused"
    UNREADABLE = "the reply was not the JSON that was asked for"
    FALSE_QUOTE = "a quote does not stand in the document"
    UNSTATED = "the answer does not state its own facts"
    NAMES_DOCUMENT = "the question names the document"
    DUPLICATE = "nearly the same question is there already"
    NOT_FOUND = "search does not find the document"
    UNANSWERED = "the document alone does not answer it"
    FROM_MEMORY = "the model answers it without any document"


@dataclass(frozen=True, slots=True)
class Draft:
    """`quotes` are the words of the document that support the facts, one for each."""

    document_id: str
    question: str
    answer: str
    facts: tuple[Fact, ...]
    quotes: tuple[str, ...]


def read_draft(reply: str, document_id: str) -> Draft | None:
    """None where the reply is not what was asked for: half a JSON, an essay, other fields."""
    try:
        fields = orjson.loads(reply[reply.index("{") : reply.rindex("}") + 1])
        facts = [_fact(each) for each in fields["facts"]]
        draft = Draft(
            document_id,
            _text(fields["question"]),
            _text(fields["answer"]),
            tuple(fact for fact, _ in facts),
            tuple(quote for _, quote in facts),
        )
    except (ValueError, KeyError, TypeError):  # also what orjson raises
        return None
    return draft if draft.facts else None


def _fact(fields: Any) -> tuple[Fact, str]:
    text = _text(fields["text"])
    accept = tuple(_text(each) for each in fields.get("accept") or [text])
    return Fact(text, accept), _text(fields["quote"])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be text that is not empty")
    return " ".join(value.split())
