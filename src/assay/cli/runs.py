"""`assay runs`, `assay report` and `assay compare`: what is in the run folders."""

from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli.console import print_json, show

Out = Annotated[Path, typer.Option(help="Where run folders are.", envvar="ASSAY_OUT")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Run = Annotated[str, typer.Argument(help="A run's folder, its name, the start of one, or latest.")]


def runs(out: Out = Path("runs"), as_json: AsJson = False) -> None:
    """List the runs, newest last."""
    from rich.table import Table

    from assay.evaluate.run_folder import list_runs
    from assay.report.numbers import with_interval

    rows = [_line(run) for run in list_runs(out)]
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", overflow="fold")
    for heading in ("track", "metric", "mean and 95% interval", "state"):
        table.add_column(heading)
    for row in rows:
        score = with_interval(row["mean"], row["low"], row["high"]) if "mean" in row else ""
        table.add_row(row["run"], row["track"], row.get("metric", ""), score, row["state"])
    show(table if rows else f"There is no run under {out} yet. Make one with: assay eval")


def report(run: Run = "latest", out: Out = Path("runs"), as_json: AsJson = False) -> None:
    """Show a run's report again."""
    from assay.evaluate.run_folder import find_run
    from assay.report.terminal import render_report

    folder = find_run(run, out)
    content = folder.read_report()
    if as_json:
        print_json(content)
    else:
        show(render_report(content, path=str(folder.path)))


def compare(
    run_a: Run,
    run_b: Run = "latest",
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Compare in this metric. Repeatable.")
    ] = None,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Compare run B with run A, query by query."""
    from assay.evaluate.comparison import compare_reports
    from assay.evaluate.run_folder import find_run
    from assay.measure.metrics import parse_metric
    from assay.report.terminal import render_comparison

    folder_a, folder_b = find_run(run_a, out), find_run(run_b, out)
    metrics = [parse_metric(text) for text in metric or ()]
    comparison = compare_reports(folder_a.read_report(), folder_b.read_report(), metrics).to_json()
    if as_json:
        print_json(comparison)
    else:
        show(render_comparison(comparison))


def _line(run: Any) -> dict[str, Any]:
    header = run.read_header()
    line = {"run": run.name, "track": header["track"], "state": run.state()}
    if not run.report.exists():
        return line
    content = run.read_report()
    metric, row = next(iter(content["statistics"].items()))
    return {**line, "metric": metric, "mean": row["mean"], "low": row["low"], "high": row["high"]}
