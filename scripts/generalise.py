"""How the reference retriever does on every data set of a folder: one table, in Markdown.

    .venv/bin/python scripts/generalise.py FOLDER [--out runs] [--queries N] [--no-tuned]

FOLDER holds data sets in BEIR layout, each a folder or a .zip; the bundled `notes` is
always measured. Two suites of `assay bench` are written and run: bm25, dense and hybrid on all of
them, and hybrid beside tuned on those that have train judgments. The table has a 95% interval for
every figure, the mean over the data sets, and the ranks that paired tests leave possible.

Settings of the retriever are chosen on NFCorpus dev, SciFact train and `notes`, never on what is
measured here.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.data import load_dataset
from assay.errors import AssayError
from assay.evaluation.bench import BenchCell, BenchReport

ZERO_SHOT = ("bm25", "dense", "hybrid")
TRAINED = ("hybrid", "tuned")
METRIC = "ndcg@10"
TRAIN = "train"
USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    found = dict(find_datasets(options.folder))
    if options.folder is not None and len(found) == 1:
        print(f"no data set in {options.folder}; did you mean its parent?", file=sys.stderr)
        return USAGE
    trained = {name: spec for name, (spec, splits) in found.items() if TRAIN in splits}
    everything = {name: spec for name, (spec, _) in found.items()}
    suites: dict[str, tuple[Sequence[str], dict[str, str]]]
    suites = {"generalise": (ZERO_SHOT, everything)}
    if options.tuned and trained:
        suites["generalise-tuned"] = (TRAINED, trained)
    options.out.mkdir(parents=True, exist_ok=True)
    status = 0
    for name, (modes, datasets) in suites.items():
        path = options.out / f"{name}.toml"
        path.write_text(suite(modes, datasets, options.queries), encoding="utf-8")
        command = [sys.executable, "-m", "assay", "bench", str(path), "--out", str(options.out)]
        done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, text=True, check=False)
        if not done.stdout.strip():
            return max(status, done.returncode)
        report = BenchReport.model_validate_json(done.stdout)
        print("\n".join(table(report)), flush=True)
        status = max(status, done.returncode)
    return status


def find_datasets(folder: Path | None) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Name, and what `--dataset` takes with the splits that it has; the bundled notes first."""
    yield "notes", ("notes", ())
    for path in sorted(folder.iterdir()) if folder else ():
        if path.is_dir() or path.suffix == ".zip":
            try:
                dataset = load_dataset(str(path))
            except AssayError as error:
                print(f"{path.name} is left out: {error}", file=sys.stderr)
                continue
            yield path.stem, (str(path.absolute()), tuple(dataset.judgments))


def suite(modes: Sequence[str], datasets: dict[str, str], queries: int | None) -> str:
    """A suite of `assay bench`, as TOML."""
    lines = [f'metric = "{METRIC}"', "", "[options]", "top_k = 100", "", "[targets]"]
    lines += [f'{mode} = "builtin:{mode}"' for mode in modes]
    lines += ["", "[datasets]"]
    for name, spec in datasets.items():
        limit = f", num_queries = {queries}" if queries else ""
        lines.append(f"{json.dumps(name)} = {{ dataset = {json.dumps(spec)}{limit} }}")
    return "\n".join(lines) + "\n"


def table(report: BenchReport) -> Iterator[str]:
    """Markdown: systems as columns, data sets as rows, then means and ranks."""
    names = [system.name for system in report.systems]
    yield f"| {report.metric} | queries | " + " | ".join(names) + " |"
    yield "|---|---|" + "---|" * len(names)
    for dataset in report.datasets:
        cells = [report.cell(name, dataset) for name in names]
        figures = " | ".join(_cell(one) for one in cells)
        yield f"| {dataset} | {max(one.queries for one in cells)} | {figures} |"
    means = " | ".join(_figure(one.mean, one.low, one.high) for one in report.systems)
    yield f"| mean over the data sets | | {means} |"
    yield "| rank | | " + " | ".join(one.ranks for one in report.systems) + " |"
    yield ""


def _cell(cell: BenchCell) -> str:
    if cell.error:
        return cell.error
    return _figure(cell.mean, cell.low, cell.high)


def _figure(mean: float | None, low: float | None, high: float | None) -> str:
    return "" if mean is None else f"{mean:.4f}{_interval(low, high)}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({low:.4f} to {high:.4f})"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the reference retriever on a folder of data sets")
    parser.add_argument("folder", nargs="?", type=Path, help="data sets, BEIR layout")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="where the runs go")
    parser.add_argument("--queries", type=int, help="at most so many of each data set")
    parser.add_argument(
        "--no-tuned", dest="tuned", action="store_false", help="no trained rankings"
    )
    options = parser.parse_args(arguments)
    if options.folder is not None and not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder")
    return options


if __name__ == "__main__":
    sys.exit(main())
