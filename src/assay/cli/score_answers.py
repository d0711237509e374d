"""The part of `assay score` for logged answers: which files hold them, and their figures."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from assay.cli.after_run import say_gates
from assay.cli.console import print_json, show, warn
from assay.cli.options import read_values
from assay.errors import DataError
from assay.net.json import JsonObject
from assay.run.settings import RunSetting, settings

if TYPE_CHECKING:
    from assay.evaluation.answers.logged_rows import ScoredAnswers
    from assay.run.run_record import GateResult


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
    from assay.data.table import SUFFIXES, holds_traces, read_table, table_suffix
    from assay.data.text_file import Record

    kind = table_suffix(path)
    if kind == ".parquet":
        return True
    try:
        if holds_traces(path):
            return True
        rows = read_table(path) if kind in SUFFIXES else iter(())
        # The first line may be the dirty one.
        for row, _ in zip(rows, range(20), strict=False):
            if isinstance(row, Record):
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
    say_gates(scored.gates)
    return 3 if scored.report.trouble else 0 if scored.gates_passed else 1


def _print_answers(scored: "ScoredAnswers", path: Path, as_json: bool) -> None:
    if as_json:
        print_json(_answers_json(scored, path))
        return
    from assay.report.terminal_answers import render_answers

    show(render_answers(scored.report), *gate_lines(scored.gates))


def gate_lines(gates: Sequence["GateResult"]) -> Iterator[str]:
    """How each gate ended, below the table."""
    for gate in gates:
        word = "passed" if gate.passed else "FAILED"
        yield f"gate  {gate.gate}  {word}: {_figure(gate.value)}"


def _figure(value: float | None) -> str:
    from assay.report.numbers import figure

    return "no value" if value is None else figure(value)


def _answers_json(scored: "ScoredAnswers", path: Path) -> Mapping[str, Any]:
    return {
        "file": str(path),
        "answers": scored.report.model_dump(mode="json"),
        "gates": gates_json(scored.gates),
        "skipped": list(scored.skipped),
    }


def gates_json(gates: Sequence["GateResult"]) -> list[JsonObject]:
    """How each gate ended, as JSON."""
    return [gate.model_dump(mode="json", exclude_unset=True) for gate in gates]


def _write_rows(out: Path, scored: "ScoredAnswers") -> None:
    from assay.data.text_file import write_file

    lines = (orjson.dumps(row.model_dump(mode="json")) for row in scored.rows())
    write_file(out, b"".join(line + b"\n" for line in lines))
