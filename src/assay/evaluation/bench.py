"""`assay bench`: the runs of a suite as one piece of work that can be resumed.

A suite says which targets to measure on which data sets, in which settings:

metric = "ndcg@10"            # the figure of the table; nDCG at top_k by default

[options]                     # options of `assay eval`, for every run
top_k = 10

[targets]
bm25 = "builtin:bm25"
mine = { target = "rest:http://localhost:8080/search?q={query}", map = ["ids=hits[].id"] }

[datasets]
notes = "notes"
papers = { dataset = "papers.zip", split = "dev", num_queries = 200 }

[settings]                    # optional: every target is measured in each of these
short = { bm25 = "k1=0.9" }
long = { bm25 = "k1=1.6" }
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.data.dataset import Dataset
from assay.errors import AssayError, TuningDeclined, UsageError, did_you_mean
from assay.evaluation.plan import draw_queries, open_agent, refuse_unused_settings
from assay.evaluation.results import metrics_for
from assay.evaluation.run import Run
from assay.files import atomic_write, make_private_folder, read_text_file
from assay.metrics.metric import Metric, parse_metric
from assay.report.bench import NOT_RUN, BenchCell, BenchReport, BenchScores, rank_systems
from assay.run.config import RunConfig
from assay.run.find import BENCHES, LATEST
from assay.run.folder import RunFolder, list_runs
from assay.run.settings import command_settings, read_option_table
from assay.run.state import RunState

SUITES = Path(__file__).parent / "suites"
_TABLES = ("options", "targets", "datasets", "settings")
_ABOUT_DATA = ("dataset", "columns", "split", "num_queries", "seed")
_NOT_IN_SUITES = ("tag", "baseline", "compare_to")

TAG = "bench"
_JUDGE_TOKENS = 900
"""Of one call: question, both answers and the instructions, for the estimate of costs."""

RunCell = Callable[[RunConfig, Dataset, RunFolder | None], Run]
LoadDataset = Callable[[RunConfig], Dataset]


@dataclass(frozen=True, slots=True)
class SuiteCell:
    """One run of a suite: a system, which is a target in one setting, on one data set."""

    system: str
    dataset: str
    config: RunConfig


@dataclass(frozen=True, slots=True)
class Suite:
    """What to measure. `text` is the file, which is kept with the results."""

    name: str
    metric: Metric
    cells: Sequence[SuiteCell]
    text: str

    @property
    def targets(self) -> dict[str, str]:
        """The target of each system, by the system's name."""
        return {cell.system: cell.config.target for cell in self.cells}

    @property
    def datasets(self) -> list[str]:
        """Their names in the suite."""
        return list(dict.fromkeys(cell.dataset for cell in self.cells))


def find_suite(name: str) -> Path:
    """The file of a suite that is shipped, or the path itself. Raises `UsageError`."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    shipped = {each.stem: each for each in SUITES.glob("*.toml")}
    if name in shipped:
        return shipped[name]
    raise UsageError(
        f"no suite {name!r}: it is neither a file nor one of {', '.join(sorted(shipped))}"
        f"{did_you_mean(name, shipped)}"
    )


def read_suite(path: Path, name: str = "") -> Suite:
    """Read a suite. Raises `UsageError`, which names the file, the table and the key."""
    try:
        text = read_text_file(path, encoding="utf-8-sig")
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} is not a suite: {error}") from None
    return _suite(content, name or path.stem, text, path)


def _suite(content: Mapping[str, Any], name: str, text: str, path: Path) -> Suite:
    unknown = [key for key in content if key not in ("metric", *_TABLES)]
    if unknown:
        raise UsageError(
            f"{path}: {unknown[0]!r} is not one of metric, [{'], ['.join(_TABLES)}]; options of "
            "assay eval go into [options]"
        )
    tables = {key: content.get(key, {}) for key in _TABLES}
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {key!r} must be a table: [{key}]")
    common = _options(tables["options"], f"{path}: [options]", refused=("dataset", "columns"))
    targets = _named(tables["targets"], "target", path, refused=_ABOUT_DATA)
    datasets = _named(tables["datasets"], "dataset", path)
    settings = {}
    for name_of, table in tables["settings"].items():
        where = f"{path}: [settings] {name_of!r}"
        settings[name_of] = _options(_require_table(table, where), where, refused=_ABOUT_DATA)
    cells = []
    for dataset, (source, about_data) in datasets.items():
        for target, (spec, own) in targets.items():
            for setting, changed in (settings or {"": {}}).items():
                values = _config_values({**common, **about_data, **own, **changed})
                config = RunConfig(target=spec, dataset=source, **values)
                refuse_unused_settings(config, given=_config_values(own))
                system = f"{target}, {setting}" if setting else target
                cells.append(SuiteCell(system, dataset, config))
    metric = _metric(content.get("metric"), cells, path)
    return Suite(name, metric, cells, text)


def _named(
    table: Mapping[str, Any], key: str, path: Path, refused: Sequence[str] = ()
) -> dict[str, tuple[str, dict[str, Any]]]:
    if not table:
        raise UsageError(f'{path} has no [{key}s]; add at least one, such as: name = "..."')
    found = {}
    for name, value in table.items():
        where = f"{path}: [{key}s] {name!r}"
        given = {key: value} if isinstance(value, str) else _require_table(value, where)
        if not isinstance(given.get(key), str) or not given[key]:
            raise UsageError(f'{where} needs {key} = "..."')
        own = {each: text for each, text in given.items() if each != key}
        found[name] = (given[key], _options(own, where, refused))
    return found


def _require_table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a string or a table of options, got {value!r}")
    return value


def _options(table: Mapping[str, Any], where: str, refused: Sequence[str] = ()) -> dict[str, Any]:
    for key in table:
        name = key.replace("-", "_")
        if name in _NOT_IN_SUITES:
            raise UsageError(
                f"{where}: {key!r} has no effect in a suite, which compares all runs; remove it"
            )
        if name in refused:
            raise UsageError(
                f"{where}: {key!r} is about the data: write it in [datasets], because all targets "
                "are compared on the same queries"
            )
    return read_option_table(table, where)


def _config_values(given: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for setting in command_settings():
        if setting.param in given:
            value = given[setting.param]
            values[setting.name] = tuple(value) if setting.kind is tuple else value
    return values


def _metric(name: Any, cells: Sequence[SuiteCell], path: Path) -> Metric:
    depths = {cell.config.top_k for cell in cells}
    if name is None:
        if len(depths) > 1:
            raise UsageError(
                f'{path}: runs ask for different numbers of documents; add metric = "ndcg@'
                f'{min(depths)}" to say which figure is compared'
            )
        return metrics_for(depths.pop())[0]
    if not isinstance(name, str):
        raise UsageError(f"{path}: metric must be a string, got {name!r}")
    metric = parse_metric(name)
    for depth in depths:
        if metric not in metrics_for(depth):
            measured = ", ".join(map(str, metrics_for(depth)))
            raise UsageError(f"{path}: {metric} is not measured with top_k {depth}: {measured}")
    return metric


@dataclass(frozen=True, slots=True)
class Workload:
    """How much there is to do, before anything is asked."""

    runs: int
    queries: int
    judge_calls: int
    judge_cost: float | None
    unavailable: Mapping[str, str]
    """Data sets that cannot be loaded, each with the reason."""


def estimate(
    suite: Suite, load: LoadDataset, done: Mapping[tuple[str, str], RunFolder]
) -> Workload:
    """Count what the suite will ask; data sets are loaded one after the other."""
    queries = calls = runs = 0
    costs: list[float | None] = []
    unavailable = {}
    for dataset, cells in _by_dataset(suite):
        todo = [cell for cell in cells if _finished(done.get((cell.system, dataset))) is None]
        if not todo:
            continue
        try:
            data = load(todo[0].config)
            for cell in todo:
                asked = len(draw_queries(data, cell.config))
                runs, queries = runs + 1, queries + asked
                if cell.config.judge:
                    calls += asked * cell.config.judge_set.votes
                    costs.append(_judge_cost(cell.config, asked))
        except AssayError as error:
            unavailable[dataset] = str(error)
    known = [cost for cost in costs if cost is not None]
    cost = sum(known) if len(known) == len(costs) else None
    return Workload(runs, queries, calls, cost, unavailable)


def _judge_cost(config: RunConfig, questions: int) -> float | None:
    from assay.llm.providers.provider import TokenUsage, price_of

    price = price_of(config.judge)
    if price is None:
        return None
    return price.of(TokenUsage(_JUDGE_TOKENS, 10)) * questions * config.judge_set.votes


def _by_dataset(suite: Suite) -> Iterator[tuple[str, list[SuiteCell]]]:
    for dataset in suite.datasets:
        yield dataset, [cell for cell in suite.cells if cell.dataset == dataset]


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
    load: LoadDataset,
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
    scores: dict[tuple[str, str], BenchScores] = {}
    stopped = False
    for dataset, planned in _by_dataset(suite):
        data: Dataset | None = None
        for cell in planned:
            key = (cell.system, dataset)
            config = replace(cell.config, tags=(f"{TAG}={folder.name}",))
            empty = BenchCell(system=cell.system, dataset=dataset, state=NOT_RUN)
            try:
                run = _finished(done.get(key))
                if run is None and not stopped:
                    data = load(config) if data is None else data
                    say(f"{cell.system} on {dataset}: {len(cells) + 1} of {len(suite.cells)}")
                    open_agent(config, data)  # a wrong target is an error of this cell alone
                    run = run_cell(config, data, done.get(key))
                    stopped = run.state == RunState.INTERRUPTED
            except AssayError as error:
                say(f"{cell.system} on {dataset}: {error}")
                reason = error.reason if isinstance(error, TuningDeclined) else None
                failed = {"error": str(error), "not_tuned": reason}
                cells.append(empty.model_copy(update=failed))
                continue
            if run is None:
                cells.append(empty)
                continue
            cells.append(
                BenchCell.of(cell.system, dataset, run.folder.name, run.report, suite.metric)
            )
            if run.state == RunState.COMPLETE and run.report.summary.successful_queries:
                scores[key] = {row.query_id: row.score(suite.metric) for row in run.rows()}
    report = _bench_report(suite, cells, scores)
    atomic_write(folder / "bench.json", report.model_dump_json(indent=2).encode())
    return report


def _bench_report(
    suite: Suite, cells: list[BenchCell], scores: Mapping[tuple[str, str], BenchScores]
) -> BenchReport:
    systems, pairs = rank_systems(suite.targets, suite.datasets, cells, scores)
    return BenchReport(
        suite=suite.name,
        metric=str(suite.metric),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        datasets=suite.datasets,
        systems=systems,
        cells=cells,
        pairs=pairs,
    )


def _finished(folder: RunFolder | None) -> Run | None:
    if folder is None or folder.state() != RunState.COMPLETE:
        return None
    return Run(folder, folder.read_report())


def create_bench(suite: Suite, out: Path) -> Path:
    """A folder for a new bench, with a copy of its suite."""
    now = datetime.now(UTC)
    folder = out / f"{now:%Y%m%d-%H%M%S}-bench-{suite.name}"
    try:
        make_private_folder(folder, exist_ok=False)
    except FileExistsError:
        raise UsageError(
            f"{folder} exists: another bench was started in the same second; run this one again"
        ) from None
    atomic_write(folder / BENCHES.marker, suite.text.encode())
    return folder


def find_bench(reference: str, out: Path) -> Path:
    """The folder of an earlier bench: its path, its name, the start of its name or `latest`."""
    if path := BENCHES.at(reference, out):
        return path
    found = sorted(path.parent for path in out.glob(f"*/{BENCHES.marker}"))
    if reference == LATEST:
        return BENCHES.latest(reversed(found), out)
    matches = [path for path in found if path.name.startswith(reference)]
    return BENCHES.only(reference, matches, (path.name for path in found), out)
