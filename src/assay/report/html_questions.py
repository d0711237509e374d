"""View models of a question and its answer: citations, documents, key facts, verdict; and of the
answers of two runs, with which of them a judge prefers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import quote

from assay.answers.answer_metrics import CRITERION_PREFIX
from assay.answers.diagnosis import AnswerDiagnosis
from assay.answers.nuggets import NuggetAssignment
from assay.answers.outcome import stated_facts
from assay.data.dataset import Dataset
from assay.report.html_queries import LISTED, DocumentView, JudgedDocuments, Remark
from assay.report.terminal_answers import preference_facts, preference_verdict
from assay.run.answers import ContextName, PreferenceReport
from assay.run.models import AnswerRow

RIGHT, WRONG, UNDECIDED = "right", "wrong", "not decided"
CONTEXTS: Mapping[ContextName, str] = {
    "gold": "the right documents alone",
    "no_context": "no document",
    "distractors": "the right documents among misleading ones",
}
_TONES = {RIGHT: "good", WRONG: "bad", UNDECIDED: "plain"}
_LONGEST = 4000
"""Characters of an answer: nobody reads more, and an agent may send a book."""

_PREFERRED = 5
"""Questions shown of each run whose answers are preferred."""
_LONGEST_PREFERRED = 600

_CITED = Remark("cited")
_NEEDED = Remark("needed", "good")
_RETRIEVED = Remark("retrieved", "good")
_MISSED = Remark("not retrieved", "bad")
_INVENTED = Remark("does not exist", "bad")

# Text in brackets on one line; markdown and code have many that cite nothing.
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]")
_SEPARATOR = re.compile(r"(\s?[,;]\s?)")


@dataclass(frozen=True, slots=True)
class CitedText:
    """A part of an answer; `doc_id` is the document that it cites, empty for plain text."""

    words: str
    doc_id: str = ""


def split_citations(
    answer: str, citations: Sequence[str], retrieved: Sequence[str]
) -> tuple[CitedText, ...]:
    """The whole text in order, with the document that each mark in brackets cites.

    A mark that names no document of `citations` or `retrieved` stays plain text.
    """
    known = _known(answer, citations, retrieved)
    pieces: list[CitedText] = []
    end = 0
    for found in _BRACKETS.finditer(answer):
        parts = _SEPARATOR.split(found[1])
        if not all(part.strip() in known for part in parts[::2]):
            continue
        pieces.append(CitedText(answer[end : found.start()] + "["))
        pieces += [CitedText(part, known.get(part.strip(), "")) for part in parts]
        pieces.append(CitedText("]"))
        end = found.end()
    return tuple(piece for piece in (*pieces, CitedText(answer[end:])) if piece.words)


def _known(answer: str, citations: Sequence[str], retrieved: Sequence[str]) -> Mapping[str, str]:
    """The citation marks that are known, with the document of each."""
    ids = {doc_id: doc_id for doc_id in (*retrieved, *citations)}
    return {**_numbers(answer, citations, retrieved), **ids}


def _numbers(answer: str, citations: Sequence[str], retrieved: Sequence[str]) -> Mapping[str, str]:
    """Agents number either what they retrieved or what they cite.

    The first reading is taken only where every number then names a document that is cited.
    """
    used = {
        int(part)
        for found in _BRACKETS.finditer(answer)
        for part in map(str.strip, _SEPARATOR.split(found[1])[::2])
        if part.isdecimal()
    }
    for documents, wanted in ((retrieved, set(citations)), (citations, set(citations))):
        places = dict(enumerate(documents, start=1))
        if all(places.get(number) in wanted for number in used):
            return {str(number): places[number] for number in used}
    return {}


@dataclass(frozen=True)
class QuestionDocuments:
    """The documents of one question with links: retrieved, needed, and cited from elsewhere.

    `anchor` begins the address of each document on the page.
    """

    judged: JudgedDocuments
    row: AnswerRow
    anchor: str

    def retrieved(self) -> list[DocumentView]:
        """The ranking; a document says whether it was needed and cited."""
        ids = self.row.retrieved_docs
        views = self.judged.ranking(self.row.query_id, ids)
        return [
            each
            if each.doc_id in ids[:place]
            else replace(each, anchor=self._anchor(each.doc_id), remarks=self._uses(each.doc_id))
            for place, each in enumerate(views)
        ]

    def needed(self) -> list[DocumentView]:
        """What the reference answer needs; a document says whether it was retrieved."""
        retrieved = set(self.row.retrieved_docs)
        return [
            replace(each, remarks=(_RETRIEVED if each.doc_id in retrieved else _MISSED,))
            for each in self.judged.documents(self.row.query_id, self.row.needed_docs)
        ]

    def cited_elsewhere(self) -> list[DocumentView]:
        """What is cited and not in the list of retrieved documents."""
        return [
            replace(
                each,
                anchor=self._anchor(each.doc_id),
                remarks=(_INVENTED,) if self.is_invented(each.doc_id) else (),
            )
            for each in self.judged.documents(self.row.query_id, self._elsewhere)
        ]

    def is_invented(self, doc_id: str) -> bool:
        """Whether no document has this id; False without the data set, which it
        needs."""
        dataset = self.judged.dataset
        known = None if dataset is None else dataset.corpus_ids
        return known is not None and doc_id not in known

    def href(self, doc_id: str) -> str:
        """The link to a document; empty if it is not on the page."""
        return f"#{self._anchor(doc_id)}" if doc_id in self._numbers else ""

    @cached_property
    def _elsewhere(self) -> list[str]:
        listed = set(self.row.retrieved_docs[:LISTED])
        return [each for each in dict.fromkeys(self.row.citations) if each not in listed]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        listed = dict.fromkeys((*self.row.retrieved_docs[:LISTED], *self._elsewhere[:LISTED]))
        return {doc_id: number for number, doc_id in enumerate(listed, start=1)}

    def _anchor(self, doc_id: str) -> str:
        return f"{self.anchor}-{self._numbers[doc_id]}"

    def _uses(self, doc_id: str) -> tuple[Remark, ...]:
        uses = ((_NEEDED, self.row.needed_docs), (_CITED, self.row.citations))
        return tuple(remark for remark, ids in uses if doc_id in ids)


@dataclass(frozen=True, slots=True)
class FactView:
    """A key fact; `stated` is None if its accepted wordings are not known."""

    text: str
    stated: bool | None


@dataclass(frozen=True, slots=True)
class CitationView:
    """`href` links to the document on the same page; `invented` where no such document exists."""

    doc_id: str
    href: str
    invented: bool


@dataclass(frozen=True, slots=True)
class RatingView:
    """How an answer was rated by a criterion of the user's own; `reason` where one was asked."""

    criterion: str
    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question, its answer and the evidence for the verdict.

    `answer` holds the text in parts with their links, `cut` how many characters are left out,
    `cited_elsewhere` documents that were cited and not retrieved, and `contexts` how the question
    went in other contexts.
    """

    query_id: str
    anchor: str
    text: str
    verdict: str
    tone: str
    diagnosis: AnswerDiagnosis | None
    answer: Sequence[tuple[CitedText, str]]
    cut: int
    answered: bool
    answerable: bool
    reference: str
    facts: Sequence[FactView]
    nuggets: Sequence[NuggetAssignment]
    citations: Sequence[CitationView]
    retrieved: Sequence[DocumentView]
    more_retrieved: int
    needed: Sequence[DocumentView]
    more_needed: int
    cited_elsewhere: Sequence[DocumentView]
    votes: Sequence[str]
    ratings: Sequence[RatingView]
    contexts: Sequence[tuple[str, bool]]
    tags: Sequence[str]

    @property
    def needed_retrieved(self) -> int:
        """How many of the listed needed documents were retrieved."""
        return sum(_RETRIEVED in each.remarks for each in self.needed)


def question_view(
    row: AnswerRow, judged: JudgedDocuments, prefix: str = "question"
) -> QuestionView:
    """A row of the answers as pages show it; `prefix` begins every anchor on the page."""
    anchor = f"{prefix}-{quote(row.query_id, safe='')}"
    documents = QuestionDocuments(judged, row, anchor)
    answer, verdict = row.answer or "", verdict_word(row)
    parts = split_citations(answer[:_LONGEST], row.citations, row.retrieved_docs)
    tried = row.counterfactuals
    return QuestionView(
        query_id=row.query_id,
        anchor=anchor,
        text=row.query_text,
        verdict=verdict,
        tone=_TONES[verdict],
        diagnosis=row.diagnosis,
        answer=[(part, documents.href(part.doc_id)) for part in parts],
        cut=max(0, (row.answer_length or len(answer)) - _LONGEST),
        answered=row.answer is not None,
        answerable=row.answerable,
        reference=row.reference_answer or "",
        facts=_facts(row, judged.dataset),
        nuggets=row.nuggets,
        citations=[
            CitationView(each, documents.href(each), documents.is_invented(each))
            for each in dict.fromkeys(row.citations)
        ],
        retrieved=documents.retrieved(),
        more_retrieved=max(0, len(row.retrieved_docs) - LISTED),
        needed=documents.needed(),
        more_needed=max(0, len(row.needed_docs) - LISTED),
        cited_elsewhere=documents.cited_elsewhere(),
        votes=row.votes or (),
        ratings=_ratings(row),
        contexts=[(words, tried[name]) for name, words in CONTEXTS.items() if name in tried],
        tags=judged.tags(row.query_id),
    )


def verdict_word(row: AnswerRow) -> str:
    """`right`, `wrong` or `not decided`."""
    return UNDECIDED if row.correct is None else RIGHT if row.correct else WRONG


def _ratings(row: AnswerRow) -> list[RatingView]:
    return [
        RatingView(name.removeprefix(CRITERION_PREFIX), value or 0.0, row.reasons.get(name, ""))
        for name, value in row.scores.items()
        if name.startswith(CRITERION_PREFIX)
    ]


def _facts(row: AnswerRow, dataset: Dataset | None) -> list[FactView]:
    """The row has the facts' texts; the accepted wordings are in the data set, if it has them."""
    reference = dataset.answers.get(row.query_id) if dataset else None
    facts = reference.facts if reference else ()
    known = {fact.text for fact in facts}
    stated = {fact.text for fact in stated_facts(row.answer or "", facts)}
    return [FactView(text, text in stated if text in known else None) for text in row.facts]


@dataclass(frozen=True, slots=True)
class PreferredAnswer:
    """A question with both answers, for the page."""

    query_id: str
    text: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class PreferenceView:
    """What the template `preference.html` shows; `examples` by who won, a then b."""

    report: PreferenceReport
    verdict: str
    facts: Sequence[tuple[str, str]]
    examples: Sequence[tuple[str, Sequence[PreferredAnswer]]]


def preference_view(
    found: PreferenceReport,
    rows_a: Mapping[str, AnswerRow],
    rows_b: Mapping[str, AnswerRow],
    a: str,
    b: str,
) -> PreferenceView:
    """What a page shows of a preference; the runs are called `a` and `b`."""

    def examples(winner: str) -> list[PreferredAnswer]:
        ids = [row.query_id for row in found.rows if row.winner == winner][:_PREFERRED]
        return [
            PreferredAnswer(
                each,
                rows_a[each].query_text,
                (rows_a[each].answer or "")[:_LONGEST_PREFERRED],
                (rows_b[each].answer or "")[:_LONGEST_PREFERRED],
            )
            for each in ids
        ]

    return PreferenceView(
        found,
        preference_verdict(found, a, b),
        list(preference_facts(found)),
        [(f"{name} is preferred", examples(winner)) for winner, name in (("a", a), ("b", b))],
    )
