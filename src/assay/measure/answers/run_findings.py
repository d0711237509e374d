"""Checks over all answers of a run together: what is the same everywhere, or is mixed up."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice

from assay.data.dataset import ReferenceAnswer
from assay.measure.answers.answer_view import AnswerView
from assay.text import normalize, stems, words

_FEWEST = 3
_SHARE = 0.3
_SENTENCE_WORDS = 4
_MINE, _THEIRS = 0.3, 0.6
_MOST_REFERENCES = 2000

RunFinding = tuple[str, str, str, Sequence[AnswerView], Sequence[AnswerView]]
"""Kind, words, what is counted, the answers it can be about and those it is about."""


def compare_answers(
    views: Sequence[AnswerView], references: Iterable[ReferenceAnswer] = ()
) -> Iterator[RunFinding]:
    """Everything that is found by comparing answers with each other, and with all references."""
    yield from _same_answer(views)
    yield from _same_sentence(views)
    yield from _other_questions(views, references)
    yield from _same_documents(views)
    yield from _best_last(views)


def _same_answer(views: Sequence[AnswerView]) -> Iterator[RunFinding]:
    attempted = [view for view in views if view.attempted]
    hit = _most_common(attempted, lambda view: normalize(view.text))
    if _is_many(hit, attempted):
        yield "same answer", "are the same text", "answers", attempted, hit


def _same_sentence(views: Sequence[AnswerView]) -> Iterator[RunFinding]:
    attempted = [view for view in views if view.attempted]
    counts = Counter(each for view in attempted for each in _long_sentences(view))
    if not counts:
        return
    sentence, _ = counts.most_common(1)[0]
    hit = [view for view in attempted if sentence in _long_sentences(view)]
    if _is_many(hit, attempted):
        yield "same sentence", "have a sentence in common", "answers", attempted, hit


def _long_sentences(view: AnswerView) -> set[str]:
    return {normalize(each) for each in view.sentences if len(words(each)) >= _SENTENCE_WORDS}


def _other_questions(
    views: Sequence[AnswerView], references: Iterable[ReferenceAnswer]
) -> Iterator[RunFinding]:
    """Answers that say what the reference of another question says, and not that of their own."""
    covered = [view for view in views if view.attempted and len(view.reference_stems) >= 3]
    expected_of = {view.case.query_id: view.reference_stems for view in covered}
    for reference in islice(references, _MOST_REFERENCES):
        if len(found := frozenset(stems(reference.answer or ""))) >= 3:
            expected_of.setdefault(reference.query_id, found)

    def answers_another(view: AnswerView) -> bool:
        said = frozenset(stems(view.text))
        if _overlap(said, view.reference_stems) > _MINE:
            return False
        return any(
            _overlap(said, expected) >= _THEIRS
            for query_id, expected in expected_of.items()
            if query_id != view.case.query_id
        )

    hit = [view for view in covered if answers_another(view)]
    if len(hit) >= max(_FEWEST, 0.1 * len(covered)):
        yield "answers other questions", "answer another question", "answers", covered, hit


def _overlap(said: frozenset[str], expected: frozenset[str]) -> float:
    return len(said & expected) / len(expected)


def _same_documents(views: Sequence[AnswerView]) -> Iterator[RunFinding]:
    covered = [view for view in views if view.case.seen_ids]
    hit = _most_common(covered, lambda view: view.case.seen_ids)
    if _is_many(hit, covered):
        yield "same documents", "got the same documents", "questions", covered, hit


def _best_last(views: Sequence[AnswerView]) -> Iterator[RunFinding]:
    """Rankings whose one needed document is at the end more often than at the beginning."""
    covered = [
        view
        for view in views
        if len(view.case.retrieved) >= 3 and len(view.case.needed & set(view.case.retrieved)) == 1
    ]
    last = [view for view in covered if view.case.retrieved[-1] in view.case.needed]
    first = [view for view in covered if view.case.retrieved[0] in view.case.needed]
    if _is_many(last, covered) and len(last) > 2 * len(first):
        words = "have the document that is needed in the last place: is the ranking reversed?"
        yield "best last", words, "rankings", covered, last


def _most_common(
    views: Sequence[AnswerView], key: Callable[[AnswerView], Hashable]
) -> list[AnswerView]:
    counts = Counter(map(key, views))
    if not counts:
        return []
    value, _ = counts.most_common(1)[0]
    return [view for view in views if key(view) == value]


def _is_many(hit: Sequence[AnswerView], of: Sequence[AnswerView]) -> bool:
    return len(hit) >= max(_FEWEST, _SHARE * len(of))
