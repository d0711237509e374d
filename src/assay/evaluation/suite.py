"""A suite of `assay bench`: which targets to measure on which data sets, in which settings.

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
short = { bm25_k1 = 0.9 }
long = { bm25_k1 = 1.6 }
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import UsageError, did_you_mean
from assay.evaluation.plan import refuse_unused_settings
from assay.evaluation.results import metrics_for
from assay.files import read_text_file
from assay.measure.metrics import Metric, parse_metric
from assay.run.config import RunConfig
from assay.run.settings import command_settings, read_option_table

SUITES = Path(__file__).parent / "suites"
_TABLES = ("options", "targets", "datasets", "settings")
_ABOUT_DATA = ("dataset", "columns", "split", "num_queries", "seed")
_NOT_IN_SUITES = ("tag", "baseline", "compare_to")


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
        raise UsageError(f"{where} must be a text or a table of options, got {value!r}")
    return value


def _options(table: Mapping[str, Any], where: str, refused: Sequence[str] = ()) -> dict[str, Any]:
    for key in table:
        name = key.replace("-", "_")
        if name in _NOT_IN_SUITES:
            raise UsageError(f"{where}: {key!r} has no meaning in a suite, which compares all runs")
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
        raise UsageError(f"{path}: metric must be a text, got {name!r}")
    metric = parse_metric(name)
    for depth in depths:
        if metric not in metrics_for(depth):
            measured = ", ".join(map(str, metrics_for(depth)))
            raise UsageError(f"{path}: {metric} is not measured with top_k {depth}: {measured}")
    return metric
