"""From the calls of a run to its report: figures, rows, answers and the page.

Rows go to disk and into the page as they are made: a run of 100,000 queries keeps no row in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Dataset, Query
from assay.errors import FailureKind
from assay.evaluation.gates import check_gates
from assay.evaluation.plan import judgments_of, metrics_for
from assay.evaluation.sanity import SanityChecks
from assay.files import atomic_write
from assay.metrics.describe import similar_pairs
from assay.metrics.metric import MRR, Metric, Precision, Recall
from assay.metrics.scoring import KINDS, Kind, Scores, Violations, score_rankings
from assay.metrics.searches import list_agreement, split_variance
from assay.metrics.statistics import below, summarize
from assay.report.html import QueryFigures, render_run
from assay.report.numbers import figure
from assay.run.answers import AnswersReport, BadId, ViolationCount
from assay.run.calls import Call, CallLog, with_quote
from assay.run.config import RunConfig
from assay.run.folder import ReportWriter, RunFolder
from assay.run.models import (
    FORMAT,
    LabelCoverage,
    Latency,
    MeasuredDataset,
    PacingRecord,
    QueryRow,
    Report,
    RunHeader,
    RunState,
    RunSummary,
    SearchFigure,
    SearchReport,
    Statistic,
    TrialsReport,
    UnseenQueries,
)
from assay.targets.chunks import suggest_separator

if TYPE_CHECKING:
    from assay.evaluation.answers.evaluate import AnswerResults
    from assay.evaluation.evaluation import Evaluation

NOT_ASKED = "not asked"
_FLAKY = 10  # questions that are named
# The order within a batch and of batches is that of the plan: a float sum depends on it.
_BATCH = 2000

# For each trial, whether the answer to each question is right; None if that is undecided.
RightByTrial = Sequence[Mapping[str, bool | None]]


@dataclass(frozen=True)
class ReportInputs:
    """What a report is written from.

    `asked` are the queries that it speaks of; `right` says for each trial if the answers are right.
    """

    log: CallLog
    asked: Sequence[Query]
    state: RunState
    seconds: float
    results: "AnswerResults | None" = None
    right: RightByTrial = ()
    search: SearchReport | None = None


@dataclass
class _Results:
    """The scores of a run's questions, and how its calls went.

    `latencies` has one figure for each call that was answered or timed out. A timeout counts as the
    time limit, even if a retry was answered: otherwise an agent looks fast by not answering. Other
    failures say nothing about latency.
    """

    log: CallLog
    dataset: Dataset
    config: RunConfig
    metrics: Sequence[Metric]
    parts: list[Scores] = field(default_factory=list)  # of each batch
    latencies: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    # For each kind of failure the first one: its query, and what was said
    examples: dict[str, str] = field(default_factory=dict)
    returned_ids: set[str] = field(default_factory=set)
    answered: int = 0  # questions that were answered in every trial
    calls: int = 0
    attempts: int = 0
    asked_again: int = 0
    answered_again: int = 0
    # The headline of each question (row) in each trial (column), and how alike its lists are.
    headlines: list[NDArray[np.float64]] = field(default_factory=list)
    agreement: list[float] = field(default_factory=list)

    @cached_property
    def scores(self) -> Scores:
        """Of all batches."""
        return Scores.joined(self.parts)

    @property
    def answered_calls(self) -> int:
        return self.calls - self.failures.total()

    def add(self, calls: Iterable[Call | None]) -> None:
        """Count calls, failures and latencies."""
        for call in calls:
            self.calls += 1
            if call is None:
                self.failures[NOT_ASKED] += 1
                continue
            self.attempts += call.attempts
            self.returned_ids.update(call.doc_ids)
            self.asked_again += call.asked_again
            timed_out = call.failure is FailureKind.TIMEOUT
            if timed_out or call.failure is None:
                # Among others it took longer than its limit: asked alone, it says nothing of that.
                late = 1000 * self.config.timeout if timed_out or call.asked_again else 0.0
                self.latencies.append(max(call.latency_ms, late))
            if call.failure is None:
                self.answered_again += call.asked_again
                continue
            self.failures[str(call.failure)] += 1
            said = f"{call.query_id}: {with_quote(call.message, call.said)}"
            self.examples.setdefault(str(call.failure), said)

    def rows(self, queries: Sequence[Query]) -> Iterator[tuple[QueryRow, Call | None]]:
        """Score the queries in batches: the row of each, and its call in the first trial."""
        for start in range(0, len(queries), _BATCH):
            drawn = queries[start : start + _BATCH]
            calls = self._score(drawn)
            yield from zip(self._rows_of(drawn, calls), calls, strict=True)

    def _score(self, drawn: Sequence[Query]) -> list[Call | None]:
        """A query without an answer scores 0.

        With several trials, a question has the mean of its scores over them: an interval over
        questions then has the scatter of the trials in it.
        """
        judgments = judgments_of(self.dataset, self.config, drawn)
        known, top_k = self.dataset.corpus_ids, self.config.top_k
        score = partial(score_rankings, metrics=self.metrics, known=known, top_k=top_k)
        trials, rounds = [], []
        for trial in self.config.trials:
            calls = list(self.log.read(replace(query, trial=trial) for query in drawn))
            self.add(calls)
            rankings = {call.query_id: call.doc_ids for call in calls if call is not None}
            sent = {call.query_id: call.returned for call in calls if call is not None}
            trials.append(score(rankings, judgments, returned=sent))
            rounds.append(calls)
        for of_query in zip(*rounds, strict=True):
            self.answered += all(call is not None and call.failure is None for call in of_query)
            lists = [call.doc_ids if call else () for call in of_query]
            self.agreement.append(list_agreement(lists))
        self.parts.append(Scores.averaged(trials))
        self.headlines.append(np.column_stack([trial.values[self.metrics[0]] for trial in trials]))
        return rounds[0]

    def _rows_of(self, drawn: Sequence[Query], calls: Sequence[Call | None]) -> Iterator[QueryRow]:
        """The rows of the last batch. They are not validated: every value is ours."""
        config, judgments = self.config, self.dataset.judgments_in(self.config.split)
        columns = {metric.key: self.parts[-1].values[metric] for metric in self.metrics}
        for place, (query, call) in enumerate(zip(drawn, calls, strict=True)):
            relevant = {doc_id for doc_id, grade in judgments[query.id].items() if grade > 0}
            found = relevant.intersection(call.doc_ids[: config.top_k]) if call is not None else ()
            trials = self.headlines[-1][place].tolist()
            yield QueryRow.model_construct(
                None,
                query_id=query.id,
                query_text="" if config.private else query.text,
                **_outcome(call),
                **{key: float(values[place]) for key, values in columns.items()},
                relevant_docs_retrieved=len(found),
                total_relevant_docs=len(relevant),
                **({"trials": trials} if config.repeat > 1 else {}),
            )


def write_report(folder: RunFolder, evaluation: "Evaluation", found: ReportInputs) -> Report:
    """Write report, answers and page."""
    config, dataset = evaluation.config, evaluation.dataset
    # Rankings are measured where there is something to rank; answers on every question.
    judged = {query.id for query in dataset.queries_in(config.split)}
    ranked = [query for query in found.asked if query.id in judged]
    if not ranked:
        raise KeyboardInterrupt(
            f"interrupted before the first response; continue with: assay eval --resume {folder}"
        )
    gate_metrics = [gate.metric for gate in evaluation.gates if gate.metric is not None]
    metrics = metrics_for(config.top_k, gate_metrics)
    shown = None if config.private else dataset
    figures = QueryFigures(metrics[0], shown.queries if shown else {})
    answers = None
    if found.results is not None:
        from assay.evaluation.answers.answer_report import AnswerReport

        section = AnswerReport(found.results.cases, found.results, dataset, config)
        answers = section.section()
        folder.write_answers(list(section.rows()))
    checks = SanityChecks(dataset.judgments_in(config.split))
    results = _Results(found.log, dataset, config, metrics)
    writer = ReportWriter(folder.report_file)
    try:
        for row, call in results.rows(ranked):
            writer.add(row)
            figures.add(row)
            checks.add(row, call)
        report = _build_report(evaluation, results, folder.read_header(), answers, found, ranked)
        if warnings := checks.warnings(report):
            report = report.model_copy(update={"warnings": warnings})
        writer.finish(report)
    finally:
        writer.close()
    atomic_write(folder.page_file, render_run(folder, shown, figures).encode())
    return report


def _build_report(
    evaluation: "Evaluation",
    results: _Results,
    header: RunHeader,
    answers: AnswersReport | None,
    found: ReportInputs,
    ranked: Sequence[Query],
) -> Report:
    """Every figure of a run."""
    config, dataset, scores = evaluation.config, evaluation.dataset, results.scores
    spread = {metric: _statistic(results, metric) for metric in scores.metrics}
    latency = _latency(results)
    rankable = {query.id for query in dataset.queries_in(config.split)}
    judged = set[str]().union(*judgments_of(dataset, config, ranked).values())
    known = dataset.corpus_ids
    coverage = LabelCoverage(
        judged=len(judged),
        in_corpus=None if known is None else len(judged & known),
        returned=len(judged & results.returned_ids),
    )
    report = Report(
        format=FORMAT,
        state=found.state,
        summary=_summary(results, spread, config, latency, found.seconds),
        metrics={metric.slug: statistic.mean for metric, statistic in spread.items()},
        unseen_queries=_unseen_queries(results, ranked),
        gates=[],
        statistics={metric.slug: statistic for metric, statistic in spread.items()},
        failures=dict(sorted(results.failures.items())),
        failure_examples=results.examples,
        violations={kind: _violations(scores.violations, kind, dataset) for kind in KINDS},
        latency_ms=latency,
        target=header.target,
        track=header.track,
        dataset=MeasuredDataset(
            **header.dataset.model_dump(exclude_unset=True),
            split=config.split,
            documents=len(dataset.documents),
            judged_queries=len(rankable),
            queries_without_relevant=dataset.count_without_relevant(config.split),
            **({"judged_by": dataset.judged_by} if dataset.judged_by else {}),
        ),
        config=config,
        random_seed_used=config.seed,
        started=header.started,
        versions=header.versions,
        planned_queries=sum(query.id in rankable for query in evaluation.queries),
    )
    pacing = header.pacing
    if pacing is not None or results.asked_again:
        again = {"asked_again": results.asked_again, "answered_again": results.answered_again}
        pacing = (pacing or PacingRecord()).model_copy(update=again)
    trials = _trials_report(results, found.right, config.seed) if config.repeat > 1 else None
    sections: dict[str, object] = {"answers": answers, "labels": coverage, "pacing": pacing}
    sections |= {"search": found.search, "trials": trials}
    given = {name: section for name, section in sections.items() if section is not None}
    return _with_gates(report.model_copy(update=given), evaluation, results)


def _with_gates(report: Report, evaluation: "Evaluation", results: _Results) -> Report:
    """The diagnosis names the gates on answers that failed: it is the sentence that people read."""
    answers = report.answers
    # Neither a document nor the text of an answer came back.
    empty = not results.returned_ids and not (answers and answers.answered)
    gates = check_gates(evaluation, report, results.scores, empty=empty)
    failed = [
        f"{result.gate} (got {figure(result.value)})"
        for gate, result in zip(evaluation.gates, gates, strict=False)
        if gate.answers and not result.passed
    ]
    if failed and answers is not None and answers.diagnosis is not None:
        sentence = f"{answers.diagnosis.sentence} Gate failed: {'; '.join(failed)}."
        diagnosis = answers.diagnosis.model_copy(update={"sentence": sentence})
        answers = answers.model_copy(update={"diagnosis": diagnosis})
    if trouble := report.failure_reason:  # what is left of such a run says nothing about the agent
        gates = [gate.failed_because(trouble) for gate in gates]
    changes: dict[str, object] = {"gates": gates}
    changes |= {"answers": answers} if answers is not None else {}
    return report.model_copy(update=changes)


def _outcome(call: Call | None) -> dict[str, object]:
    if call is None:
        return {"retrieved_docs": [], "status": "failed", "failure": NOT_ASKED}
    outcome: dict[str, object] = {"retrieved_docs": list(call.doc_ids), "status": "ok"}
    if call.failure is not None:
        outcome |= {"status": "failed", "failure": str(call.failure), "message": call.message}
        outcome |= {"said": call.said} if call.said else {}
    if call.doc_types:
        outcome |= {"doc_types": list(call.doc_types), "relevance": list(call.scores)}
        outcome["relevance_source"] = call.relevance_source
    outcome |= {"asked_again": True} if call.asked_again else {}
    return outcome | {"at": call.at, "latency_ms": call.latency_ms, "attempts": call.attempts}


def _summary(
    results: _Results,
    spread: Mapping[Metric, Statistic],
    config: RunConfig,
    latency: Latency,
    seconds: float,
) -> RunSummary:
    headline, *_ = spread
    # The names of these follow the metric and `top_k`.
    names = ("mean", "median", "std", "min", "max", "low", "high")
    extra = {f"{name}_{headline.key}": getattr(spread[headline], name) for name in names}
    for metric in (kind @ config.top_k for kind in (MRR, Precision, Recall)):
        extra[f"mean_{metric.key}"] = spread[metric].mean
    for metric in spread:
        extra[f"sum_{metric.key}"] = float(results.scores.values[metric].sum())
    for name in ("p50", "p90", "p95", "p99", "max"):
        extra[f"latency_{name}_ms"] = getattr(latency, name)
    return RunSummary(
        total_queries=len(results.scores.query_ids),
        successful_queries=results.answered,
        failed_queries=len(results.scores.query_ids) - results.answered,
        success_rate=results.answered_calls / results.calls,
        total_time_seconds=seconds,
        queries_per_second=results.answered_calls / seconds if seconds > 0 else 0.0,
        attempts=results.attempts,
        **extra,
    )


def _statistic(results: _Results, metric: Metric) -> Statistic:
    summary = summarize(results.scores.values[metric], seed=results.config.seed)
    ceiling = results.scores.mean_ceiling(metric)
    return Statistic(
        mean=summary.mean,
        low=summary.low,
        high=below(summary.high, ceiling),
        median=summary.median,
        std=summary.std,
        min=summary.minimum,
        max=summary.maximum,
        ceiling=ceiling,
        share_of_ceiling=summary.mean / ceiling if ceiling else 0.0,
    )


def _unseen_queries(results: _Results, ranked: Sequence[Query]) -> UnseenQueries | None:
    """The headline of the queries that are not near-duplicates of a train query.

    Skill, not memory: a system that learned from the train judgments cannot have memorized these.
    None if there is nothing to have learned from.
    """
    if results.config.split == "train" or "train" not in results.dataset.judgments:
        return None
    train = results.dataset.queries_in("train")
    seen = {query_id for query_id, _ in similar_pairs(ranked, train)}
    places = [place for place, query in enumerate(ranked) if query.id not in seen]
    if not places:
        return None
    values = results.scores.values[results.metrics[0]][places]
    found = summarize(values, seed=results.config.seed)
    return UnseenQueries(queries=found.n, mean=found.mean, low=found.low, high=found.high)


def _latency(results: _Results) -> Latency:
    """0 if nothing was timed: a report holds no NaN, which is not JSON."""
    timed = np.array(results.latencies or [0.0])
    p50, p90, p95, p99 = np.percentile(timed, (50, 90, 95, 99)).tolist()
    timeouts = results.failures[FailureKind.TIMEOUT]
    return Latency(
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        max=float(timed.max()),
        queries=results.answered_calls + timeouts,
        timeouts=timeouts + results.answered_again,
    )


def _violations(violations: Violations, kind: Kind, dataset: Dataset) -> ViolationCount:
    found, ids, hint = violations.examples_of(kind), violations.total(kind), ""
    if kind == "duplicate" and ids:
        hint = (
            "if they are chunks of one document, let a function return the document once; for a "
            "service, map the chunks' own ids with --map ids=EXPR and their id, doc_id and text "
            "with --map contexts=EXPR"
        )
    elif kind == "unknown":
        separator = suggest_separator((each.doc_id for each in found), dataset.documents)
        if separator is not None:
            hint = f"these look like chunks of documents; add --map 'chunk={separator}'"
    return ViolationCount(
        ids=ids,
        queries=violations.queries(kind),
        examples=[BadId(query_id=each.query_id, doc_id=each.doc_id[:200]) for each in found],
        **({"hint": hint} if hint else {}),
    )


def _trials_report(results: _Results, right: RightByTrial, seed: int) -> TrialsReport:
    """How far the trials of a question agree, for runs with `--repeat`."""
    headlines = np.concatenate(results.headlines)
    between, within, advice = split_variance(headlines)
    answered = right[0] if right else {}
    decided = [id for id in answered if all(trial.get(id) is not None for trial in right)]
    every = [all(trial[id] for trial in right) for id in decided]
    some = [any(trial[id] for trial in right) for id in decided]
    if decided:
        flaky = [id for id, a, b in zip(decided, every, some, strict=True) if a != b]
    else:
        spread = headlines.max(axis=1) - headlines.min(axis=1)
        places = np.argsort(-spread, kind="stable")
        flaky = [results.scores.query_ids[place] for place in places if spread[place]]

    def share(passed: Sequence[bool]) -> SearchFigure:
        found = summarize(np.array(passed, dtype=float), seed=seed)
        return SearchFigure(mean=found.mean, low=found.low, high=found.high, questions=found.n)

    return TrialsReport(
        repeat=headlines.shape[1],
        agreement=float(np.mean(results.agreement)),
        between=between,
        within=within,
        advice=advice,
        pass_all=share(every) if decided else None,
        pass_any=share(some) if decided else None,
        flaky=flaky[:_FLAKY],
    )
