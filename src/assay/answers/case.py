"""`AnswerCase`: one question, what a correct answer needs, and what an agent answered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Literal, TypeVar, cast

from assay.answers.statements import abstained, claims, is_heading, refers_on, statements
from assay.data.dataset import Document, ReferenceAnswer
from assay.llm.passages import ContextChunk
from assay.text import detect_language, normalize

Documents = Mapping[str, Document]

# Characters of an answer that are measured and judged, some 30 pages: nobody reads more of one.
MAX_ANSWER = 100_000
# Characters of what was shown that one answer is compared with.
MAX_SHOWN = 300_000


@dataclass(frozen=True)
class AnswerCase:
    """AnswerCase("q1", "What does it cost?", ReferenceAnswer("q1", "3 euros"), answer="3 euros")

    `answer` is None if the agent failed. `retrieved` and `citations` are document ids as the agent
    gave them, `contexts` the passages that its model was shown, if it says so. `documents` are
    those of the data set, `verdict` is what a judge said. Of an answer beyond `MAX_ANSWER` the rest
    is left out; `answer_length` says how long it was.
    """

    query_id: str
    question: str
    reference: ReferenceAnswer
    relevant: Mapping[str, int] = field(default_factory=dict)
    answer: str | None = None
    retrieved: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    contexts: tuple[ContextChunk, ...] = ()
    documents: Documents = field(default_factory=dict, repr=False, compare=False)
    verdict: Literal["right", "wrong", "undecided"] | None = None
    answer_length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer_length", len(self.answer or ""))
        if self.answer is not None:
            object.__setattr__(self, "answer", self.answer[:MAX_ANSWER])

    @property
    def answerable(self) -> bool:
        """Whether the documents hold an answer; if not, declining is correct."""
        return self.reference.answer is not None

    @property
    def relevant_ids(self) -> frozenset[str]:
        """The documents that are judged relevant."""
        return frozenset(doc_id for doc_id, grade in self.relevant.items() if grade > 0)

    @cached_property
    def needed(self) -> frozenset[str]:
        """The documents that the reference answer rests on, else all that are judged relevant."""
        return frozenset(self.reference.documents) or self.relevant_ids

    @cached_property
    def seen_ids(self) -> tuple[str, ...]:
        """The documents that the model was shown: those of the contexts, else what was found."""
        shown = tuple(dict.fromkeys(chunk.doc_id for chunk in self.contexts if chunk.doc_id))
        return shown or self.retrieved

    @cached_property
    def seen_texts(self) -> list[str]:
        """What the model was shown: the contexts themselves, else the documents found."""
        return [chunk.text for chunk in self.contexts] or self._texts(self.retrieved)

    @cached_property
    def cited_texts(self) -> list[str]:
        """What the answer cites; all that was shown if it cites nothing."""
        if not self.citations:
            return self.seen_texts
        shown = [chunk.text for chunk in self.contexts if chunk.doc_id in self.citations]
        return shown or self._texts(self.citations)

    def _texts(self, ids: Sequence[str]) -> list[str]:
        known = (doc_id for doc_id in ids if doc_id in self.documents)
        return [self.documents[doc_id].full_text for doc_id in known]

    @cached_property
    def shown(self) -> dict[str, str]:
        """The text that was shown of each document, at most `MAX_SHOWN` characters of all."""
        parts = [
            (chunk.doc_id or chunk.id or str(n), chunk.text)
            for n, chunk in enumerate(self.contexts, start=1)
        ]
        parts = parts or [
            (doc_id, self.documents[doc_id].full_text)
            for doc_id in self.retrieved
            if doc_id in self.documents
        ]
        share = MAX_SHOWN // max(1, len(parts))
        texts: dict[str, str] = {}
        for doc_id, text in parts:
            texts[doc_id] = f"{texts.get(doc_id, '')}\n{text[:share]}".strip()
        return {doc_id: text for doc_id, text in texts.items() if text}

    @cached_property
    def titles(self) -> list[str]:
        """The titles of the documents that were shown: an answer may name its source."""
        seen = (self.documents.get(doc_id) for doc_id in self.seen_ids)
        return [document.title for document in seen if document is not None and document.title]

    @cached_property
    def names(self) -> list[str]:
        """Ids and titles of what was shown or cited: in brackets they are source marks."""
        ids = [*self.seen_ids, *self.citations, *(chunk.id for chunk in self.contexts)]
        # Contexts of a log have the id of their row before their own.
        bare = [each.partition(":")[2] for each in ids]
        return [*self.titles, *filter(None, [*ids, *bare])]

    @cached_property
    def statements(self) -> list[str]:
        """What the answer says, without source marks, titles in quotes and the question again."""
        bare = self.answer or ""
        for text in filter(None, (*self.titles, self.question)):
            for quoted in (f'"{text}"', f"“{text}”"):
                bare = bare.replace(quoted, "")
        said, asked = statements(bare, self.names), normalize(self.question)
        return [sentence for sentence in said if asked not in normalize(sentence)] or said

    @cached_property
    def said(self) -> str:
        """The statements as one text."""
        return "\n".join(self.statements)

    @cached_property
    def claims(self) -> list[str]:
        """The statements that a source has to support."""
        found = claims(self.statements)
        return [each for each in found if not is_heading(each)] or found

    @cached_property
    def known(self) -> str:
        """Everything that the answer may repeat: what was shown or asked, and the reference."""
        facts = [wording for fact in self.reference.facts for wording in fact.accept]
        given = [*self.names, self.question, self.reference.answer or "", *facts]
        return "\n".join([*self.shown.values(), *given])

    @cached_property
    def sources(self) -> list[str]:
        """The reference answer and what was shown."""
        return [self.reference.answer or "", *self.shown.values()]

    @cached_property
    def declined(self) -> bool:
        """Whether the agent answered that it has no answer."""
        if self.answer is None or abstained(self.answer, self.question):
            return self.answer is not None
        # Who has no answer may say whom to ask instead.
        shown = "\n".join(self.shown.values())
        return not self.answerable and refers_on(self.answer, self.question, shown)

    @property
    def attempted(self) -> bool:
        """Whether there is an answer that does not decline."""
        return bool((self.answer or "").strip()) and not self.declined

    @cached_property
    def is_english(self) -> bool:
        """Whether what was shown is in English, or too short to tell."""
        texts = [self.question, self.reference.answer or "", *self.shown.values()]
        return detect_language(texts[:5]) in ("english", None)


Result = TypeVar("Result")


def once(compute: Callable[[AnswerCase], Result]) -> Callable[[AnswerCase], Result]:
    """Let a function of a case keep its result with the case: every check asks for it again."""
    name = f"_{compute.__name__}"

    @wraps(compute)
    def remembering(case: AnswerCase) -> Result:
        if name not in case.__dict__:
            case.__dict__[name] = compute(case)
        return cast(Result, case.__dict__[name])

    return remembering
