"""Sanity checks of a finished run: figures that are computed correctly and still mislead.

Ids with a prefix, lists that are cut short, or answers to another query: the metrics cannot tell
these from a bad agent. What is found is in `warnings` of the report.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from assay.net.redact import redact_secrets
from assay.report.numbers import counted

if TYPE_CHECKING:
    from assay.data.dataset import Judgments
    from assay.run.calls import Call
    from assay.run.models import QueryRow, Report

_MIN_ANSWERS = 5
_MIN_SWAPPED = 10
_MAX_NEIGHBORS = 8


class _Answer(NamedTuple):
    """What is kept of a row: there may be very many."""

    query_id: str
    first: str
    relevant: bool  # whether one of its documents is relevant to the query


class SanityChecks:
    """Collects the rows of a run as they are written: `add` each, then ask for `warnings`."""

    def __init__(self, judgments: "Judgments") -> None:
        self._judgments = judgments
        self._answers: list[_Answer] = []
        self._lengths: Counter[int] = Counter()
        self._lists: set[int] = set()
        self._orders: Counter[str] = Counter()  # of the scores
        self._ends = 0  # relevant last documents, less relevant first ones, of rising scores
        self._expected = {doc_id for grades in judgments.values() for doc_id in grades}
        self._folded = {doc_id.casefold(): doc_id for doc_id in self._expected}
        self._misspelled: dict[str, str] = {}

    def add(self, row: "QueryRow", call: "Call | None") -> None:
        """Take one query into account."""
        if row.status != "ok" or call is None:
            return
        docs, grades = row.retrieved_docs, self._judgments.get(row.query_id, {})
        found = [grades.get(doc_id, 0) > 0 for doc_id in docs]
        for doc_id in docs:
            if doc_id not in self._expected and (expected := self._folded.get(doc_id.casefold())):
                self._misspelled[doc_id] = expected
        self._answers.append(_Answer(row.query_id, docs[0] if docs else "", any(found)))
        self._lengths[len(docs)] += 1
        self._lists.add(hash(tuple(docs)))
        if len(call.scores) == len(docs) and len(set(call.scores)) > 1:
            steps = [b - a for a, b in pairwise(call.scores)]
            rises, falls = max(steps) > 0, min(steps) < 0
            self._orders["mixed" if rises and falls else "rising" if rises else "falling"] += 1
            self._ends += found[-1] - found[0] if rises and not falls else 0

    def warnings(self, report: "Report") -> list[str]:
        """Warnings for readers of the figures, one sentence each."""
        if not self._answers:
            return []
        found = [self._check_ids(report), *self._check_lists(report), self._check_swapped(report)]
        return [*filter(None, [*found, self._check_spelling(report)])]

    def _check_ids(self, report: "Report") -> str:
        """A score of 0 because no id was read, or because all ids belong to another data set."""
        unknown, name = report.violations["unknown"], report.dataset.name
        data = shlex.quote(report.config.dataset or name)
        look = f"look at one answer with: assay doctor TARGET --dataset {data}"
        if not (total := sum(length * times for length, times in self._lengths.items())):
            return (
                f"no answer holds a document id, so every score is 0; {look}, and map ids with "
                "--map (in Python, mapping)"
            )
        example = next((each.doc_id for each in unknown.examples), "")
        if (safe := redact_secrets(example)) != example.strip():  # blanks may be what is wrong
            example = safe
        shown = f", such as {example[:60]!r}" if example else ""
        if unknown.ids and unknown.ids + report.violations["duplicate"].ids >= total:
            why = unknown.hint or "do they have a prefix, or is this the wrong data set?"
            return (
                f"all returned ids are unknown to {name!r}{shown}, so every score is 0: {why}; "
                f"{look}"
            )
        if not report.dataset.documents and not report.metrics[f"judged@{report.config.top_k}"]:
            return f"no returned id is one that {name!r} expects, so every score is 0; {look}"
        if unknown.hint:
            many = counted(unknown.ids, "returned id")
            return f"{many}, unknown to {name!r}{shown}, scored nothing: {unknown.hint}"
        if unknown.queries and unknown.queries == report.summary.successful_queries:
            return (
                f"every answer holds ids that {name!r} does not have: is this the right data set?"
            )
        return ""

    def _check_spelling(self, report: "Report") -> str:
        """Ids that a data set without documents expects in another case: they score nothing."""
        if report.dataset.documents or not self._misspelled:
            return ""
        example, expected = min(self._misspelled.items())
        return (
            f"{counted(len(self._misspelled), 'returned id')} scored nothing because of upper and "
            f"lower case: {example[:60]!r} is expected as {expected[:60]!r}; write the ids of "
            f"{report.dataset.name!r} as the target has them"
        )

    def _check_lists(self, report: "Report") -> Iterator[str]:
        """Lists that are all cut short or all the same, or that contradict their scores."""
        if len(self._answers) < _MIN_ANSWERS:
            return
        top_k, documents = report.config.top_k, report.dataset.documents
        length = max(self._lengths)
        if len(self._lengths) == 1 and 0 < length < min(top_k, documents or top_k):
            yield (
                f"every answer has exactly {counted(length, 'document')}, top_k is {top_k}: is the "
                "number of results passed on, or does the target limit it?"
            )
        if len(self._lists) == 1 and length and (not documents or documents > length):
            yield (
                f"all {len(self._answers):,} answers are the same list of documents: is the query "
                "passed on, or is an answer kept for every query?"
            )
        scored, mixed = self._orders.total(), self._orders["mixed"]
        rising = self._orders["rising"]
        if scored < _MIN_ANSWERS:
            return
        if 2 * mixed > scored:
            yield (
                f"the scores of {mixed:,} of {scored:,} answers contradict the order of their "
                "documents: sort the results by score, the best first"
            )
        # Distances rise too; then the first documents are the relevant ones.
        if 2 * rising > scored and self._ends > 0:
            yield (
                f"the scores of {rising:,} of {scored:,} answers rise, and the last document is "
                "relevant more often than the first: is the list upside down?"
            )

    def _check_swapped(self, report: "Report") -> str:
        """Answers with nothing for their own query, whose first document belongs to a neighbor.

        Documents may be relevant to many queries: so those that were asked at about the same time
        are compared with as many that were not.
        """
        concurrency, answers = report.config.concurrency, self._answers
        reach = min(concurrency, _MAX_NEIGHBORS)
        if len(answers) < 4 * reach + 2:
            return ""
        nothing: Mapping[str, int] = {}
        grades = [self._judgments.get(each.query_id, nothing) for each in answers]

        def belongs(at: int, distance: int) -> bool:
            steps = (step for step in range(-reach, reach + 1) if distance or step)
            relevant = (grades[(at + distance + step) % len(grades)] for step in steps)
            return any(of.get(answers[at].first, 0) > 0 for of in relevant)

        strangers = [at for at, each in enumerate(answers) if not each.relevant]
        near = sum(belongs(at, 0) for at in strangers)
        far = sum(belongs(at, len(answers) // 2) for at in strangers)
        if near < max(_MIN_SWAPPED, 4 * far, 0.1 * len(answers)):
            return ""
        remedy = "concurrent responses (try --concurrency 1)" if concurrency > 1 else "responses"
        return (
            f"{near:,} of {len(answers):,} answers match a neighboring query and not their own; "
            f"the target may swap {remedy}"
        )
