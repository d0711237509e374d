"""`assay audit`: check that the figures of a report follow from its own lists."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import click

from assay.cli.options import (
    ColumnsOption,
    JudgedDatasetOption,
    JudgmentSource,
    QrelsOption,
    RunsOption,
    SplitOption,
    load_judgments,
)
from assay.cli.verb import Result, argument, is_given
from assay.data.load import KNOWN
from assay.data.table import read_json
from assay.data.text_file import plain_file
from assay.errors import DataError, UsageError
from assay.metrics.audit import AuditResult, ClaimAudit, audit_report, read_report
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
    with _errors_name_file(file):
        foreign = read_report(content)
    if qrels is None and dataset is None:
        dataset = _available_dataset(foreign.dataset) or _DEFAULT
        if foreign.split and not is_given(context, "split"):
            split = foreign.split
    judging = load_judgments(qrels, dataset, split, columns or ())
    with _errors_name_file(file):
        result = audit_report(foreign, judging.judgments)
    value, text = _as_json(result, judging), _lines(result, judging)
    return Result(value, text, exit_code=0 if result.correct else 1)


@contextmanager
def _errors_name_file(file: Path) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(str(error), file=file) from None


def _available_dataset(name: str | None) -> str | None:
    """The data set that a report names, if it can be loaded on this machine."""
    known = next((each for each in KNOWN if name and each == name.lower()), None)
    return known or (name if name and Path(name).exists() else None)


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
        wrong = claim.disagreements
        for each in wrong[:_SHOWN]:
            yield f"  {each.query_id}: says {figure(each.claimed)}, is {figure(each.recomputed)}"
        if len(wrong) > _SHOWN:
            more = counted(len(wrong) - _SHOWN, "more query", "more queries")
            yield f"  and {more} (all: --json)"


def sentence(claim: ClaimAudit) -> str:
    """What the report claims, what its lists give, and how the difference arose."""
    claimed, right = figure(claim.claimed), figure(claim.recomputed)
    opening = f"claims {claim.metric} {claimed}; its own lists give {right}: "
    if claim.flaws is None:
        own = claim.own_mean
        mean = "" if own is None else f"; the mean of its per-query figures is {figure(own)}"
        return f"{opening}no known mistake explains the difference{mean}"
    if claim.flaws:
        return opening + ", and ".join(claim.flaws)
    if claim.disagreements:
        return f"{opening}the mean is right, but figures of single queries are not"
    return f"{opening}correct"


def _as_json(result: AuditResult, judging: JudgmentSource) -> dict[str, Any]:
    claims = [
        asdict(claim)
        | {"metric": claim.metric.slug, "correct": claim.correct, "verdict": sentence(claim)}
        for claim in result.claims
    ]
    return {
        "judgments": judging.source,
        "correct": result.correct,
        "queries": result.queries,
        "failed": result.failed,
        "unjudged": result.unjudged,
        "claims": claims,
    }
