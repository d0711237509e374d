"""From the recorded searches of a run to what they were worth.

rows = await measure_searches(calls, tool=recorder.tool)  # replays some searches on the tool
report = summarize_searches(calls, rows)                  # needs nothing but the run
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from assay.data.dataset import Dataset, Query
from assay.data.text_file import archive_files, json_lines, plain_file
from assay.data.traces import read_spans, span_rows, trace_steps
from assay.errors import AgentFailure, DataError
from assay.evaluation.plan import judgments_of, metrics_for
from assay.metrics.metric import nDCG
from assay.metrics.scoring import Scores, score_rankings
from assay.metrics.searches import SEARCH_FIGURES, Groups, Trajectory, best_order, found_share
from assay.metrics.statistics import summarize
from assay.run.calls import Call
from assay.run.config import RunConfig
from assay.run.models import (
    AnswerQuadrants,
    Blame,
    BlameCount,
    CurvePoint,
    SearchFigure,
    SearchReport,
    SearchRow,
    Spread,
)
from assay.targets.protocol import Agent
from assay.text import normalize

Ids = tuple[str, ...]

EVIDENCE_FILE = "evidence.jsonl"
# Missing documents that are looked for on the tool; a sample of them if there are more.
MAX_BLAMED = 300
_MAX_DEPTH = 100  # the most that built-in retrievers return
_TITLE_DEPTH = 10
_CURVE_CALLS = 20
_TOKEN_BUDGETS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
_UNBOUNDED = {"calls", "loop_gain"}


def read_evidence(place: Path, dataset: Dataset) -> dict[str, Groups]:
    """The lines of `evidence.jsonl` in the folder or zip file of a data set, if there is one.

    Raises `DataError` for a line that is not `{"query_id", "groups": [["d1", "d9"], ["d4"]]}`, or
    that names what the data set does not have: its question could never be complete.
    """
    packed = archive_files(place) if place.suffix == ".zip" and place.is_file() else {}
    named = [file for name, file in packed.items() if PurePosixPath(name).name == EVIDENCE_FILE]
    if (path := place / EVIDENCE_FILE).is_file():
        named = [plain_file(path)]
    found: dict[str, Groups] = {}
    for line in chain.from_iterable(map(json_lines, named[:1])):
        if isinstance(line, DataError):
            raise line
        query_id, groups = line.identifier("query_id"), line.find("groups")
        lists: list[Any] = [groups, *groups] if isinstance(groups, list) else [groups]
        if not all(isinstance(each, list) and each for each in lists):
            line.fail('is not evidence, such as {"query_id": "q1", "groups": [["d1"], ["d4"]]}')
        found[query_id] = [frozenset(map(str, group)) for group in lists[1:]]
        unknown = {query_id} - dataset.queries.keys()
        if dataset.corpus_ids is not None:
            unknown |= frozenset().union(*found[query_id]) - set(dataset.corpus_ids)
        if unknown:
            line.fail(f"names {min(unknown)!r}, which {dataset.name!r} does not have")
    return found


# Looks up the calls of queries, in a run's log or in traces; None where one was not asked.
ReadCalls = Callable[[Iterable[Query]], Iterable[Call | None]]


@dataclass(frozen=True)
class SearchedCalls:
    """The calls of a run with their searches, beside what should have been found."""

    config: RunConfig
    dataset: Dataset
    queries: Sequence[Query]
    read_calls: ReadCalls

    @cached_property
    def evidence(self) -> Mapping[str, Groups]:
        """The groups of each question: those of `evidence.jsonl`, else its relevant documents."""
        judgments = self.dataset.judgments_in(self.config.split)
        given = read_evidence(Path(self.config.dataset), self.dataset)
        found = {}
        for query in self.queries:
            grades = judgments.get(query.id, {})
            relevant = [{doc_id} for doc_id, grade in grades.items() if grade > 0]
            if groups := given.get(query.id, relevant):
                found[query.id] = groups
        return found

    @cached_property
    def asked(self) -> list[Query]:
        """The questions that have evidence."""
        return [query for query in self.queries if query.id in self.evidence]

    def calls_of(self, trial: int) -> list[Call]:
        """The calls of one trial; a question that was not asked has one without anything."""
        asked = [replace(query, trial=trial) for query in self.asked]
        calls = zip(asked, self.read_calls(asked), strict=True)
        return [call or Call(query.id, (), 0.0, 0, trial=trial) for query, call in calls]

    def trajectory(self, call: Call) -> Trajectory:
        """The searches of a call, and what the agent returned."""
        return Trajectory(
            shown=[step.doc_ids for step in call.steps],
            returned=call.doc_ids[: self.config.top_k],
            evidence=self.evidence[call.query_id],
            cited=call.citations,
            tokens=[step.tokens for step in call.steps],
        )

    def losses(self, calls: Sequence[Call]) -> dict[str, tuple[float, float]]:
        """Search loss and selection loss of each question: together they are 1 - nDCG."""
        metric, top_k, known = nDCG @ self.config.top_k, self.config.top_k, self.dataset.corpus_ids
        judgments = judgments_of(self.dataset, self.config, self.asked)
        score = partial(score_rankings, metrics=[metric], known=known, top_k=top_k)
        own = score({call.query_id: call.doc_ids for call in calls}, judgments).by_query(metric)
        best = {}
        for call in calls:
            # What is returned without having been shown counts as seen: no loss is negative.
            seen = [*self.trajectory(call).seen, *call.doc_ids[:top_k]]
            best[call.query_id] = best_order(seen, judgments.get(call.query_id, {}))
        reachable = score(best, judgments).by_query(metric)
        return {id: (1 - reachable[id], reachable[id] - own[id]) for id in own}


class _Replay:
    """Searches on the tool, each once; one that fails is None, and says nothing."""

    def __init__(self, tool: Agent, config: RunConfig) -> None:
        self._tool, self._timeout = tool, config.timeout
        self._free = asyncio.Semaphore(config.concurrency)
        self._known: dict[tuple[str, int], asyncio.Task[Ids | None]] = {}

    async def search(self, query: str, top_k: int) -> "Ids | None":
        """The ids that the tool finds, best first, each once."""
        key = (query, max(1, min(top_k, _MAX_DEPTH)))
        if key not in self._known:
            self._known[key] = asyncio.create_task(self._ask(*key))
        return await self._known[key]

    async def plain(self, question: str, call: Call) -> "Ids | None":
        """What the plain question finds: as many different documents as the agent was shown.

        It is asked as deep as the agent looked, since a tool may return a document twice.
        """
        shown = [doc_id for step in call.steps for doc_id in step.doc_ids]
        found = await self.search(question, len(shown)) if shown else ()
        return None if found is None else found[: len(set(shown))]

    async def _ask(self, query: str, top_k: int) -> "Ids | None":
        async with self._free:
            try:
                async with asyncio.timeout(self._timeout):
                    answer = await self._tool.ask(query, top_k)
            except (AgentFailure, TimeoutError):
                return None
        return tuple(dict.fromkeys(answer.doc_ids[:top_k]))


async def measure_searches(searched: SearchedCalls, tool: Agent | None) -> list[SearchRow]:
    """The figures of each question, means over its trials.

    With the tool, the plain question is asked once for the loop gain, and missing documents are
    looked for; without it, as with searches that an agent only reports, both are left out.
    """
    replay = None if tool is None else _Replay(tool, searched.config)
    texts = {query.id: query.text for query in searched.asked}
    values: dict[str, dict[str, list[float]]] = {query_id: {} for query_id in texts}
    for trial in searched.config.trials:
        calls = searched.calls_of(trial)
        losses = searched.losses(calls)
        plain: Sequence[Ids | None] = [None] * len(calls)
        if replay is not None:
            searches = (replay.plain(texts[call.query_id], call) for call in calls)
            plain = await asyncio.gather(*searches)
        for call, once in zip(calls, plain, strict=True):
            path = searched.trajectory(call)
            figures = path.figures()
            if call.query_id in losses:
                figures["search_loss"], figures["selection_loss"] = losses[call.query_id]
            if once is not None and call.steps:
                figures["loop_gain"] = figures["evidence_recall"] - found_share(once, path.evidence)
            for name, value in figures.items():
                values[call.query_id].setdefault(name, []).append(value)
    blamed = {} if replay is None else await _blame(searched, replay)
    return [
        SearchRow(
            query_id=query_id,
            figures={name: sum(found) / len(found) for name, found in trials.items()},
            missing=blamed.get(query_id, {}),
        )
        for query_id, trials in values.items()
    ]


async def _blame(searched: SearchedCalls, replay: _Replay) -> dict[str, dict[str, Blame]]:
    """Why documents were never shown, in the first trial; a sample of them if there are many."""
    calls = searched.calls_of(searched.config.trials[0])
    missing = [(call, doc_id) for call in calls for doc_id in _missing(searched.trajectory(call))]
    if len(missing) > MAX_BLAMED:
        missing = random.Random(searched.config.seed).sample(missing, MAX_BLAMED)
    budget = max((len(call.steps) for call in calls), default=0)
    texts = {query.id: query.text for query in searched.asked}

    async def reason(call: Call, doc_id: str) -> Blame | None:
        """The first reason that holds; None if the tool fails, which decides nothing."""
        document = searched.dataset.documents.get(doc_id)
        if document is not None:
            title = document.title or " ".join(document.text.split()[:12])
            by_title = await replay.search(title, _TITLE_DEPTH)
            if by_title is None or doc_id not in by_title:
                return None if by_title is None else "not findable"
        if doc_id in (await replay.plain(texts[call.query_id], call) or ()):
            return "reformulated away"
        for step in call.steps:
            deeper = await replay.search(step.query, 2 * len(step.doc_ids)) if step.query else ()
            if doc_id in (deeper or ()):
                return "cut too early"
        if not all(step.query for step in call.steps):
            return "not known"  # a private run that was resumed has no queries left
        return "stopped early" if len(call.steps) < budget else "never asked for"

    reasons = await asyncio.gather(*(reason(call, doc_id) for call, doc_id in missing))
    found: dict[str, dict[str, Blame]] = {}
    for (call, doc_id), why in zip(missing, reasons, strict=True):
        if why is not None:
            found.setdefault(call.query_id, {})[doc_id] = why
    return found


def _missing(path: Trajectory) -> list[str]:
    """One document of each group that was not found."""
    seen = set(path.seen)
    return [min(group) for group in path.evidence if seen.isdisjoint(group)]


def summarize_searches(
    searched: SearchedCalls,
    rows: Iterable[SearchRow],
    *,
    unattributed: int = 0,
    right: Mapping[str, bool | None] | None = None,
) -> SearchReport:
    """The section of the report; `right` says of each answer of the first trial if it is right."""
    rows, seed = list(rows), searched.config.seed
    trials = [searched.calls_of(trial) for trial in searched.config.trials]
    first, calls = trials[0], [call for trial in trials for call in trial]
    paths = [searched.trajectory(call) for call in calls]
    sources = Counter(step.source for call in calls for step in call.steps)
    reasons = Counter(reason for row in rows for reason in row.missing.values())
    blame = None
    if reasons:
        missing = sum(len(_missing(searched.trajectory(call))) for call in first)
        counts = dict(reasons.most_common())
        blame = BlameCount(documents=missing, examined=reasons.total(), counts=counts)
    by_tokens = []
    if any(sum(path.tokens) for path in paths):
        shares = np.array([path.share_after(_TOKEN_BUDGETS) for path in paths]).mean(axis=0)
        budgets = zip(_TOKEN_BUDGETS, shares.tolist(), strict=True)
        by_tokens = [CurvePoint(at=budget, mean=mean) for budget, mean in budgets]
    return SearchReport(
        attribution=" and ".join(sorted(sources)) or "no search",
        tool=searched.config.search or None,
        questions=len(calls),
        searched=sum(bool(call.steps) for call in calls),
        unattributed=unattributed,
        failed=sum(step.failed for call in calls for step in call.steps),
        figures=_figures(rows, paths, seed),
        calls=_spread([len(call.steps) for call in calls]),
        tokens=_spread([sum(path.tokens) for path in paths]),
        ms=_spread([sum(step.ms or 0.0 for step in call.steps) for call in calls]),
        curve=_curve(paths, len(trials), seed),
        by_tokens=by_tokens,
        blame=blame,
        quadrants=None if right is None else _quadrants(searched, first, right),
        per_right=_per_right(first, right or {}),
        usage=_usage(calls),
    )


def _figures(
    rows: Sequence[SearchRow], paths: Sequence[Trajectory], seed: int
) -> dict[str, SearchFigure]:
    # No agent can see more of the evidence than the documents that it was shown could hold.
    room = [min(1.0, sum(map(len, path.shown)) / len(path.evidence)) for path in paths]
    found = {}
    for name in SEARCH_FIGURES:
        values = [row.figures[name] for row in rows if name in row.figures]
        if not values:
            continue
        # A difference is resampled as in a comparison: a bounded interval would be too wide.
        bounds = None if name in _UNBOUNDED else (0.0, 1.0)
        summary = summarize(values, seed=seed, bounds=bounds)
        found[name] = SearchFigure(
            mean=summary.mean,
            low=summary.low,
            high=summary.high,
            questions=summary.n,
            ceiling=float(np.mean(room)) if name == "evidence_recall" else None,
        )
    return found


def _spread(amounts: Sequence[float]) -> Spread:
    values = np.array(amounts or [0.0], dtype=float)
    p50, p95 = np.percentile(values, (50, 95)).tolist()
    return Spread(mean=float(values.mean()), p50=p50, p95=p95, max=float(values.max()))


def _curve(paths: Sequence[Trajectory], trials: int, seed: int) -> list[CurvePoint]:
    """The share of the evidence after each search; one that has stopped keeps what it has."""
    curves = [path.curve() or [0.0] for path in paths]
    longest = min(max(map(len, curves), default=0), _CURVE_CALLS)
    points = []
    for calls in range(1, longest + 1):
        shares = np.array([curve[min(calls, len(curve)) - 1] for curve in curves])
        # Trials of one question are not independent: the interval is over questions.
        found = summarize(shares.reshape(trials, -1).mean(axis=0), seed=seed)
        points.append(CurvePoint(at=calls, mean=found.mean, low=found.low, high=found.high))
    return points


def _quadrants(
    searched: SearchedCalls, first: Sequence[Call], right: Mapping[str, bool | None]
) -> AnswerQuadrants:
    counts: Counter[tuple[bool, bool]] = Counter()
    for call in first:
        if (is_right := right.get(call.query_id)) is not None:
            complete = searched.trajectory(call).figures()["evidence_complete"] == 1
            counts[complete, is_right] += 1
    return AnswerQuadrants(
        read_it=counts[True, True],
        knew_it=counts[False, True],
        did_not_read=counts[True, False],
        never_saw=counts[False, False],
    )


def _per_right(first: Sequence[Call], right: Mapping[str, bool | None]) -> dict[str, float]:
    """What one right answer took: everything that was spent, over the right answers."""
    number = sum(right.get(call.query_id) is True for call in first)
    if not number:
        return {}
    steps = [step for call in first for step in call.steps]
    spent = {
        "calls": float(len(steps)),
        "tokens": float(sum(step.tokens for step in steps)),
        "seconds": sum(call.latency_ms for call in first) / 1000,
        **_usage(first),
    }
    return {name: amount / number for name, amount in spent.items()}


def _usage(calls: Sequence[Call]) -> dict[str, float]:
    """The sums of what the agent says it used."""
    total: Counter[str] = Counter()
    for call in calls:
        total.update(call.usage.to_json() if call.usage else {})
    return {name: float(amount) for name, amount in total.items()}


@dataclass(frozen=True, slots=True)
class TraceScores:
    """Figures over the questions that have a trace.

    `rankings` scores what the agent's model was shown at the end. `repeated` traces ask a question
    again, of which the last counts; `unknown` ask one that the data set does not have.
    """

    search: SearchReport
    rankings: Scores
    questions: int
    repeated: int
    unknown: int


def score_traces(
    path: Path, dataset: Dataset, *, split: str = "test", top_k: int = 10
) -> TraceScores:
    """Measure the searches in OpenTelemetry traces: `assay score traces.json --dataset D`.

    A trace belongs to the question that it asks, by its text. Raises `DataError` if none asks a
    known question.
    """
    by_text = {normalize(query.text): query for query in dataset.queries_in(split)}
    spans = read_spans(path)
    shown = {row["id"]: [each["id"] for each in row["contexts"]] for row in span_rows(spans)}
    calls: dict[str, Call] = {}
    traced = list(trace_steps(spans))
    unknown = 0
    for trace_id, question, steps in traced:
        query = by_text.get(normalize(question))
        if query is None:
            unknown += 1
            continue
        # Without retrieved documents, a trace ends with all that its searches showed.
        seen = [doc_id for step in steps for doc_id in step.doc_ids]
        ids = tuple(dict.fromkeys(filter(None, shown[trace_id] or seen)))
        calls[query.id] = Call(query.id, ids, 0.0, 1, returned=len(ids), steps=steps)
    if not calls:
        what = f"none of its {len(traced)} traces asks a question of {dataset.name!r} ({split})"
        raise DataError(what, file=path)
    queries = [query for query in by_text.values() if query.id in calls]
    config = RunConfig(target="", dataset=dataset.name, split=split, top_k=top_k)
    searched = SearchedCalls(
        config, dataset, queries, lambda asked: (calls.get(q.id) for q in asked)
    )
    rows = asyncio.run(measure_searches(searched, None))
    judged = dataset.judgments_in(split)
    rankings = score_rankings(
        {query_id: call.doc_ids for query_id, call in calls.items()},
        {query_id: judged[query_id] for query_id in calls},
        metrics_for(top_k),
        known=dataset.corpus_ids,
        top_k=top_k,
    )
    repeated = len(traced) - unknown - len(calls)
    return TraceScores(
        summarize_searches(searched, rows), rankings, len(by_text), repeated, unknown
    )
