"""`assay score` and `assay audit`: the figures of run files, answers and reports of any system."""

import asyncio
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from assay.cli.console import Unwrapped, progress_bar, say, warn, write_output
from assay.cli.options import (
    COLUMNS_OPTION,
    JUDGED_DATASET_OPTION,
    METRICS_OPTION,
    QRELS_OPTION,
    RUNS_OPTION,
    SPLIT_OPTION,
    JudgmentSource,
    judge_spec,
    load_judgments,
    read_config,
    require_used,
)
from assay.cli.verb import (
    Result,
    argument,
    is_given,
    is_on_command_line,
    option,
    switch,
    with_settings,
)
from assay.data import load_dataset
from assay.data.load import KNOWN, is_table
from assay.data.logged_answers import COLUMNS, column_paths, looks_logged
from assay.data.qrels import read_run
from assay.data.table import (
    SUFFIXES,
    parse_columns,
    read_json,
    read_table,
    require_readable_table,
    table_suffix,
)
from assay.data.text_file import Record, plain_file
from assay.data.traces import holds_traces, read_log
from assay.errors import DataError, UsageError, did_you_mean
from assay.evaluation.gates import Gate, parse_gate, require_possible
from assay.metrics.audit import AuditResult, ClaimAudit, audit_report, read_report
from assay.metrics.metric import AP, MRR, CappedRecall, Hit, Judged, Metric, Precision, Recall, nDCG
from assay.metrics.scoring import KINDS, Scores, as_metrics, score_rankings
from assay.metrics.statistics import SampleSummary, below, summarize
from assay.net.json import JsonObject
from assay.report.console import labeled
from assay.report.numbers import counted, figure
from assay.report.terminal import gate_verdict, scores_table, split_metrics, usual_names
from assay.run.config import settings
from assay.run.folder import find_run
from assay.run.models import GateResult

if TYPE_CHECKING:
    from rich.table import Table


_SHOWN_QUERIES = 5
_MAX_BROKEN_ROWS = 20  # a log may begin with some; which kind it is, the first whole row says
_NAMES = ("judge", "judge_set", "no_cache", "gates", "criteria", "references", "faithfulness")
_OF_RANKINGS = ("qrels", "dataset", "split", "metrics", "top_k", "per_query")
_OF_ANSWERS = {"rows_out", *_NAMES} - {"gates"}
_COUNTED = {
    "queries_without_ranking": "of them without a ranking: they score 0",
    "queries_without_relevant": "of the run without a relevant document: ignored",
    "queries_without_judgments": "of the run without judgments: ignored",
}
_WRONG = {
    "duplicate": "repeated; duplicates score nothing",
    "unknown": "not in the data set; they score nothing",
    "surplus": "beyond the first {top_k}; they were cut",
}


@with_settings(_NAMES)
def score(
    context: click.Context,
    run: Path = argument(
        "FILE",
        "A TREC run, JSON of ranked ids, or logged answers: CSV, JSON lines, JSON or Parquet with "
        "question, contexts, answer, reference, citations.",
    ),
    columns: list[str] | None = option(
        None,
        "The column of a field: question=prompt of answers, ids=docs of a table as --dataset.",
        "ASSAY_COLUMNS",
        "FIELD=NAME",
    ),
    rows_out: Path | None = option(
        None, "Logged answers: write one JSON line per row with its figures.", None, "FILE", "--out"
    ),
    qrels: Path | None = QRELS_OPTION,
    dataset: str | None = JUDGED_DATASET_OPTION,
    split: str = SPLIT_OPTION,
    metrics: list[str] | None = METRICS_OPTION,
    top_k: int | None = option(None, "Score only the first K.", "ASSAY_TOP_K", "K", min=1),
    per_query: bool = switch("--per-query", "Also print each query: metric, query, value."),
    **options: Any,
) -> Result:
    """Score a run file or logged answers. No agent is called.

    A ranking needs --qrels or --dataset: every judged query counts, and one that is missing from
    the run scores 0. Logged answers bring their own references.

    Exit codes: 0 success, 1 a gate failed, 2 usage or input error, 3 the judge gave no verdicts.
    """
    if not run.is_file():
        hint = did_you_mean(run.name, (each.name for each in run.parent.glob("*")))
        raise UsageError(f"{run} is not a file; for a run's folder: assay report{hint}")
    require_readable_table(run)
    kind, names = _kind_of(run)
    of_table = dataset is not None and qrels is None and is_table(dataset)
    given = is_given(context, "columns")
    if not given and (kind != "ranking" or not of_table or is_given(context, "dataset")):
        columns = None  # those of assay.toml are for its data set
    if kind == "traces" and dataset is not None and qrels is None:
        return _score_traces(run, dataset, split, top_k)
    if kind != "ranking" or (columns and not of_table):
        require_used(context, _OF_RANKINGS, f"on logged answers, which {run} holds; leave it out")
        return _score_answers(context, run, options, columns or (), rows_out)
    require_used(context, _OF_ANSWERS, f"on a ranking, which {run} holds; leave it out")
    if qrels is None and dataset is None and names:
        raise UsageError(
            f"{run} has no columns question and answer, only {names}; name them: "
            "--columns question=NAME,answer=NAME; or pass --qrels FILE for a ranking"
        )
    k = top_k or 10
    every = [nDCG @ k, nDCG(gain="exp") @ k, Recall @ k, *([] if top_k else [Recall @ 100])]
    every += [CappedRecall @ k, Precision @ k, MRR @ k, Hit @ k, AP, Judged @ k]
    asked = split_metrics(metrics or ())
    chosen = as_metrics(asked) if asked and asked != ["all"] else every
    shown = [each.slug for each in chosen] if asked else usual_names([each.slug for each in every])
    is_typed = is_on_command_line(context, "gate")
    gates = _ranking_gates(options["gate"] or (), top_k, strict=is_typed)
    judging = load_judgments(qrels, dataset, split, columns or ())
    return _score_ranking(run, judging, chosen, shown, gates, top_k, per_query)


def _kind_of(path: Path) -> tuple[str, str]:
    """`answers`, `traces` or `ranking`, by the first rows; and which columns a table has."""
    suffix = table_suffix(path)
    if suffix not in SUFFIXES or suffix == ".parquet":
        return ("answers" if suffix == ".parquet" else "ranking"), ""
    broken = None
    try:
        if holds_traces(path):
            return "traces", ""
        for row in islice(read_table(path), _MAX_BROKEN_ROWS):
            if isinstance(row, Record):
                names = ", ".join(repr(name[:40]) for name in islice(column_paths(row.fields), 10))
                return ("answers", "") if looks_logged(row.fields) else ("ranking", names)
            broken = broken or row
    except DataError:
        pass
    if broken:
        raise broken
    return "ranking", ""


def _ranking_gates(texts: Sequence[str], top_k: int | None, *, strict: bool) -> dict[Gate, Metric]:
    """Each gate with its metric: a ranking has neither answers nor latencies.

    Unless `strict`, others are left out: a variable or a file may mean them for `assay eval`.
    """
    gates = {}
    for text in texts:
        try:
            gate = parse_gate(text, top_k or sys.maxsize)
            if gate.metric is None:
                raise UsageError(f"gate {text!r} is not on a metric of rankings, such as ndcg@5")
            gates[gate] = gate.metric
        except UsageError as error:
            if strict:
                raise
            say(f"gate left out: {error}")
    return gates


def _score_ranking(
    run: Path,
    judging: JudgmentSource,
    chosen: Sequence[Metric],
    shown: Collection[str],
    gates: Mapping[Gate, Metric],
    top_k: int | None,
    per_query: bool,
) -> Result:
    """Score a run file against judgments; the table has the metrics that are `shown`."""
    rankings = read_run(run)
    if rankings and judging.judgments and not rankings.keys() & judging.judgments.keys():
        # Different data, and not a score of 0.
        ours, theirs = next(iter(rankings)), next(iter(judging.judgments))
        raise DataError(
            f"has no query in common with {judging.source}: its first query is {ours!r}, "
            f"that of the judgments is {theirs!r}; pass the judgments of this run",
            file=run,
        )
    metrics = list(dict.fromkeys([*chosen, *gates.values()]))
    scores = score_rankings(rankings, judging.judgments, metrics, known=judging.known, top_k=top_k)
    summaries = {metric: _summary(scores, metric) for metric in metrics}
    checked = []
    for gate, metric in gates.items():
        require_possible(gate, scores.mean_ceiling(metric))
        mean = summaries[metric].mean
        checked.append(GateResult(gate=gate.text, value=mean, passed=gate.passes(mean)))
    ignored = rankings.keys() - set(scores.query_ids)
    judged = len(ignored & judging.judgments.keys())
    content: JsonObject = {
        "judgments": judging.source,
        "queries": len(scores.query_ids),
        "queries_without_ranking": sum(not rankings.get(each) for each in scores.query_ids),
        "queries_without_judgments": len(ignored) - judged,
        "queries_without_relevant": judged,
        "metrics": {
            metric.slug: {**asdict(each), "ceiling": scores.mean_ceiling(metric)}
            for metric, each in summaries.items()
        },
        "violations": {kind: scores.violations.total(kind) for kind in KINDS},
        "examples": [example._asdict() for example in scores.violations.examples],
    }
    content |= {"per_query": scores.rows()} if per_query else {}
    content |= {"judged_by": judging.judged_by} if judging.judged_by else {}
    content |= {"gates": _gates_json(checked)} if checked else {}
    text = [
        _table(scores, {m: row for m, row in summaries.items() if m.slug in shown}),
        f"\n{content['queries']:,} queries with a relevant document in {judging.source}",
        *(f"{content[key]:,} {what}" for key, what in _COUNTED.items() if content[key]),
        *_violations(scores, top_k),
        *([judging.judged_by] if judging.judged_by else []),
    ]
    for metric, values in scores.values.items() if per_query else ():
        # Plain lines, as trec_eval -q prints them: for other programs, so never wrapped.
        text += [
            Unwrapped(f"{metric}\t{query_id}\t{figure(value)}")
            for query_id, value in zip(scores.query_ids, values.tolist(), strict=True)
        ]
    exit_code = 0 if all(gate.passed for gate in checked) else 1
    return Result(content, text, exit_code, map(gate_verdict, checked))


def _violations(scores: Scores, top_k: int | None) -> Iterator[str]:
    for kind in KINDS:
        if total := scores.violations.total(kind):
            where = counted(scores.violations.queries(kind), "query", "queries")
            first = scores.violations.examples_of(kind)[0]
            example = f"{first.doc_id!r} for {first.query_id!r}"
            yield f"{counted(total, 'id')} in {where} {_WRONG[kind].format(top_k=top_k)}: {example}"


def _summary(scores: Scores, metric: Metric) -> SampleSummary:
    """As `assay eval` has it: the same resamples, and no end that no system could reach."""
    summary = summarize(scores.values[metric], seed=settings()["seed"].default)
    return replace(summary, high=below(summary.high, scores.mean_ceiling(metric)))


def _table(scores: Scores, summaries: Mapping[Metric, SampleSummary]) -> "Table":
    return scores_table(
        (str(metric), each, scores.mean_ceiling(metric)) for metric, each in summaries.items()
    )


def _score_traces(path: Path, dataset: str, split: str, top_k: int | None) -> Result:
    """What the searches of traces were worth."""
    from assay.evaluation.searching import score_traces
    from assay.report.terminal import search_lines

    with progress_bar() as progress:
        data = load_dataset(dataset, progress=progress)
    found = score_traces(path, data, split=split, top_k=top_k or 10)
    rankings, traced = found.rankings, len(found.rankings.query_ids)
    counts = {"questions": traced, "of": found.questions}
    counts |= {"repeated": found.repeated, "unknown": found.unknown}
    search = found.search.model_dump(mode="json")
    value = {"file": str(path), **counts, "search": search, "metrics": rankings.means}
    summaries = {metric: _summary(rankings, metric) for metric in rankings.metrics}
    text: list[Any] = [_table(rankings, summaries)]
    text += [labeled(name, words) for name, words in search_lines(found.search)]
    text.append(f"{traced} of {found.questions} questions of {data.name} {split} have a trace")
    if found.unknown or found.repeated:
        text.append(f"left out: {found.unknown} of other questions, {found.repeated} repeated")
    return Result(value, text)


def _score_answers(
    context: click.Context,
    path: Path,
    options: dict[str, Any],
    columns: Sequence[str],
    out: Path | None,
) -> Result:
    """Score the rows of a file."""
    from assay.evaluation.answers.logged_rows import LOG_TOP_K, score_rows
    from assay.report.terminal import query_texts, render_answers

    options["judge"] = judge_spec(options["judge"], options["judge_set"])
    fixed = {"target": "", "answers": True, "top_k": LOG_TOP_K}
    config = read_config(context, _NAMES, options, **fixed)
    named = parse_columns(columns, COLUMNS)
    with progress_bar() as progress:
        scored = asyncio.run(score_rows(read_log(path), config, columns=named, progress=progress))
    for message in scored.skipped:
        warn(f"left out: {message}")
    if out is not None:
        lines = (orjson.dumps(row.model_dump(mode="json")) for row in scored.rows())
        write_output(out, b"".join(line + b"\n" for line in lines), source=path)
    content: JsonObject = {"file": str(path), "answers": scored.report.model_dump(mode="json")}
    content |= {"gates": _gates_json(scored.gates), "skipped": list(scored.skipped)}
    exit_code = 3 if scored.report.trouble else 0 if scored.gates_passed else 1
    text = [render_answers(scored.report, query_texts(scored.rows()))]
    return Result(content, text, exit_code, map(gate_verdict, scored.gates))


def _gates_json(gates: Sequence[GateResult]) -> list[JsonObject]:
    return [gate.model_dump(mode="json", exclude_unset=True) for gate in gates]


def audit(
    context: click.Context,
    report: str = argument("REPORT.json|RUN", "A run, or a report with retrieved ids in JSON."),
    qrels: Path | None = QRELS_OPTION,
    dataset: str | None = JUDGED_DATASET_OPTION,
    split: str = SPLIT_OPTION,
    columns: list[str] | None = COLUMNS_OPTION,
    folder: Path = RUNS_OPTION,
) -> Result:
    """Recompute the scores of a report from its rankings. Explains each difference.

    Judgments come from --qrels, else --dataset, else the data set and split named in the report,
    else nfcorpus.

    Exit codes: 0 success, 1 a figure is wrong, 2 usage or input error.
    """
    if columns and (qrels is not None or dataset is None):
        raise UsageError("--columns names columns of a table: add --dataset FILE")
    file = Path(report)
    if file.is_dir():
        file /= "report.json"
    elif not file.exists() and not file.suffix:
        file = find_run(report, folder).report_file
    content = read_json(plain_file(file))
    try:
        foreign = read_report(content)
        if qrels is None and dataset is None:
            named = foreign.dataset or ""
            known = next((each for each in KNOWN if each == named.lower()), None)
            dataset = known or (named if named and Path(named).exists() else "nfcorpus")
            if foreign.split and not is_given(context, "split"):
                split = foreign.split
        judging = load_judgments(qrels, dataset, split, columns or ())
        result = audit_report(foreign, judging.judgments)
    except DataError as error:
        raise error if error.file else DataError(str(error), file=file) from None
    claims = [
        asdict(claim)
        | {"metric": claim.metric.slug, "correct": claim.correct, "verdict": _sentence(claim)}
        for claim in result.claims
    ]
    value = {
        "judgments": judging.source,
        "correct": result.correct,
        "queries": result.queries,
        "failed": result.failed,
        "unjudged": result.unjudged,
        "claims": claims,
    }
    text = _audit_lines(result, judging.source)
    return Result(value, text, exit_code=0 if result.correct else 1)


def _audit_lines(result: AuditResult, source: str) -> Iterator[str]:
    yield f"{result.queries:,} queries, {result.failed:,} failed, judged by {source}"
    if result.unjudged:
        number, first = len(result.unjudged), result.unjudged[0]
        yield f"{number:,} without a relevant document are ignored, for example {first!r}"
    for claim in result.claims:
        yield from ("", _sentence(claim))
        for each in claim.disagreements[:_SHOWN_QUERIES]:
            said, right = figure(each.claimed), figure(each.recomputed)
            yield f"  {each.query_id}: says {said}, is {right}"
        if more := len(claim.disagreements[_SHOWN_QUERIES:]):
            yield f"  and {counted(more, 'more query', 'more queries')} (all: --json)"


def _sentence(claim: ClaimAudit) -> str:
    """What the report claims, what its lists give, and how the difference arose."""
    claimed, right = figure(claim.claimed), figure(claim.recomputed)
    opening = f"claims {claim.metric} {claimed}; its own lists give {right}: "
    if claim.flaws:
        return opening + ", and ".join(claim.flaws)
    if claim.flaws is not None:
        wrong = "the mean is right, but figures of single queries are not"
        return opening + (wrong if claim.disagreements else "correct")
    own = claim.own_mean
    mean = "" if own is None else f"; the mean of its per-query figures is {figure(own)}"
    return f"{opening}no known mistake explains the difference{mean}"
