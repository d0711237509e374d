"""Findings: what is wrong with the answers of a run, also with right ones, each with its counts.

`finding_checks` has the table of checks of single answers; those over all answers together are
here. A check becomes a finding where it holds for at least two answers, and for the share of
them that the check asks for.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from assay.data.dataset import ReferenceAnswer
from assay.measure.answers.answer_view import AnswerCheck, AnswerView
from assay.measure.answers.finding_checks import ANSWER_CHECKS
from assay.text import normalize, stems, words

_EXAMPLES = 5
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class AnswerFinding:
    """One thing that is wrong: `kind` for programs, `words` for people."""

    kind: str
    number: int
    of: int
    words: str
    query_ids: tuple[str, ...] = ()


def find_faults(
    views: Sequence[AnswerView], references: Iterable[ReferenceAnswer] = ()
) -> list[AnswerFinding]:
    """All findings about the answers of a run, the most common first.

    `references` are those of the whole data set: an answer may be to a question that was not asked.
    """
    found = [finding for check in ANSWER_CHECKS if (finding := _check(check, views))]
    for kind, phrase, what, covered, hit in compare_answers(views, references):
        found.append(_finding(kind, phrase, what, covered, hit))
    order = {kind: place for place, kind in enumerate(FINDING_KINDS)}
    found.sort(key=lambda each: (-round(_at_least(each.number, each.of), 1), order[each.kind]))
    return [each for each in found if not _is_explained(each, found)]


def _at_least(number: int, of: int) -> float:
    """The lower end of Wilson's interval (1927): 2 of 2 weigh less than 30 of 50."""
    share, spread = number / of, 1.96**2 / of
    half = 1.96 * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return (share + spread / 2 - half) / (1 + spread)


def _is_explained(finding: AnswerFinding, found: Sequence[AnswerFinding]) -> bool:
    """Whether a more telling finding is about the same answers."""
    reasons = _EXPLAINED_BY.get(finding.kind, ())
    return any(each.kind in reasons and 2 * each.number > finding.number for each in found)


def _check(check: AnswerCheck, views: Sequence[AnswerView]) -> AnswerFinding | None:
    covered = [view for view in views if check.covers(view)]
    hit = [view for view in covered if check.holds(view)]
    if len(hit) < max(check.fewest, check.share * len(covered)):
        return None
    return _finding(check.kind, check.words, check.what, covered, hit)


def _finding(
    kind: str, phrase: str, what: str, covered: Sequence[AnswerView], hit: Sequence[AnswerView]
) -> AnswerFinding:
    ids = tuple(view.case.query_id for view in hit[:_EXAMPLES])
    number, of = len(hit), len(covered)
    return AnswerFinding(kind, number, of, f"{number} of {of} {what} {phrase}", ids)


FINDING_KINDS = (
    "follows planted documents",
    "repeats planted documents",
    "same answer",
    "answers other questions",
    *(check.kind for check in ANSWER_CHECKS),
    "same sentence",
    "same documents",
    "best last",
)
"""Every kind, the most telling first."""

_EXPLAINED_BY = {
    "unfaithful": (
        *("ignores its context", "other language", "repeats instructions", "stale text"),
        *("answers other questions", "same answer", "nothing shown", "padded", "foreign numbers"),
        *("raw format", "denies", "unfilled template", "broken characters", "foreign items"),
        "answers and declines",
    ),
    "ignores its context": (
        *("unfilled template", "broken characters"),
        *("other language", "answers other questions", "same answer", "nothing shown"),
        *("stale text", "answers from memory"),
    ),
    "foreign numbers": (
        *("ignores its context", "answers other questions", "same answer", "nothing shown"),
        *("stale text", "raw format"),
    ),
    "foreign names": (
        *("ignores its context", "answers other questions", "same answer", "nothing shown"),
        *("other language", "stale text", "repeats instructions", "broken characters"),
        *("unfilled template", "foreign items"),
    ),
    "breaks off": ("broken characters", "unfilled template"),
    "repeats the question": ("breaks off",),
    "declines wrongly": ("empty answer", "answers and declines"),
    "wrong part": ("nothing shown",),
    "foreign items": (
        *("other language", "answers other questions", "same answer", "padded", "hedges"),
        *("ignores its context", "nothing shown", "repeats instructions", "raw format", "denies"),
        *("unfilled template", "broken characters", "answers from memory", "stale text"),
    ),
    "answers from memory": ("nothing shown",),
    "repeats instructions": ("same answer", "follows documents"),
    "same sentence": (
        *("same answer", "padded", "repeats instructions", "follows documents", "denies"),
        "unfaithful",
    ),
    "cites nothing": ("nothing shown",),
    "cites wrong documents": (
        *("cites unknown documents", "same answer", "answers from memory"),
        "answers other questions",
    ),
    "cites unretrieved documents": ("answers other questions",),
    "same documents": ("nothing shown", "unknown documents"),
    "denies": ("other language",),
    **dict.fromkeys(
        ("contradicts its citations", "contradicts its context"),
        (
            *("stale text", "other language", "raw format", "answers other questions"),
            *("broken characters", "hedges", "repeats the question"),
        ),
    ),
    "incomplete": (
        *("breaks off", "hedges", "denies", "foreign numbers", "foreign names", "other language"),
        *("stale text", "wrong part", "answers other questions", "same answer"),
    ),
    "something else": (
        *("breaks off", "hedges", "denies", "foreign numbers", "foreign names", "other language"),
        *("stale text", "wrong part", "answers other questions", "same answer", "incomplete"),
        *("repeats the question", "raw format", "ignores its context", "same documents", "padded"),
        *("contradicts its citations", "contradicts its context", "empty answer"),
        *("unfilled template", "broken characters", "drops units"),
    ),
}
"""What says the same in a more telling way, where it is about most of the same answers."""


_FEWEST_IN_RUN = 3
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
    if len(hit) >= max(_FEWEST_IN_RUN, 0.1 * len(covered)):
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
    return len(hit) >= max(_FEWEST_IN_RUN, _SHARE * len(of))
