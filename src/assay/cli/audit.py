"""`assay audit`: check that the figures of a report follow from its own lists."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import click
import orjson

from assay.cli.options import (
    ColumnsOption,
    JudgedDatasetOption,
    JudgmentSource,
    QrelsOption,
    RunsOption,
    SplitOption,
    load_judgments,
)
from assay.cli.verb import Result, argument
from assay.data.load import KNOWN
from assay.errors import DataError, UsageError
from assay.files import read_file
from assay.metrics.audit import AuditResult, ClaimAudit, audit_report
from assay.metrics.foreign_report import read_report
from assay.net.json import parse_json
from assay.report.numbers import count, counted, figure
from assay.run.folder import find_run

_DEFAULT = "nfcorpus"
_SHOWN = 5


def audit(
    context: click.Context,
    report: Annotated[
        str,
        argument(
            "REPORT.json|RUN",
            "An evaluation report in JSON, with the retrieved list of each query; or a run: its "
            "folder, its name, a prefix of its name or latest.",
        ),
    ],
    qrels: QrelsOption = None,
    dataset: JudgedDatasetOption = None,
    split: SplitOption = "test",
    columns: ColumnsOption = None,
    folder: RunsOption = Path("runs"),
) -> Result:
    """Recompute the scores of a report from its rankings. Explains each difference.

    Judgments come from --qrels, else --dataset, else the data set and split named in the report,
    else nfcorpus.

    Exit codes: 0 success, 1 a figure is wrong or the report contradicts itself, 2 usage or input
    error.
    """
    if columns and (qrels is not None or dataset is None):
        raise UsageError("--columns names columns of a table: add --dataset FILE")
    file = _report_file(report, folder)
    content = _read(file)
    with _errors_name_file(file):
        foreign = read_report(content)
    if qrels is None and dataset is None:
        dataset = _available_dataset(foreign.dataset) or _DEFAULT
        source = context.get_parameter_source("split")
        if foreign.split and (source is None or source.name == "DEFAULT"):
            split = foreign.split
    judging = load_judgments(qrels, dataset, split, columns or ())
    with _errors_name_file(file):
        result = audit_report(content, judging.judgments)
    return Result(
        _as_json(result, judging), _lines(result, judging), exit_code=0 if result.correct else 1
    )


def _report_file(name: str, runs: Path) -> Path:
    """A path as it is, with `report.json` for a folder; else the report of the run of that name."""
    path = Path(name)
    if path.is_dir():
        return path / "report.json"
    if path.exists() or path.suffix:
        return path
    return find_run(name, runs).report_file


def _read(path: Path) -> Any:
    try:
        return parse_json(read_file(path).removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    except orjson.JSONDecodeError as error:
        raise DataError(f"is not valid JSON: {error.msg}", file=path, line=error.lineno) from None


@contextmanager
def _errors_name_file(file: Path) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(str(error), file=file) from None


def _available_dataset(name: str | None) -> str | None:
    """The data set that a report names, if it can be loaded on this machine."""
    if name is None:
        return None
    return next((each for each in KNOWN if each == name.lower()), None) or (
        name if Path(name).exists() else None
    )


def _lines(result: AuditResult, judging: JudgmentSource) -> Iterator[str]:
    failed = f", of which {count(result.failed)} failed" if result.failed else ""
    queries = counted(result.queries, "query", "queries")
    yield f"{queries}{failed}, judged by {judging.source}"
    if result.unjudged:
        without = counted(len(result.unjudged), "query", "queries")
        first = repr(result.unjudged[0])
        yield f"{without} without a relevant document ignored, for example {first}"
    yield ""
    for claim in result.claims:
        yield sentence(claim)
        yield from _disagreements(claim)
    for contradiction in result.contradictions:
        yield f"contradicts itself: {contradiction}"


def sentence(claim: ClaimAudit) -> str:
    """What the report claims, what its lists give, and how the difference arose."""
    claimed, right = figure(claim.claimed), figure(claim.recomputed)
    opening = f"claims {claim.metric} {claimed}; its own lists give {right}: "
    if claim.flaws is None:
        own = claim.own_mean
        mean = "" if own is None else f"; the mean of its own per-query figures is {figure(own)}"
        return f"{opening}no known mistake explains the difference{mean}"
    if claim.flaws:
        return opening + ", and ".join(claim.flaws)
    if claim.disagreements:
        return f"{opening}the mean is right, but figures of single queries are not"
    return f"{opening}correct"


def _disagreements(claim: ClaimAudit) -> Iterator[str]:
    wrong = claim.disagreements
    for each in wrong[:_SHOWN]:
        yield f"  {each.query_id}: says {figure(each.claimed)}, is {figure(each.recomputed)}"
    if len(wrong) > _SHOWN:
        yield f"  and {counted(len(wrong) - _SHOWN, 'more query', 'more queries')} (all: --json)"


def _as_json(result: AuditResult, judging: JudgmentSource) -> dict[str, Any]:
    claims = [
        {
            **asdict(claim),
            "metric": claim.metric.slug,
            "correct": claim.correct,
            "verdict": sentence(claim),
        }
        for claim in result.claims
    ]
    facts: dict[str, Any] = {"contradictions": result.contradictions}
    facts |= {"judgments": judging.source, "correct": result.correct, "queries": result.queries}
    return {**facts, "failed": result.failed, "unjudged": result.unjudged, "claims": claims}
