"""`assay bench`: the runs of a suite as one piece of work that can be resumed, in one table.

A suite is a TOML file with the tables [targets], [datasets] and [options]: see `suites/quick.toml`.
"""

import secrets
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.errors import AssayError, UsageError, did_you_mean
from assay.evaluation.plan import metrics_for, require_used_settings
from assay.evaluation.run import Run
from assay.files import atomic_write, make_private_folder, read_text_file
from assay.metrics.answer_values import StoredModel
from assay.metrics.metric import Metric, parse_metric
from assay.metrics.statistics import rank_ranges, summarize_strata
from assay.report.numbers import counted, figure, interval
from assay.run.config import RunConfig, command_settings, read_option_table
from assay.run.folder import LATEST, RunFolder, folder_at, list_runs
from assay.run.models import RunState

SUITES = Path(__file__).parent / "suites"
_SUITE_FILE = "suite.toml"
_ABOUT_DATA = ("dataset", "columns", "split", "num_queries", "seed")


@dataclass(frozen=True, slots=True)
class Suite:
    """What to measure. `text` is the file, which is kept with the results."""

    name: str
    metric: Metric
    cells: Mapping[tuple[str, str], RunConfig]  # by data set and system
    text: str


def find_suite(name: str) -> Path:
    """The file of a suite that is shipped, or the path itself. Raises `UsageError`."""
    shipped = {each.stem: each for each in SUITES.glob("*.toml")}
    path = Path(name).expanduser()
    if not path.is_file() and name not in shipped:
        choice, hint = ", ".join(sorted(shipped)), did_you_mean(name, shipped)
        raise UsageError(f"no suite {name!r}: it is neither a file nor one of {choice}{hint}")
    return path if path.is_file() else shipped[name]


def read_suite(path: Path, name: str = "") -> Suite:
    """Read a suite. Raises `UsageError`, which names the file, the table and the key."""
    try:
        text = read_text_file(path, encoding="utf-8-sig")
        content = tomllib.loads(text)
    except (ValueError, OSError) as error:
        raise UsageError(f"{path} is not a suite: {error}") from None
    tables = {key: content.get(key, {}) for key in ("options", "targets", "datasets")}
    wrong = [key for key in content if key not in (*tables, "metric")]
    wrong += [key for key, table in tables.items() if not isinstance(table, dict)]
    wrong += [key for key in ("targets", "datasets") if not tables[key]]
    if wrong:
        raise UsageError(
            f"{path}: {wrong[0]!r} is wrong or missing; a suite has the tables [targets] and "
            "[datasets], and may have [options] and metric"
        )
    common = _read_options(tables["options"], f"{path}: [options]", ("dataset", "columns"))
    cells = {}
    for dataset, source in tables["datasets"].items():
        about_data = _read_entry(source, "dataset", f"{path}: [datasets] {dataset!r}")
        for system, target in tables["targets"].items():
            where = f"{path}: [targets] {system!r}"
            own = _read_entry(target, "target", where, _ABOUT_DATA)
            config = RunConfig(**{**common, **about_data, **own})
            require_used_settings(config, given=own)
            cells[dataset, system] = config
    depths = {config.top_k for config in cells.values()}
    metric = parse_metric(str(content.get("metric", f"ndcg@{min(depths)}")))
    for depth in depths:
        if metric not in metrics_for(depth):
            raise UsageError(f"{path}: {metric} is not measured with top_k {depth}")
    return Suite(name or path.stem, metric, cells, text)


def _read_entry(
    value: object, key: str, where: str, not_here: Collection[str] = ()
) -> dict[str, Any]:
    """The settings of a target or a data set: a string, or a table with options beside it."""
    table = {key: value} if isinstance(value, str) else value
    if not isinstance(table, dict) or not isinstance(table.get(key), str) or not table[key]:
        raise UsageError(f'{where} needs {key} = "...", a string or a table of options')
    options = {name: each for name, each in table.items() if name != key}
    return {key: table[key], **_read_options(options, where, not_here)}


def _read_options(
    table: Mapping[str, Any], where: str, not_here: Collection[str]
) -> dict[str, Any]:
    for key in table:
        if key.replace("-", "_") in ("tag", *not_here):
            raise UsageError(
                f"{where}: {key!r} does not belong here: what is about the data goes into "
                "[datasets], and the tag is the bench's"
            )
    given = read_option_table(table, where)
    return {
        setting.name: tuple(given[setting.param]) if setting.kind is tuple else given[setting.param]
        for setting in command_settings()
        if setting.param in given
    }


class BenchCell(StoredModel):
    """One system on one data set; `error` says why there is no figure."""

    system: str
    dataset: str
    state: str = "not run"
    run: str | None = None
    error: str | None = None
    queries: int = 0
    failed: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    latency_p50_ms: float | None = None
    gates_passed: bool = True


class BenchSystem(StoredModel):
    """A target over all data sets, which count the same; no `mean` unless it was measured on all.

    `ranks` are the places that paired tests leave possible, `1` or `2–4`.
    """

    name: str
    target: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    ranks: str = ""


class BenchReport(StoredModel):
    """`bench.json`: every run of a suite, and the systems in order, the best first."""

    format: int = 3
    suite: str
    metric: str
    finished: str
    datasets: list[str]
    systems: list[BenchSystem]
    cells: list[BenchCell]

    def cell(self, system: str, dataset: str) -> BenchCell:
        """The result of a system on a data set."""
        return next(e for e in self.cells if (e.system, e.dataset) == (system, dataset))

    @property
    def gates_passed(self) -> bool:
        """Whether no gate of any run failed."""
        return all(cell.gates_passed for cell in self.cells)


def run_suite(
    suite: Suite,
    folder: Path,
    out: Path,
    run_cell: Callable[[RunConfig, RunFolder | None], Run],
    say: Callable[[str], None],
) -> BenchReport:
    """Run what has not been run, and write `bench.json` about all of it.

    A target that cannot be reached, or a data set that cannot be loaded, leaves its cells empty
    with the reason; the others are measured. An interrupted run ends the work: the same bench, to
    which the name of `folder` ties its runs, can be resumed.
    """
    earlier = {}
    for each in list_runs(out):
        with suppress(AssayError):  # a damaged run is measured again
            earlier[each.read_config()] = each
    cells: list[BenchCell] = []
    scores: dict[tuple[str, str], Mapping[str, float]] = {}
    for (dataset, system), planned in suite.cells.items():
        config = replace(planned, tags=(f"bench={folder.name}",))
        cell, made = BenchCell(system=system, dataset=dataset), earlier.get(config)
        try:
            if made is not None and made.state() == RunState.COMPLETE:
                run = Run(made, made.read_report())
            elif any(each.state == RunState.INTERRUPTED for each in cells):
                run = None
            else:
                say(f"{system} on {dataset}: {len(cells) + 1} of {len(suite.cells)}")
                run = run_cell(config, made)
            if run is not None:
                cell = _measured(cell, run, suite.metric)
                if cell.mean is not None:
                    rows = ((row.query_id, row.score(suite.metric)) for row in run.rows())
                    scores[system, dataset] = dict(rows)
        except AssayError as error:
            say(f"{system} on {dataset}: {error}")
            cell = cell.model_copy(update={"error": str(error)})
        cells.append(cell)
    datasets = list(dict.fromkeys(dataset for dataset, _ in suite.cells))
    targets = {system: config.target for (_, system), config in suite.cells.items()}
    report = BenchReport(
        suite=suite.name,
        metric=str(suite.metric),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        datasets=datasets,
        systems=rank_systems(targets, datasets, scores),
        cells=cells,
    )
    atomic_write(folder / "bench.json", report.model_dump_json(indent=2).encode())
    return report


def _measured(cell: BenchCell, run: Run, metric: Metric) -> BenchCell:
    """The cell with the figures of its run."""
    report, summary = run.report, run.report.summary
    changes: dict[str, object] = {
        "state": report.state,
        "run": run.name,
        "queries": summary.total_queries,
        "failed": summary.failed_queries,
        "gates_passed": report.gates_passed,
    }
    if report.state == RunState.COMPLETE and summary.successful_queries:
        row = report.statistics[metric.slug]
        changes |= {"mean": row.mean, "low": row.low, "high": row.high}
        changes["latency_p50_ms"] = report.latency_ms.p50
    else:
        changes["error"] = report.failure_reason
    return cell.model_copy(update=changes)


def rank_systems(
    targets: Mapping[str, str],
    datasets: Sequence[str],
    scores: Mapping[tuple[str, str], Mapping[str, float]],
) -> list[BenchSystem]:
    """The systems, best first; those that were not measured on every data set come last.

    `targets` are by system, `scores` by query for each system and data set.
    """
    found, rest = [], []
    for name, target in targets.items():
        system = BenchSystem(name=name, target=target)
        if all((name, each) in scores for each in datasets):
            strata = [list(scores[name, each].values()) for each in datasets]
            mean, low, high = summarize_strata(strata)
            found.append(system.model_copy(update={"mean": mean, "low": low, "high": high}))
        else:
            rest.append(system)
    found.sort(key=lambda system: -(system.mean or 0.0))
    ranges = rank_ranges([[scores[system.name, each] for each in datasets] for system in found])
    ranked = [
        system.model_copy(update={"ranks": ranks})
        for system, ranks in zip(found, ranges, strict=True)
    ]
    return ranked + rest


def create_bench(suite: Suite, out: Path) -> Path:
    """A folder for a new bench, with a copy of its suite."""
    stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = out / f"{stamp}-bench-{suite.name}"
    make_private_folder(folder, exist_ok=False)
    atomic_write(folder / _SUITE_FILE, suite.text.encode())
    return folder


def find_bench(reference: str, out: Path) -> Path:
    """The folder of an earlier bench: its path, its name or `latest`. Raises `UsageError`."""
    if path := folder_at(reference, out, _SUITE_FILE):
        return path
    benches = sorted(path.parent for path in out.glob(f"*/{_SUITE_FILE}"))
    if reference != LATEST or not benches:
        raise UsageError(f"no bench {reference!r} under {out}; create one with: assay bench SUITE")
    return benches[-1]


def render_bench(report: BenchReport) -> RenderableType:
    """A line for each system, a column for each data set, then what was not measured."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("rank")
    table.add_column("system")
    for heading in ("mean", "95% interval", *report.datasets):
        table.add_column(heading, justify="right")
    for system in report.systems:
        cells = [report.cell(system.name, dataset) for dataset in report.datasets]
        table.add_row(
            system.ranks,
            system.name,
            figure(system.mean),
            interval(system.low, system.high),
            *(cell.state if cell.mean is None else figure(cell.mean) for cell in cells),
        )
    over = counted(len(report.datasets), "data set")
    title = Text(f"{report.suite}: {report.metric}, mean over {over}")
    missing = [
        Text(f"{cell.system} on {cell.dataset} was not measured: {cell.error}")
        for cell in report.cells
        if cell.error
    ]
    return Group(title, Text(), table, Text(), *missing)
