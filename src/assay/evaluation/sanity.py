"""Sanity checks of a finished run: figures that are computed correctly and still mislead.

A score of 0 because ids have a prefix, a recall that ends where the agent cuts its list, answers
that belong to another query: the metrics cannot tell these from a bad agent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.net.redact import redact_secrets
from assay.report.numbers import counted

if TYPE_CHECKING:
    from assay.data.dataset import Judgments
    from assay.evaluation.run import Run

_ENOUGH_ANSWERS = 5
_ENOUGH_ELSEWHERE = 10
_NEIGHBORS = 8


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is kept of a row, of which there may be very many."""

    query_id: str
    first: str
    count: int
    docs: int
    at: float
    relevant: bool
    """Whether one of its documents is relevant to the query."""


def sanity_warnings(run: "Run", judgments: "Judgments") -> list[str]:
    """What somebody who reads the figures of the run has to know, each in one sentence.

    `judgments` are those that the run was scored with.
    """
    nothing: Mapping[str, int] = {}
    answers = [
        _Answer(
            row.query_id,
            docs[0] if docs else "",
            len(docs),
            hash(tuple(docs)),
            row.at,
            any(grades.get(doc_id, 0) > 0 for doc_id in docs),
        )
        for row in run.rows()
        if row.status == "ok"
        for docs, grades in ((row.retrieved_docs, judgments.get(row.query_id, nothing)),)
    ]
    if not answers:
        return []
    wrong = _about_ids(run, answers)
    checks = (_about_count, _about_loading, _about_end, _about_one_answer)
    found = [wrong, *(check(run, answers) for check in checks)]
    found += [_about_order(run, answers, judgments), _about_spelling(run, judgments)]
    return [*filter(None, found)]


def _about_ids(run: "Run", answers: Sequence[_Answer]) -> str:
    """A score of 0 because nothing was read, or because the ids are others, is no finding."""
    report = run.report
    unknown = report.violations["unknown"]
    name = report.dataset.name
    look = f"look at one answer with: assay doctor TARGET --dataset {name}"
    total = sum(each.count for each in answers)
    if not total:
        return (
            f"no answer holds a document id, so every score is 0; {look}, and map ids with --map "
            "(in Python, mapping)"
        )
    example = next((each.doc_id for each in unknown.examples), "")
    if (safe := redact_secrets(example)) != example.strip():  # spaces are what may be wrong with it
        example = safe
    shown = f", such as {example[:60]!r}" if example else ""
    if unknown.ids and unknown.ids + report.violations["duplicate"].ids >= total:
        why = unknown.hint or "do they have a prefix, or is this the wrong data set?"
        return (
            f"all returned ids are unknown to {name!r}{shown}, so every score is 0: {why}; {look}"
        )
    if not report.dataset.documents and not report.metrics[f"judged@{report.config.top_k}"]:
        return f"no returned id is one that {name!r} expects, so every score is 0; {look}"
    if unknown.hint:
        many = counted(unknown.ids, "returned id")
        return f"{many}, unknown to {name!r}{shown}, scored nothing: {unknown.hint}"
    if unknown.queries and unknown.queries == report.summary.successful_queries:
        return f"every answer holds ids that {name!r} does not have: is this the right data set?"
    return ""


def _about_spelling(run: "Run", judgments: "Judgments") -> str:
    """Ids that a data set without documents expects in another case: they score nothing."""
    if run.report.dataset.documents:
        return ""
    expected = {doc_id for grades in judgments.values() for doc_id in grades}
    folded = {doc_id.casefold(): doc_id for doc_id in expected}
    returned = {doc_id for row in run.rows() for doc_id in row.retrieved_docs} - expected
    found = sorted(each for each in returned if each.casefold() in folded)
    if not found:
        return ""
    return (
        f"{counted(len(found), 'returned id')} scored nothing because of upper and lower case: "
        f"{found[0][:60]!r} is expected as {folded[found[0].casefold()][:60]!r}; write the ids "
        f"of {run.report.dataset.name!r} as the target has them"
    )


def _about_count(run: "Run", answers: Sequence[_Answer]) -> str:
    """Always the same number of documents, and fewer than `top_k`: the number was not passed on."""
    top_k, count = run.report.config.top_k, answers[0].count
    possible = min(top_k, run.report.dataset.documents or top_k)
    same = all(each.count == count for each in answers)
    if len(answers) < _ENOUGH_ANSWERS or not same or not 0 < count < possible:
        return ""
    return (
        f"every answer has exactly {count} document{'' if count == 1 else 's'}, top_k is "
        f"{top_k}: is the number of results passed on, or does the target limit it?"
    )


def _about_loading(_run: "Run", answers: Sequence[_Answer]) -> str:
    """Nothing from the first answers and something from nearly all later ones: it was loading."""
    empty = _empty_in_order(answers)
    if not (early := _all_at_first(empty)):
        return ""
    later = empty[early:]
    return (
        f"the first {early} answers were empty and {len(later) - sum(later)} of the "
        f"{len(later)} after them were not: was the target still loading? Measure it again"
    )


def _about_end(_run: "Run", answers: Sequence[_Answer]) -> str:
    """The other way round: a session that ended, of which the target says nothing."""
    empty = _empty_in_order(answers)
    if not (late := _all_at_first(empty[::-1])):
        return ""
    before = len(empty) - late
    return (
        f"the last {late} answers were empty and {before - sum(empty[:before])} of the {before} "
        "before them were not: did its session or its index end? Measure it again"
    )


def _empty_in_order(answers: Sequence[_Answer]) -> list[bool]:
    """By time; those of the same moment stay in the order of the queries."""
    return [not each.count for each in sorted(answers, key=lambda each: each.at)]


def _all_at_first(empty: Sequence[bool]) -> int:
    """How many are empty at the beginning, where nearly none is empty after it; else 0."""
    first = empty.index(False) if False in empty else 0
    rest = empty[first:]
    found = first >= _ENOUGH_ANSWERS <= len(rest) and sum(rest) <= 0.1 * len(rest)
    return first if found else 0


def _about_one_answer(run: "Run", answers: Sequence[_Answer]) -> str:
    """The same documents whatever is asked: the query did not reach the search."""
    first = answers[0]
    same = all(each.docs == first.docs for each in answers)
    documents = run.report.dataset.documents
    choice = not documents or documents > first.count
    if len(answers) < _ENOUGH_ANSWERS or not first.count or not same or not choice:
        return ""
    return (
        f"all {len(answers):,} answers are the same list of documents: is the query passed on, or "
        "is an answer kept for every query?"
    )


def _about_order(run: "Run", answers: Sequence[_Answer], judgments: "Judgments") -> str:
    """First documents that are relevant to a query asked at about the same time, and answers that
    hold nothing for their own.

    Documents may be relevant to many queries: so those that were asked at about the same time are
    compared with as many that were not.
    """
    concurrency = run.report.config.concurrency
    reach = min(concurrency, _NEIGHBORS)
    own = sum(each.relevant for each in answers)
    if len(answers) < max(4 * reach + 2, 4 * own):
        return ""
    nothing: Mapping[str, int] = {}
    grades = [judgments.get(each.query_id, nothing) for each in answers]

    def found(at: int, distance: int) -> bool:
        places = [at + distance + step for step in range(-reach, reach + 1) if distance or step]
        relevant = (grades[place % len(grades)] for place in places)
        return any(of.get(answers[at].first, 0) > 0 for of in relevant)

    places = range(len(answers))
    near = sum(found(at, 0) for at in places)
    if near < max(_ENOUGH_ELSEWHERE, 4 * own):
        return ""
    if near < 4 * sum(found(at, len(answers) // 2) for at in places):
        return ""
    why = "answers to concurrent queries? Compare with a concurrency of 1"
    return (
        f"the first document of {near:,} answers is relevant to another query that was asked at "
        f"about the same time, and only {own:,} answers hold a document for their own: does the "
        f"target mix up {why if concurrency > 1 else 'one query with the next?'}"
    )
