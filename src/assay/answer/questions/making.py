"""Makes questions of the kinds that are wanted: by templates, by gaps, and by a model."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.answer.ground_truth.candidates import (
    QuestionCandidate,
    Rejection,
    States,
    documents_with_quotes,
)
from assay.answer.ground_truth.question_set import QuestionSet, generate_questions
from assay.answer.ground_truth.writers import QuestionWriter
from assay.answer.questions.checks import QuestionChecks
from assay.answer.questions.kinds import MadeQuestion, QuestionKind, Quote
from assay.answer.questions.templates import TemplateQuestions
from assay.data.dataset import Document
from assay.errors import UsageError
from assay.progress import Progress, silent
from assay.search.bm25_index import Bm25Index

_WRITTEN = (QuestionKind.SINGLE_HOP, QuestionKind.PARAPHRASED)
_TRIES = 50
"""Candidates of a template for each question that is wanted."""

MOST_QUESTIONS = 100_000


@dataclass
class MadeQuestions:
    """The questions of a set, and what was not made.

    `from_memory_checked` is False if there was no model that could know the answers.
    """

    questions: list[MadeQuestion] = field(default_factory=list)
    drafted: int = 0
    rejected: Counter[Rejection] = field(default_factory=Counter)
    from_memory_checked: bool = False

    def count(self, kind: QuestionKind) -> int:
        """How many questions of a kind there are."""
        return sum(each.kind is kind for each in self.questions)


async def make_questions(
    documents: Mapping[str, Document],
    kinds: Sequence[QuestionKind],
    number: int,
    *,
    writers: Mapping[QuestionKind, QuestionWriter],
    states: States,
    seed: int = 42,
    taken: Sequence[str] = (),
    progress: Progress = silent,
) -> MadeQuestions:
    """Up to `number` questions, as many of each kind as the documents allow.

    Args:
        documents: what to ask about, by id.
        kinds: what to ask.
        number: how many questions in all; kinds take turns.
        writers: who writes the kinds that no template makes.
        states: whether a text states a fact.
        seed: decides documents and sentences.
        taken: questions that exist already.
        progress: called as questions are made.
    """
    if not 1 <= number <= MOST_QUESTIONS:
        raise UsageError(
            f"the number of questions must be between 1 and {MOST_QUESTIONS:,}, got {number}"
        )
    if not documents:
        raise UsageError("there are no documents, so there is nothing to ask about")
    index = Bm25Index(documents.values())
    checks = QuestionChecks(documents, index, states, taken)
    made = MadeQuestions()
    for kind in (each for each in kinds if each in _WRITTEN):
        share = _share(number, kinds, kind)
        if not share:
            continue
        texts = [*taken, *(each.text for each in made.questions)]
        writer = writers[kind]
        try:
            found = await generate_questions(
                documents, writer, share, states=states, seed=seed, taken=texts, progress=progress
            )
        except UsageError:  # no document is long enough; a title can still be asked for
            if len(kinds) == 1:
                raise
            continue
        _take_written(made, found, kind, writer, documents, checks)
    templates = TemplateQuestions(documents, index, seed)
    streams = {each: templates.of_kind(each) for each in kinds if each not in _WRITTEN}
    _fill(made, streams, number, checks, progress)
    order = {kind: place for place, kind in enumerate(kinds)}
    made.questions.sort(key=lambda each: order[each.kind])
    return made


def _share(number: int, kinds: Sequence[QuestionKind], kind: QuestionKind) -> int:
    whole, rest = divmod(number, len(kinds))
    return whole + (list(kinds).index(kind) < rest)


def _take_written(
    made: MadeQuestions,
    found: QuestionSet,
    kind: QuestionKind,
    writer: QuestionWriter,
    documents: Mapping[str, Document],
    checks: QuestionChecks,
) -> None:
    made.drafted += found.candidates
    made.rejected.update(found.rejected)
    made.from_memory_checked |= found.from_memory_checked
    model = writer.origin.get("model", "")
    how = "cloze" if model in ("", "none") else f"written by a model: {model}"
    for candidate in found.questions:
        question = _question(candidate, kind, how, documents)
        reason = checks.rejection(question)
        if reason is None:
            made.questions.append(checks.flagged(question))
        else:
            made.rejected[reason] += 1


def _question(
    candidate: QuestionCandidate, kind: QuestionKind, how: str, documents: Mapping[str, Document]
) -> MadeQuestion:
    return MadeQuestion(
        kind,
        candidate.question,
        tuple(documents_with_quotes(candidate, documents)),
        tuple(Quote(candidate.document_id, each) for each in candidate.quotes),
        candidate.answer,
        candidate.facts,
        how=how,
    )


def _fill(
    made: MadeQuestions,
    streams: dict[QuestionKind, Iterator[MadeQuestion]],
    number: int,
    checks: QuestionChecks,
    progress: Progress,
) -> None:
    """Kinds take turns, those with fewest questions first; one that has no more drops out."""
    tries = dict.fromkeys(streams, _TRIES * number)
    while streams and len(made.questions) < number:
        kind = min(streams, key=made.count)
        candidate = next(streams[kind], None)
        tries[kind] -= 1
        if candidate is None or tries[kind] <= 0:
            del streams[kind]
            continue
        made.drafted += 1
        reason = checks.rejection(candidate)
        if reason is None:
            made.questions.append(checks.flagged(candidate))
            progress("making questions", len(made.questions), number)
        else:
            made.rejected[reason] += 1
