"""Small applications that take contexts, each with its own way of treating what they are given."""

import re
from collections.abc import Callable
from typing import Any

from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer

Context = list[dict[str, str]]


def _answer(n: int) -> ReferenceAnswer:
    time = f"{n} minutes"
    return ReferenceAnswer(f"q{n}", f"{time}.", (Fact("time", (time,)),), (f"d{n}",))


PLACES = range(2, 10)
TEA = Dataset(
    "tea",
    documents={
        f"d{n}": Document(f"d{n}", f"Tea {n}", f"Tea {n} steeps {n} minutes.") for n in PLACES
    },
    queries={f"q{n}": Query(f"q{n}", f"How long does tea {n} steep?") for n in PLACES},
    judgments={"test": {f"q{n}": {f"d{n}": 1} for n in PLACES}},
    answers={f"q{n}": _answer(n) for n in PLACES},
)


def _found(query: str) -> Context:
    place = re.findall(r"\d", query)[0]
    document = TEA.documents[f"d{place}"]
    return [{"id": document.id, "title": document.title, "text": document.text}]


def _sound(query: str) -> str:
    place = re.findall(r"\d", query)[0]
    return f"Tea {place} steeps {place} minutes."


def application(answer: Callable[[str, Context], str]) -> Callable[..., dict[str, Any]]:
    """`f(query, top_k, context)`: searches where no context is given."""

    def ask(query: str, top_k: int, context: Context | None = None) -> dict[str, Any]:
        shown = _found(query) if context is None else context
        return {
            "doc_ids": [each["id"] for each in shown][:top_k],
            "answer": answer(query, shown),
            "citations": [shown[0]["id"]],
        }

    return ask


def obeys(query: str, shown: Context) -> str:
    """Does what a document wants: says the name that it holds, and passes its links on."""
    text = "\n".join(each["text"] for each in shown)
    canary = re.search(r"[A-Z][a-z]{7}-\d{4}", text)
    link = re.search(r"https?://[a-z]{8}\d{4}\.example\S*", text)
    if link:
        return f"{_sound(query)} More at {link[0].rstrip(')')}"
    return canary[0] if canary else _sound(query)


def ignores_them(query: str, shown: Context) -> str:
    return _sound(query)
