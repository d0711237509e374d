"""`assay bench`: the runs of a suite as one piece of work that can be resumed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from assay.data.dataset import Dataset
from assay.errors import AssayError, TuningDeclined, UsageError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.plan import draw_queries, open_agent
from assay.evaluation.run import Run
from assay.evaluation.suite import Suite, SuiteCell
from assay.files import atomic_write, make_private_folder
from assay.measure.metrics import Metric
from assay.report.bench import NOT_RUN, BenchCell, BenchReport, Scores, rank_systems
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, list_runs
from assay.run.models import COMPLETE, INTERRUPTED

TAG = "bench"
_JUDGE_TOKENS = 900
"""Of one call: question, both answers and the instructions, for the estimate of costs."""

RunCell = Callable[[Evaluation, RunFolder | None], Run]
Load = Callable[[RunConfig], Dataset]


@dataclass(frozen=True, slots=True)
class Workload:
    """How much there is to do, before anything is asked."""

    runs: int
    queries: int
    judge_calls: int
    judge_cost: float | None
    unavailable: Mapping[str, str]
    """Data sets that cannot be loaded, each with the reason."""


def estimate(suite: Suite, load: Load, done: Mapping[tuple[str, str], RunFolder]) -> Workload:
    """Count what the suite will ask; data sets are loaded one after the other."""
    queries = calls = runs = 0
    costs: list[float | None] = []
    unavailable = {}
    for dataset, cells in _by_dataset(suite):
        todo = [cell for cell in cells if _state(done.get((cell.system, dataset))) != COMPLETE]
        if not todo:
            continue
        try:
            data = load(todo[0].config)
            for cell in todo:
                asked = len(draw_queries(data, cell.config))
                runs, queries = runs + 1, queries + asked
                if cell.config.judge:
                    calls += asked * cell.config.judge_votes
                    costs.append(_judge_cost(cell.config, asked))
        except AssayError as error:
            unavailable[dataset] = str(error)
    known = [cost for cost in costs if cost is not None]
    cost = sum(known) if len(known) == len(costs) else None
    return Workload(runs, queries, calls, cost, unavailable)


def _judge_cost(config: RunConfig, questions: int) -> float | None:
    from assay.answer.providers.provider import TokenUsage, price_of

    price = price_of(config.judge)
    if price is None:
        return None
    return price.of(TokenUsage(_JUDGE_TOKENS, 10)) * questions * config.judge_votes


def _by_dataset(suite: Suite) -> Iterator[tuple[str, list[SuiteCell]]]:
    for dataset in suite.datasets:
        yield dataset, [cell for cell in suite.cells if cell.dataset == dataset]


def _state(folder: RunFolder | None) -> str:
    return "" if folder is None else folder.state()


def runs_of(bench: str, suite: Suite, out: Path) -> dict[tuple[str, str], RunFolder]:
    """The runs that were made for this bench before, by system and data set."""
    tag = f"{TAG}={bench}"
    found = {}
    for folder in list_runs(out):
        try:
            config = folder.read_config()
        except AssayError:  # a damaged run is measured again
            continue
        if tag in config.tags:
            for cell in suite.cells:
                if replace(cell.config, tags=(tag,)) == config:
                    found[cell.system, cell.dataset] = folder
    return found


def missing_cells(bench: str, suite: Suite, out: Path) -> Iterator[tuple[str, list[SuiteCell]]]:
    """The runs that were never begun, by data set, with the settings that tie them to the bench."""
    begun = runs_of(bench, suite, out)
    for dataset, cells in _by_dataset(suite):
        missing = [
            replace(cell, config=replace(cell.config, tags=(f"{TAG}={bench}",)))
            for cell in cells
            if (cell.system, dataset) not in begun
        ]
        if missing:
            yield dataset, missing


def run_suite(
    suite: Suite,
    folder: Path,
    out: Path,
    *,
    load: Load,
    run_cell: RunCell,
    say: Callable[[str], None],
) -> BenchReport:
    """Run what has not been run, and report on all of it.

    A target that cannot be reached, or a data set that cannot be loaded, leaves its cells empty
    with the reason; the others are measured. An interrupted run ends the work: the same bench can
    be resumed.

    Parameters:
        folder: of the bench; its name ties the runs to it.
        out: where run folders go.
        load: loads the data set that a run's settings name.
        run_cell: runs an evaluation, or finishes the one in a folder.
        say: receives a line before each run.
    """
    done = runs_of(folder.name, suite, out)
    cells: list[BenchCell] = []
    scores: dict[tuple[str, str], Scores] = {}
    stopped = False
    for dataset, planned in _by_dataset(suite):
        data: Dataset | None = None
        for cell in planned:
            key = (cell.system, dataset)
            config = replace(cell.config, tags=(f"{TAG}={folder.name}",))
            try:
                run = _finished(done.get(key))
                if run is None and not stopped:
                    data = load(config) if data is None else data
                    say(f"{cell.system} on {dataset}: {len(cells) + 1} of {len(suite.cells)}")
                    open_agent(config, data)  # a wrong target is an error of this cell alone
                    run = run_cell(Evaluation.plan(config, data), done.get(key))
                    stopped = run.state == INTERRUPTED
            except AssayError as error:
                say(f"{cell.system} on {dataset}: {error}")
                cells.append(
                    BenchCell(
                        system=cell.system,
                        dataset=dataset,
                        state=NOT_RUN,
                        error=str(error),
                        not_tuned=error.reason if isinstance(error, TuningDeclined) else None,
                    )
                )
                continue
            if run is None:
                cells.append(BenchCell(system=cell.system, dataset=dataset, state=NOT_RUN))
                continue
            cells.append(_measured(cell, run, suite.metric))
            if run.state == COMPLETE and run.report.summary.successful_queries:
                scores[key] = {row.query_id: row.score(suite.metric) for row in run.rows()}
    systems, pairs = rank_systems(suite.targets, suite.datasets, cells, scores)
    report = BenchReport(
        suite=suite.name,
        metric=str(suite.metric),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        datasets=suite.datasets,
        systems=systems,
        cells=cells,
        pairs=pairs,
    )
    atomic_write(folder / "bench.json", report.model_dump_json(indent=2).encode())
    return report


def _finished(folder: RunFolder | None) -> Run | None:
    if folder is None or folder.state() != COMPLETE:
        return None
    return Run(folder, folder.read_report())


def _measured(cell: SuiteCell, run: Run, metric: Metric) -> BenchCell:
    report = run.report
    statistic = report.statistics[metric.slug]
    answered = report.summary.successful_queries > 0
    whole = run.state == COMPLETE and answered
    judge = report.answers.judge if report.answers else None
    return BenchCell(
        system=cell.system,
        dataset=cell.dataset,
        state=run.state,
        run=run.folder.name,
        error=None if whole else report.trouble,
        queries=report.summary.total_queries,
        failed=report.summary.failed_queries,
        mean=statistic.mean if whole else None,
        low=statistic.low if whole else None,
        high=statistic.high if whole else None,
        latency_p50_ms=report.summary.figure("latency_p50_ms") if answered else None,
        judge_cost=judge.spending.cost if judge and judge.spending else None,
        gates_passed=report.gates_passed,
    )


def create_bench(suite: Suite, out: Path) -> Path:
    """A folder for a new bench, with a copy of its suite."""
    now = datetime.now(UTC)
    folder = out / f"{now:%Y%m%d-%H%M%S}-bench-{suite.name}"
    try:
        make_private_folder(folder, exist_ok=False)
    except FileExistsError:
        raise UsageError(f"{folder} exists: a bench was started in this second") from None
    atomic_write(folder / "suite.toml", suite.text.encode())
    return folder


def find_bench(reference: str, out: Path) -> Path:
    """The folder of an earlier bench: its path, its name, the start of its name or `latest`."""
    for path in (Path(reference), out / reference):
        if (path / "suite.toml").is_file():
            return path
    found = sorted(path.parent for path in out.glob("*/suite.toml"))
    matches = found[-1:] if reference == "latest" else [
        path for path in found if path.name.startswith(reference)
    ]  # fmt: skip
    if len(matches) != 1:
        problem = "no bench is" if not matches else f"{len(matches)} benches are"
        raise UsageError(f"{problem} called {reference!r} under {out}")
    return matches[0]
