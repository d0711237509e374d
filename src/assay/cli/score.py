"""`assay score`: the figures of a run file, or of logged answers, of any system."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from assay.cli.console import print_json, say, show, warn
from assay.cli.options import (
    ArchiveOption,
    JudgedDatasetOption,
    JudgmentSource,
    QrelsOption,
    SplitOption,
    from_dataset,
    from_qrels,
    is_given,
    read_values,
    with_options,
)
from assay.errors import DataError, UsageError
from assay.run.options import RunSetting, settings

if TYPE_CHECKING:
    from assay.evaluation.answers.logged_rows import ScoredAnswers
    from assay.measure import Metric, SampleSummary, Scores


_SHARED = ("max_cost", "gates", "criteria", "reasons", "nuggets", "require_calibrated")


def answer_settings() -> list[RunSetting]:
    """The options of `assay eval` that mean the same here: the judge's, and gates."""
    names = [name for name in settings() if name.startswith("judge") or name in _SHARED]
    return [_without_condition(settings()[name]) for name in names]


def _without_condition(setting: RunSetting) -> RunSetting:
    """The help without `With --answers:`, which `assay score` does not have."""
    words = setting.option.help.removeprefix("With --answers: ")
    return replace(setting, option=replace(setting.option, help=words[:1].upper() + words[1:]))


def holds_answers(path: Path) -> bool:
    """Whether a file holds rows of answers, by its first row; else it is a ranking."""
    from assay.data.logged_answers import looks_logged
    from assay.data.table import SUFFIXES, TableRow, holds_traces, read_table, table_suffix

    kind = table_suffix(path)
    if kind == ".parquet":
        return True
    try:
        if holds_traces(path):
            return True
        rows = read_table(path) if kind in SUFFIXES else iter(())
        # The first line may be the dirty one.
        for row, _ in zip(rows, range(20), strict=False):
            if isinstance(row, TableRow):
                return looks_logged(row.fields)
    except DataError:
        return False
    return False


def table_columns(path: Path) -> str:
    """The column names of a table's first row, which may raise; empty where it is no table."""
    from assay.data.table import SUFFIXES, read_table, table_suffix

    if table_suffix(path) not in SUFFIXES:
        return ""
    try:
        row = next(iter(read_table(path)), None)
    except DataError:
        return ""
    if isinstance(row, DataError):
        raise row
    if row is None:
        return ""
    return ", ".join(repr(str(name)[:40]) for name in list(row.fields)[:10])


@dataclass(frozen=True, slots=True)
class AnswerFiles:
    """What to read and write, and how."""

    rows: Path
    columns: Sequence[str]
    out: Path | None
    strict: bool


def score_logged_answers(
    context: typer.Context, files: AnswerFiles, options: dict[str, Any], as_json: bool
) -> int:
    """Score the rows of a file, print the result, and return the exit code."""
    from assay.cli.console import progress_bar
    from assay.cli.eval import judge_spec
    from assay.data.logged_answers import COLUMNS
    from assay.data.table import parse_columns, read_table
    from assay.evaluation.answers.logged_rows import LOG_TOP_K, score_rows
    from assay.run.config import RunConfig

    values = read_values(context, answer_settings(), options)
    values["judge"] = judge_spec(options["judge"], options["max_cost"])
    config = RunConfig(target="", answers=True, top_k=LOG_TOP_K, **values)
    path, mapped = files.rows, parse_columns(files.columns, COLUMNS)
    with progress_bar() as progress:
        scored = asyncio.run(
            score_rows(
                read_table(path, progress),
                config,
                columns=mapped,
                progress=progress,
            )
        )
    for message in scored.skipped:
        warn(f"left out: {message}")
    if files.strict and scored.skipped:
        raise DataError("some rows could not be read; correct them, or omit --strict", file=path)
    if files.out is not None:
        _write_rows(files.out, scored)
    _print_answers(scored, path, as_json)
    from assay.report.terminal import gate_verdict

    for gate in scored.gates:
        say(gate_verdict(gate))
    return 3 if scored.report.trouble else 0 if scored.gates_passed else 1


def _print_answers(scored: "ScoredAnswers", path: Path, as_json: bool) -> None:
    if as_json:
        print_json(_answers_json(scored, path))
        return
    from assay.report.terminal_answers import render_answers

    show(render_answers(scored.report), *_gates(scored))


def _gates(scored: "ScoredAnswers") -> Iterator[str]:
    for gate in scored.gates:
        word = "passed" if gate.passed else "FAILED"
        yield f"gate  {gate.gate}  {word}: {_figure(gate.value)}"


def _figure(value: float | None) -> str:
    from assay.report.numbers import figure

    return "no value" if value is None else figure(value)


def _answers_json(scored: "ScoredAnswers", path: Path) -> Mapping[str, Any]:
    return {
        "file": str(path),
        "answers": scored.report.model_dump(mode="json"),
        "gates": [gate.model_dump(mode="json", exclude_unset=True) for gate in scored.gates],
        "skipped": list(scored.skipped),
    }


def _write_rows(out: Path, scored: "ScoredAnswers") -> None:
    from assay.data.text_file import write_file

    lines = (orjson.dumps(row.model_dump(mode="json")) for row in scored.rows())
    write_file(out, b"".join(line + b"\n" for line in lines))


_WRONG = {
    "duplicate": "repeated; duplicates score nothing",
    "unknown": "not in the data set; they score nothing",
    "surplus": "beyond the first {top_k}; they were cut",
}


@with_options(answer_settings())
def score_command(
    context: typer.Context,
    run: Annotated[
        Path,
        typer.Argument(
            help="A TREC run file, a JSON file of ranked document ids, or logged answers: CSV, "
            "JSON lines, JSON or Parquet with question, contexts, answer, reference, citations.",
            metavar="FILE",
        ),
    ],
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Logged answers: the column that holds a field, such as question=prompt. Rankings "
            "with a table as --dataset: the column of the table, such as ids=docs. Repeatable.",
            envvar="ASSAY_COLUMNS",
            metavar="FIELD=NAME",
        ),
    ] = None,
    rows_out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Logged answers: write one JSON line per row with its figures.",
            metavar="FILE",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Logged answers: fail if a row cannot be read.")
    ] = False,
    qrels: QrelsOption = None,
    dataset: JudgedDatasetOption = None,
    split: SplitOption = "test",
    archive: ArchiveOption = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="ndcg@10, recall@100, map, ... Repeatable. Default: the standard set.",
            envvar="ASSAY_METRIC",
            metavar="NAME@K",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            help="Score only the first K documents of each query.",
            envvar="ASSAY_TOP_K",
            metavar="K",
            min=1,
        ),
    ] = None,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Also print each query: metric, query, value.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    **options: Any,
) -> None:
    """Score a run file or logged answers. No agent is called. Prints means with confidence
    intervals and ceilings, and any problems in the file.

    A ranking needs --qrels or --dataset: every judged query counts, and one that is missing from
    the run scores 0. Logged answers bring their own references.

    Exit codes: 0 success, 1 a gate failed, 2 usage or input error, 3 the judge gave no verdicts.
    """
    if not run.exists():
        raise UsageError(f"{run}: no such file")
    from assay.data.load import is_table

    if not is_given(context, "columns") and (
        is_given(context, "dataset") or qrels is not None or holds_answers(run)
    ):
        columns = None  # those of assay.toml are of its own data set
    of_table = bool(columns) and dataset is not None and qrels is None and is_table(dataset)
    if holds_answers(run) or (columns and not of_table):
        files = AnswerFiles(run, columns or (), rows_out, strict)
        code = score_logged_answers(context, files, options, as_json)
        raise typer.Exit(code)
    from assay.data import read_run
    from assay.measure import score_rankings
    from assay.measure.scoring import as_metrics
    from assay.report.terminal import ScoreLine, scores_table

    metrics = as_metrics(metric) if metric else _usual(top_k)
    if qrels is None and dataset is None and (names := table_columns(run)):
        raise UsageError(
            f"{run} has no columns that are known as question and answer, but {names}; for logged "
            "answers name them: --columns question=NAME,answer=NAME; a ranking needs --qrels FILE "
            "or --dataset NAME"
        )
    judging = _judging(qrels, dataset, split, archive, columns or ())
    rankings = read_run(run)
    _require_common_query(run, rankings, judging)
    scores = score_rankings(rankings, judging.judgments, metrics, known=judging.known, top_k=top_k)
    summaries = {each: _summary(scores, each) for each in metrics}
    facts = _Facts(rankings, scores)
    content = _as_json(judging.source, scores, summaries, facts, per_query)
    if judging.judged_by:
        content["judged_by"] = judging.judged_by
    if as_json:
        print_json(content)
        return
    lines = [
        ScoreLine(str(metric), each.mean, each.low, each.high, scores.mean_ceiling(metric))
        for metric, each in summaries.items()
    ]
    show(scores_table(lines), *_notes(judging.source, scores, facts, top_k))
    if judging.judged_by:
        show(judging.judged_by)
    if per_query:
        _print_rows(scores)


class _Facts:
    """How the queries of the run match those of the judgments."""

    def __init__(self, rankings: Mapping[str, Sequence[str]], scores: "Scores") -> None:
        judged = set(scores.query_ids)
        self.absent = sum(not rankings.get(query_id) for query_id in judged)
        self.ignored = sum(query_id not in judged for query_id in rankings)


def _judging(
    qrels: Path | None,
    dataset: str | None,
    split: str,
    archive: Path | None,
    columns: Sequence[str],
) -> JudgmentSource:
    if qrels is not None:
        return from_qrels(qrels)
    if dataset is not None:
        return from_dataset(dataset, split, archive, columns)
    raise UsageError("no judgments given: pass --qrels FILE, or --dataset NAME with --split")


def _summary(scores: "Scores", metric: "Metric") -> "SampleSummary":
    """As `assay eval` has it: the same resamples, and no end that no system could reach."""
    from assay.measure.statistics import below, summarize

    seed = settings()["seed"].default
    summary = summarize(scores.values[metric], seed=seed)
    return replace(summary, high=below(summary.high, scores.mean_ceiling(metric)))


def _usual(top_k: int | None) -> list["Metric"]:
    from assay.measure import AP, MRR, CappedRecall, Judged, Precision, Recall, nDCG

    k = top_k or 10
    deep = [Recall @ 100] if top_k is None else []
    first = [nDCG @ k, nDCG(gain="exp") @ k, Recall @ k, *deep, CappedRecall @ k]
    return [*first, Precision @ k, MRR @ k, AP, Judged @ k]


def _require_common_query(
    run: Path, rankings: Mapping[str, object], judging: JudgmentSource
) -> None:
    """A run and judgments without a common query belong to different data, not to a score of 0."""
    if rankings and judging.judgments and not rankings.keys() & judging.judgments.keys():
        ours, theirs = next(iter(rankings)), next(iter(judging.judgments))
        raise DataError(
            f"has no query in common with {judging.source}: its first query is {ours!r}, "
            f"that of the judgments is {theirs!r}; pass the judgments of this run",
            file=run,
        )


def _notes(source: str, scores: "Scores", facts: _Facts, top_k: int | None) -> Iterator[str]:
    from assay.measure.violations import KINDS
    from assay.report.numbers import count, counted

    queries = counted(len(scores.query_ids), "query", "queries")
    yield f"\n{queries} with a relevant document in {source}"
    if facts.absent:
        yield f"{count(facts.absent)} of them have no ranking: they score 0"
    if facts.ignored:
        yield f"{counted(facts.ignored, 'query', 'queries')} of the run have no judgments: ignored"
    for kind in KINDS:
        if total := scores.violations.total(kind):
            where = counted(scores.violations.queries(kind), "query", "queries")
            words = _WRONG[kind].format(top_k=top_k)
            first = scores.violations.examples_of(kind)[0]
            example = f"{first.doc_id!r} for {first.query_id!r}"
            yield f"{counted(total, 'id')} in {where} {words}: {example}"


def _print_rows(scores: "Scores") -> None:
    """Plain lines, as trec_eval -q prints them: for other programs, so never wrapped."""
    from assay.report.numbers import figure

    print()
    for metric, values in scores.values.items():
        for query_id, value in zip(scores.query_ids, values.tolist(), strict=True):
            print(metric, query_id, figure(value), sep="\t")


def _as_json(
    source: str,
    scores: "Scores",
    summaries: Mapping["Metric", "SampleSummary"],
    facts: _Facts,
    per_query: bool,
) -> dict[str, Any]:
    from dataclasses import asdict

    from assay.measure.violations import KINDS

    content: dict[str, Any] = {
        "judgments": source,
        "queries": len(scores.query_ids),
        "queries_without_ranking": facts.absent,
        "queries_without_judgments": facts.ignored,
        "metrics": {
            metric.slug: {**asdict(each), "ceiling": scores.mean_ceiling(metric)}
            for metric, each in summaries.items()
        },
        "violations": {kind: scores.violations.total(kind) for kind in KINDS},
        "examples": [asdict(example) for example in scores.violations.examples],
    }
    if per_query:
        content["per_query"] = scores.rows()
    return content
