"""Findings: what is wrong with the answers of a run, also with right ones, each with its counts.

`finding_checks` has the table of checks of single answers, `run_findings` those over all answers
together. A check becomes a finding where it holds for at least two answers, and for the share of
them that the check asks for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.data.dataset import ReferenceAnswer
from assay.measure.answers.answer_view import AnswerCheck, AnswerView
from assay.measure.answers.finding_checks import ANSWER_CHECKS
from assay.measure.answers.run_findings import compare_answers

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
    found.sort(key=lambda each: (-round(each.number / each.of, 1), order[each.kind]))
    return [each for each in found if not _is_explained(each, found)]


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
    "declines wrongly": ("empty answer",),
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
    "cites wrong documents": ("cites unknown documents", "same answer", "answers from memory"),
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
        *("unfilled template", "broken characters"),
    ),
}
"""What says the same in a more telling way, where it is about most of the same answers."""
