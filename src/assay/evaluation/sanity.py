"""Sanity checks of a finished run: figures that are computed correctly and still mislead.

A score of 0 because ids have a prefix, a recall that ends where the agent cuts its list, answers
that belong to another query: the metrics cannot tell these from a bad agent. What is found is in
`warnings` of the report, from every driver.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from assay.net.redact import redact_secrets
from assay.report.numbers import counted, figure

if TYPE_CHECKING:
    from assay.data.dataset import Judgments
    from assay.run.calls import Call
    from assay.run.models import QueryRow, Report

_MIN_ANSWERS = 5
_MIN_SWAPPED = 10
_MAX_NEIGHBORS = 8
_MIN_TREND_ANSWERS = 40
_MIN_TREND = 0.2


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is kept of a row: there may be very many."""

    query_id: str
    first: str
    count: int
    docs: int
    at: float
    score: float
    relevant: bool  # whether one of its documents is relevant to the query
    order: str  # of its scores: "" without any, else falling, rising or mixed
    first_relevant: bool
    last_relevant: bool


class SanityChecks:
    """Collects the rows of a run as they are written: `add` each, then ask for `warnings`."""

    def __init__(self, judgments: "Judgments", metric: str) -> None:
        self._judgments = judgments
        self._metric = metric
        self._answers: list[_Answer] = []
        self._expected = {doc_id for grades in judgments.values() for doc_id in grades}
        self._folded = {doc_id.casefold(): doc_id for doc_id in self._expected}
        self._misspelled: dict[str, str] = {}

    def add(self, row: "QueryRow", call: "Call | None") -> None:
        """Take one query into account; `metric` is the key of the headline in its scores."""
        if row.status != "ok" or call is None:
            return
        docs, grades = row.retrieved_docs, self._judgments.get(row.query_id, {})
        found = [grades.get(doc_id, 0) > 0 for doc_id in docs]
        for doc_id in docs:
            if doc_id not in self._expected and (expected := self._folded.get(doc_id.casefold())):
                self._misspelled[doc_id] = expected
        self._answers.append(
            _Answer(
                query_id=row.query_id,
                first=docs[0] if docs else "",
                count=len(docs),
                docs=hash(tuple(docs)),
                at=row.at,
                score=row.scores[self._metric],
                relevant=any(found),
                order=_order(call.scores) if len(call.scores) == len(docs) else "",
                first_relevant=bool(found and found[0]),
                last_relevant=bool(found and found[-1]),
            )
        )

    def warnings(self, report: "Report") -> list[str]:
        """Warnings for readers of the figures, one sentence each."""
        if not self._answers:
            return []
        checks = (
            _check_ids,
            _check_count,
            _check_loading,
            _check_one_answer,
            _check_scores,
            _check_trend,
        )
        found = [check(report, self._answers) for check in checks]
        found.append(_check_swapped(report, self._answers, self._judgments))
        if not report.dataset.documents:
            found.append(_check_spelling(report, self._misspelled))
        return [*filter(None, found)]


def _order(scores: Sequence[float]) -> str:
    if len(scores) < 2 or min(scores) == max(scores):
        return ""
    falling = all(a >= b for a, b in pairwise(scores))
    rising = all(a <= b for a, b in pairwise(scores))
    return "falling" if falling else "rising" if rising else "mixed"


def _check_ids(report: "Report", answers: Sequence[_Answer]) -> str:
    """A score of 0 because no id was read, or because all ids belong to another data set."""
    unknown = report.violations["unknown"]
    name = report.dataset.name
    data = shlex.quote(report.config.dataset or name)
    look = f"look at one answer with: assay doctor TARGET --dataset {data}"
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


def _check_spelling(report: "Report", misspelled: Mapping[str, str]) -> str:
    """Ids that a data set without documents expects in another case: they score nothing."""
    if not misspelled:
        return ""
    example, expected = min(misspelled.items())
    return (
        f"{counted(len(misspelled), 'returned id')} scored nothing because of upper and lower "
        f"case: {example[:60]!r} is expected as {expected[:60]!r}; write the ids of "
        f"{report.dataset.name!r} as the target has them"
    )


def _check_count(report: "Report", answers: Sequence[_Answer]) -> str:
    """Always the same number of documents, and fewer than `top_k`: the number was not passed on."""
    top_k, count = report.config.top_k, answers[0].count
    possible = min(top_k, report.dataset.documents or top_k)
    same = all(each.count == count for each in answers)
    if len(answers) < _MIN_ANSWERS or not same or not 0 < count < possible:
        return ""
    return (
        f"every answer has exactly {count} document{'' if count == 1 else 's'}, top_k is "
        f"{top_k}: is the number of results passed on, or does the target limit it?"
    )


def _check_loading(_report: "Report", answers: Sequence[_Answer]) -> str:
    """Nothing from the first or the last answers and something from nearly all others."""
    # By time; those of the same moment stay in the order of the queries.
    empty = [not each.count for each in sorted(answers, key=lambda each: each.at)]
    for order, which, question in (
        (empty, "first", "was the target still loading"),
        (empty[::-1], "last", "did its session or its index end"),
    ):
        number = order.index(False) if False in order else 0
        others = order[number:]
        if number >= _MIN_ANSWERS <= len(others) and sum(others) <= 0.1 * len(others):
            where = "after" if which == "first" else "before"
            return (
                f"the {which} {number} answers were empty and {len(others) - sum(others)} of the "
                f"{len(others)} {where} them were not: {question}? Measure it again"
            )
    return ""


def _check_one_answer(report: "Report", answers: Sequence[_Answer]) -> str:
    """The same documents whatever is asked: the query did not reach the search."""
    first = answers[0]
    same = all(each.docs == first.docs for each in answers)
    documents = report.dataset.documents
    choice = not documents or documents > first.count
    if len(answers) < _MIN_ANSWERS or not first.count or not same or not choice:
        return ""
    return (
        f"all {len(answers):,} answers are the same list of documents: is the query passed on, or "
        "is an answer kept for every query?"
    )


def _check_scores(_report: "Report", answers: Sequence[_Answer]) -> str:
    """Scores that rise or are mixed: the list may be upside down, or not sorted."""
    scored = [each for each in answers if each.order]
    mixed = sum(each.order == "mixed" for each in scored)
    rising = [each for each in scored if each.order == "rising"]
    if len(scored) < _MIN_ANSWERS:
        return ""
    if 2 * mixed > len(scored):
        return (
            f"the scores of {mixed:,} of {len(scored):,} answers contradict the order of their "
            "documents: sort the results by score, the best first"
        )
    # Distances rise too; then the first documents are the relevant ones.
    upside_down = sum(each.last_relevant for each in rising) > sum(
        each.first_relevant for each in rising
    )
    if 2 * len(rising) > len(scored) and upside_down:
        return (
            f"the scores of {len(rising):,} of {len(scored):,} answers rise, and the last document "
            "is relevant more often than the first: is the list upside down?"
        )
    return ""


def _check_trend(report: "Report", answers: Sequence[_Answer]) -> str:
    """A second half that is far better than the first: the target learns, or caches."""
    if len(answers) < _MIN_TREND_ANSWERS:
        return ""
    scores = np.array([each.score for each in sorted(answers, key=lambda each: each.at)])
    first, second = np.array_split(scores, 2)
    gain = float(second.mean() - first.mean())
    error = float(np.sqrt(first.var() / first.size + second.var() / second.size))
    if gain < max(_MIN_TREND, 4 * error):  # of ordinary runs, one in 30,000 reaches four errors
        return ""
    metric, _ = report.headline
    return (
        f"{metric} is {figure(float(first.mean()))} in the first half of the run and "
        f"{figure(float(second.mean()))} in the second: does the target learn from earlier queries?"
    )


def _check_swapped(report: "Report", answers: Sequence[_Answer], judgments: "Judgments") -> str:
    """Answers with nothing for their own query, whose first document belongs to a neighbor.

    Documents may be relevant to many queries: so those that were asked at about the same time are
    compared with as many that were not.
    """
    concurrency = report.config.concurrency
    reach = min(concurrency, _MAX_NEIGHBORS)
    if len(answers) < 4 * reach + 2:
        return ""
    nothing: Mapping[str, int] = {}
    grades = [judgments.get(each.query_id, nothing) for each in answers]

    def belongs(at: int, distance: int) -> bool:
        places = [at + distance + step for step in range(-reach, reach + 1) if distance or step]
        relevant = (grades[place % len(grades)] for place in places)
        return any(of.get(answers[at].first, 0) > 0 for of in relevant)

    strangers = [at for at, each in enumerate(answers) if not each.relevant]
    near = sum(belongs(at, 0) for at in strangers)
    far = sum(belongs(at, len(answers) // 2) for at in strangers)
    if near < max(_MIN_SWAPPED, 4 * far, 0.1 * len(answers)):
        return ""
    remedy = "concurrent responses (try --concurrency 1)" if concurrency > 1 else "responses"
    return (
        f"{near:,} of {len(answers):,} answers match a neighboring query and not their own; the "
        f"target may swap {remedy}"
    )
