"""Runs compared with an earlier one: which is found, and when a relative gate passes."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.tiny_dataset import tiny_dataset

from assay import Dataset, Run, evaluate
from assay.cli.app import app
from assay.errors import RunError, UsageError
from assay.evaluation.gates import parse_gate, regression_gate
from assay.run.folder import list_runs

Agent = Callable[[str, int], list[str]]


def right_below(limit: int) -> Agent:
    """Right on the queries with a number below `limit`."""

    def answer(query: str, top_k: int) -> list[str]:
        number = int(query.split()[1])
        return [f"d{number}"] if number < limit else []

    return answer


@pytest.fixture
def dataset() -> Dataset:
    return tiny_dataset(40)


@pytest.fixture
def main(dataset: Dataset, tmp_path: Path) -> Run:
    return evaluate(right_below(38), dataset, label="main", out=tmp_path)


@pytest.mark.parametrize(
    ("limit", "gate", "passed"),
    [
        (38, "ndcg@5>=main-0.01", True),  # the same answers
        (38, "ndcg@5>=main", True),
        (40, "ndcg@5 >= main - 0.01", True),
        (37, "ndcg@5>=main-0.01", False),  # -0.02, below the margin
        (37, "ndcg@5>=main-0.03", False),  # above it, but its interval is not
        (37, "ndcg@5>=main-0.3", True),
        (10, "ndcg@5<=main", True),
    ],
)
def test_a_relative_gate_passes_if_the_interval_is_beyond_the_margin(
    main: Run, dataset: Dataset, tmp_path: Path, limit: int, gate: str, passed: bool
) -> None:
    agent = right_below(limit)
    run = evaluate(agent, dataset, compare_to="main", gates=gate, out=tmp_path)
    (result,) = run.report.gates
    assert result.passed is passed
    margin = "" if passed else f"; the interval must lie above {gate[-5:]}00"
    assert str(result.reason).endswith(f"against {main.name}{margin}")
    assert run.comparison is not None
    assert run.comparison.run == main.name


def test_the_newest_comparable_run_is_found(main: Run, dataset: Dataset, tmp_path: Path) -> None:
    newer = evaluate(right_below(20), dataset, label="main", out=tmp_path)
    evaluate(right_below(20), dataset, label="main", top_k=10, out=tmp_path)
    evaluate(right_below(20), dataset, label="main", num_queries=5, out=tmp_path)
    evaluate(right_below(20), tiny_dataset(41), label="main", out=tmp_path)
    interrupted = evaluate(right_below(20), dataset, label="main", out=tmp_path)
    report = interrupted.folder.report_file
    report.write_bytes(report.read_bytes().replace(b'"complete"', b'"interrupted"', 1))
    names = ("main", main.name, str(main.folder))
    for name, expected in zip(names, (newer.name, main.name, main.name), strict=True):
        gate = f"ndcg@5<={name}+0.5"
        run = evaluate(right_below(3), dataset, compare_to=name, gates=gate, out=tmp_path)
        assert run.comparison is not None
        assert (run.comparison.run, run.report.gates[0].gate) == (expected, gate)


def test_of_a_branch_the_same_target_is_compared(dataset: Dataset, tmp_path: Path) -> None:
    def other(query: str, top_k: int) -> list[str]:
        return []

    def on_branch(agent: Agent) -> Run:
        run = evaluate(agent, dataset, out=tmp_path)
        header = json.loads(run.folder.header_file.read_bytes())
        header["git"] = {"branch": "trunk", "commit": None, "dirty": None, "remote": None}
        run.folder.header_file.write_text(json.dumps(header))
        return run

    def compared(agent: Agent) -> str | None:
        found = evaluate(agent, dataset, compare_to="trunk", out=tmp_path).comparison
        return None if found is None else found.run

    same, newer = on_branch(right_below(38)), on_branch(other)
    assert compared(right_below(20)) == same.name
    assert compared(lambda query, top_k: []) == newer.name  # this target was never run there


@pytest.mark.parametrize("queries", [6, 7])
def test_a_gate_that_too_few_queries_can_never_fail_says_so(tmp_path: Path, queries: int) -> None:
    few = tiny_dataset(queries)
    first = evaluate(right_below(queries), few, out=tmp_path)
    run = evaluate(right_below(0), few, compare_to=first, out=tmp_path)
    assert run.comparison is not None
    gate = regression_gate(run.comparison)
    assert gate.passed is (queries == 6)
    expected = "6 queries cannot show a regression, however large; use at least 7"
    assert str(gate.note).startswith(expected) is (queries == 6)


def test_changed_labels_apply_to_both_runs(main: Run, dataset: Dataset, tmp_path: Path) -> None:
    changed = {**dataset.judgments["test"], "q3": {"d9": 1}}
    relabeled = replace(dataset, judgments={"test": changed})
    gate = "ndcg@5>=main"
    run = evaluate(right_below(38), relabeled, compare_to="main", gates=gate, out=tmp_path)
    assert run.gates_passed
    assert run.comparison is not None
    assert run.comparison.metrics["ndcg@5"].difference == 0


def test_a_set_that_grows_is_compared_on_what_both_asked(main: Run, tmp_path: Path) -> None:
    options: dict[str, Any] = {"compare_to": main, "fail_on_regression": True, "out": tmp_path}
    of = "on 40 of 41 queries"
    for right, said in ((38, f"compared {of}"), (20, f"against {main.name} {of}")):
        run = evaluate(right_below(right), tiny_dataset(41), **options)
        assert run.comparison is not None
        gate = run.comparison.gate
        assert gate is not None
        assert gate.passed is run.gates_passed is (right == 38)
        assert str(gate.note if gate.passed else gate.reason).endswith(said)


def test_a_baseline_excludes_an_earlier_run(main: Run, dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        evaluate(right_below(3), dataset, compare_to="main", baseline="builtin:bm25")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"top_k": 3}, "asked for 5 documents a query, not 3"),
        ({"gates": "ndcg@3>=main-0.1"}, "has no nDCG@3, which a gate compares"),
    ],
)
def test_a_run_that_cannot_be_compared_with_fails_a_gate(
    main: Run, dataset: Dataset, tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    with pytest.warns(UserWarning, match=problem):
        run = evaluate(right_below(3), dataset, out=tmp_path, compare_to="main", **settings)
    assert not run.gates_passed
    assert run.comparison is None


def test_an_unknown_name_is_refused_at_once(main: Run, dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="label, branch or name 'mian'"):
        evaluate(right_below(3), dataset, out=tmp_path, compare_to="mian")
    assert [each.name for each in list_runs(tmp_path)] == [main.name]


def test_a_resumed_run_finds_its_reference_and_its_baseline_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Path:
        before = {*tmp_path.glob("mine/*")}
        done = CliRunner().invoke(app, ["eval", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return min({*tmp_path.glob("mine/*")} - before, default=tmp_path)

    started = ("builtin:bm25", "--dataset", "notes", "--out", "mine")
    run(*started, "--label", "main")
    compared = run(*started, "--compare-to", "main")
    run("--resume", str(compared))
    based = run(*started, "--baseline", "builtin:bm25", "--bm25", "k1=0.9")
    baseline = max(tmp_path.glob("mine/*"), key=lambda each: each != based and each.stat().st_mtime)
    shutil.rmtree(baseline)
    run("--resume", str(based))
    assert not (tmp_path / "runs").exists()


def test_a_margin_is_told_from_a_name_with_dashes() -> None:
    gate = parse_gate("ndcg@5>=fix-7-0.01", 5, "fix-7")
    assert (gate.reference, gate.bound) == ("fix-7", -0.01)
