"""`assay runs`, `assay report` and `assay compare`: what is in the run folders."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, say, show, warn
from assay.errors import AssayError

Out = Annotated[Path, typer.Option(help="Where run folders are.", envvar="ASSAY_OUT")]
if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.evaluation.run_folder import RunFolder

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Html = Annotated[
    Path | None, typer.Option("--html", help="Write a page to look at instead.", metavar="FILE")
]
Open = Annotated[bool, typer.Option("--open", help="Show the page in the browser.")]
Run = Annotated[str, typer.Argument(help="A run's folder, its name, the start of one, or latest.")]


def runs(out: Out = Path("runs"), as_json: AsJson = False) -> None:
    """List the runs, newest last."""
    from rich.table import Table

    from assay.evaluation.run_folder import list_runs
    from assay.report.numbers import with_interval

    rows = [_line_or_damage(run) for run in list_runs(out)]
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", no_wrap=True)
    for heading in ("track", "metric", "mean and 95% interval", "state"):
        table.add_column(heading)
    for row in rows:
        score = with_interval(row["mean"], row["low"], row["high"]) if "mean" in row else ""
        table.add_row(row["run"], row["track"], row.get("metric", ""), score, row["state"])
    if not rows:
        show(f"There is no run under {out} yet. Make one with: assay eval")
    else:
        show(table, wide=True)


def report(
    run: Run = "latest",
    html: Html = None,
    in_browser: Open = False,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Show a run's report again."""
    from assay.evaluation.report_page import NAME, report_page
    from assay.evaluation.run_folder import find_run
    from assay.report.terminal import render_report

    folder = find_run(run, out)
    page = folder.path / NAME
    if html is not None or (in_browser and not page.exists()):
        _write_page(html or page, report_page(folder, _dataset_of(folder)))
    if in_browser:
        _open(html or page)
    elif as_json:
        print_json(folder.read_report())
    elif html is None:
        show(render_report(folder.read_head(), path=str(folder.path)))


def compare(
    run_a: Run,
    run_b: Run = "latest",
    more: Annotated[
        list[str] | None, typer.Argument(help="Further runs to compare with A.", metavar="[RUN]...")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Compare in this metric. Repeatable.")
    ] = None,
    html: Html = None,
    in_browser: Open = False,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Compare run B, and any further ones, with run A, query by query."""
    from assay.evaluation.comparison import compare_with_each
    from assay.evaluation.run_folder import find_run
    from assay.measure.figures import parse_figure
    from assay.report.terminal import render_comparison

    folders = [find_run(each, out) for each in (run_a, run_b, *(more or ()))]
    _refuse_twice(folders)
    metrics = [parse_figure(text) for text in metric or ()]
    first, *others = [folder.read_report() for folder in folders]
    comparisons = [each.to_json() for each in compare_with_each(first, others, metrics)]
    if as_json:
        print_json(comparisons if more else comparisons[0])
    elif html is not None or in_browser:
        from assay.report.html_comparison import Side, render_comparison_page

        reports = zip(folders, [first, *others], strict=True)
        sides = [Side(folder.name, content) for folder, content in reports]
        page = html or _temporary_page()
        _write_page(page, render_comparison_page(sides, comparisons, _dataset_of(folders[0])))
        if in_browser:
            _open(page)
    else:
        show(*(part for each in comparisons for part in (render_comparison(each), "")))


def _refuse_twice(folders: "list[RunFolder]") -> None:
    from assay.errors import UsageError

    paths = [folder.path.resolve() for folder in folders]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise UsageError(
                f"run {folders[place].name!r} would be compared with itself; name another one, "
                "they are listed by: assay runs"
            )


def _line_or_damage(run: "RunFolder") -> dict[str, Any]:
    """One damaged folder must not hide the others."""
    try:
        return _line(run)
    except (AssayError, KeyError, TypeError, StopIteration):
        return {"run": run.name, "track": "", "state": "damaged"}


def _line(run: Any) -> dict[str, Any]:
    header = run.read_header()
    line = {"run": run.name, "track": header["track"], "state": run.state()}
    if not run.report.exists():
        return line
    content = run.read_head()
    metric, row = next(iter(content["statistics"].items()))
    return {**line, "metric": metric, "mean": row["mean"], "low": row["low"], "high": row["high"]}


def _dataset_of(folder: "RunFolder") -> "Dataset | None":
    from assay.evaluation.run_dataset import find_run_dataset

    dataset, why = find_run_dataset(folder.read_header())
    if dataset is None:
        warn(f"the page shows ids alone, without grades and texts: {why}")
    return dataset


def _write_page(path: Path, page: str) -> None:
    from assay.errors import UsageError

    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None
    say(f"wrote {path}")


def _temporary_page() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="assay-")) / "comparison.html"


def _open(path: Path) -> None:
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        warn(f"no browser was found; open {path} yourself")
