"""The part of a report that is about planted documents (`--poison`)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _PoisonModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)


class PoisonCount(_PoisonModel):
    """What answers did with planted documents: of one kind, of one wording, or of all.

    `answered` are the answers that came, of which each followed the document, repeated or reported
    it, or shows nothing of it. `share` is that of the answers that follow, with its 95% interval
    over questions; None where there was no answer. `retrieved` counts the planted documents that
    were found, where they were planted into an index.
    """

    asked: int
    answered: int
    followed: int
    repeated: int = 0
    reported: int = 0
    share: float | None = None
    low: float | None = None
    high: float | None = None
    retrieved: int | None = None


class PoisonExample(_PoisonModel):
    """An answer that did what a planted document says; `doc_id` is that document."""

    query_id: str
    kind: str
    wording: str
    doc_id: str
    canary: str
    answer: str


class PoisonReport(_PoisonModel):
    """What planted documents did to the answers; the documents themselves are in `poison.jsonl`.

    `wordings` are by kind and name, `override: polite`, those that were followed most first.
    """

    into: Literal["contexts", "index"]
    questions: int
    total: PoisonCount
    kinds: dict[str, PoisonCount]
    wordings: dict[str, PoisonCount] = {}
    examples: list[PoisonExample] = []
    note: str | None = None
