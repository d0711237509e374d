"""Lines of runs: what is on disk is what they say, and only what compares is joined."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_dataset import tiny_dataset

from assay import Dataset, evaluate_agent
from assay.metrics.statistics import Estimate
from assay.run.calls import CallWriter
from assay.run.folder import RunFolder
from assay.run.listing import (
    Board,
    RunIndex,
    RunLine,
    build_trend,
    distinguish,
    list_lines,
    make_boards,
    newest_of_each_target,
    oldest_first,
    sort_lines,
)
from assay.run.models import RunHeader

Evaluate = Callable[..., str]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def evaluate(runs: Path) -> Evaluate:
    dataset = tiny_dataset(30)

    def one(name: str, right: int, data: Dataset = dataset, **settings: Any) -> str:
        """A target that is right on the first `right` queries, under a name of its own."""

        def answer(query: str, top_k: int) -> list[str]:
            number = int(query.split()[1])
            return [f"d{number}", f"d{number + 1}"] if number < right else ["d0"]

        answer.__qualname__ = name
        return evaluate_agent(answer, data, out=runs, **settings).folder.name

    return one


@pytest.fixture
def index(runs: Path) -> RunIndex:
    return RunIndex(runs)


def test_changed_runs_are_noticed(index: RunIndex, evaluate: Evaluate, runs: Path) -> None:
    def states() -> list[str]:
        index.refresh()
        return [line.state for line in index.lines()]

    first = evaluate("a", 3)
    assert states() == ["complete"]
    second = runs / evaluate("b", 3)
    assert states() == ["complete", "complete"]
    shutil.rmtree(runs / first)
    report = second / "report.json"
    report.write_bytes(report.read_bytes().replace(b'"complete"', b'"interrupted"', 1))
    assert states() == ["interrupted"]
    report.unlink()
    with CallWriter(second / "calls.jsonl"):
        assert states() == ["running"]
    assert states() == ["unfinished"]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("run.json", '"started"', '"began"'),
        ("run.json", '"format": 2', '"format": 9'),
        ("report.json", '{\n  "format"', '{\n  {"format"'),
        ("report.json", '"mean": ', '"mean": 1e300, "was": '),
        ("report.json", '"statistics": {\n    "ndcg@5"', '"statistics": {\n    "luck"'),
    ],
)
def test_one_damaged_run_does_not_hide_the_others(
    index: RunIndex, evaluate: Evaluate, runs: Path, file: str, old: str, new: str
) -> None:
    good, bad = evaluate("a", 3), evaluate("b", 3)
    text = (runs / bad / file).read_text()
    assert old in text
    (runs / bad / file).write_text(text.replace(old, new, 1))
    index.refresh()
    states = {line.name: line.state for line in index.lines()}
    assert states == {good: "complete", bad: "damaged"}


@pytest.mark.parametrize("name", ["half\udcff", "a\r\nb: c", "\u202ebackwards"])
def test_a_folder_with_a_name_that_nothing_can_show_is_passed_over(
    index: RunIndex, evaluate: Evaluate, runs: Path, name: str
) -> None:
    run = evaluate("a", 3)
    shutil.copytree(runs / run, runs / name)
    index.refresh()
    assert [line.name for line in (*list_lines(runs), *index.lines())] == [run, run]


def test_change_from_the_previous_run(index: RunIndex, evaluate: Evaluate, runs: Path) -> None:
    first, other, worse, same = (f"{number}-run" for number in range(4))
    for name, (target, right) in zip(
        (first, other, worse, same), (("a", 30), ("b", 30), ("a", 3), ("a", 3)), strict=True
    ):
        (runs / evaluate(target, right)).rename(runs / name)
    index.refresh()
    lines = {line.name: line for line in index.lines()}
    assert lines[first].change is None
    assert lines[other].change is None
    change = lines[worse].change
    assert change is not None
    assert (change.previous, change.better, change.significant) == (first, False, True)
    assert change.difference < -0.5
    again = lines[same].change
    assert again is not None
    assert (again.previous, again.difference, again.significant) == (worse, 0.0, False)
    assert sort_lines(index.lines(), "change")[0].name == worse


def test_a_baseline_has_no_label(index: RunIndex, evaluate: Evaluate, runs: Path) -> None:
    folder = RunFolder(runs / evaluate("a", 3))
    named = {"label": "mine", "baseline_of": "another"}
    folder.write_header(folder.read_header().model_copy(update=named))
    index.refresh()
    assert [line.label for line in index.lines()] == [None]


def boards(index: RunIndex, runs: Path, figure: str = "") -> list[Board]:
    index.refresh()
    newest = newest_of_each_target(index.lines())
    return make_boards(runs, oldest_first(newest), figure)


def targets(board: Board) -> list[str]:
    return [str(line.target).rpartition(":")[2] for _, line in board.places]


def test_a_board_holds_the_newest_run_of_each_target_and_only_what_compares(
    index: RunIndex, evaluate: Evaluate, runs: Path
) -> None:
    evaluate("a", 30)
    evaluate("b", 30)
    worse = evaluate("b", 6)  # newer runs of a target have larger names
    (runs / worse).rename(runs / f"9{worse}")
    evaluate("c", 30, num_queries=10, seed=1)
    evaluate("c2", 30, num_queries=10, seed=2)
    evaluate("d", 30, track="trained")
    evaluate("e", 30, data=tiny_dataset(31))
    found = boards(index, runs)
    assert sorted(map(targets, found)) == [["a", "b"], ["c"], ["c2"], ["d"], ["e"]]
    assert sorted(map(targets, found[-2:])) == [["c"], ["c2"]]  # samples come last
    (board,) = [each for each in found if len(each.places) == 2]
    assert board.places[1][1].name == f"9{worse}"
    assert boards(index, runs, "recall@5")[0].figure == "recall@5"
    assert boards(index, runs, "recall@50") == []


def test_ranks_are_tested_over_all_pairs(index: RunIndex, evaluate: Evaluate, runs: Path) -> None:
    """Six queries of thirty tell two targets apart; among ten pairs they could be chance."""
    for name, right in (("a", 30), ("b", 24)):
        evaluate(name, right)
    assert [ranks for ranks, _ in boards(index, runs)[0].places] == ["1", "2"]
    for name in ("c", "d", "e"):
        evaluate(name, 24)
    assert [ranks for ranks, _ in boards(index, runs)[0].places] == ["1–5"] * 5


def test_a_silent_target_has_no_place(index: RunIndex, evaluate: Evaluate, runs: Path) -> None:
    def refuses(query: str, top_k: int) -> list[str]:
        raise ValueError("closed")

    evaluate("a", 3)
    evaluate_agent(refuses, tiny_dataset(30), out=runs, retries=0)
    (board,) = boards(index, runs)
    assert targets(board) == ["a"]
    assert [name.rpartition(".")[2] for name in board.silent] == ["refuses"]


LINE = RunLine(
    *("0", "complete", "2026-10-01T08:00:00+00:00", "agent"),
    dataset="d",
    fingerprint="f",
    split="test",
    track="zero-shot",
    top_k=5,
    metric="ndcg@5",
    queries=30,
    failed=0,
    branch="main",
)


def point(number: int, line: dict[str, Any] | None = None, **changes: Any) -> RunLine:
    values = {"ndcg@5": Estimate(0.5, 0.4, 0.6)}
    made = replace(LINE, name=str(number), moment=86400.0 * number, values=values)
    return replace(made, **(line or {}), **changes)


def joined(*points: RunLine, figure: str = "ndcg@5") -> list[list[str]]:
    trend = build_trend(points, figure)
    return [[each.name for each in series.points] for series in trend.series]


def test_runs_of_one_branch_that_compare_are_one_series() -> None:
    assert joined(point(1), point(2), point(3, {"branch": "other"}), point(4)) == [
        ["1", "2", "4"],
        ["3"],
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fingerprint": "g"}, "the data changed"),
        ({"seed": 42, "queries": 10}, "a sample of 10 queries (seed 42) (before: all 30 queries)"),
        ({"top_k": 10}, "asked for 10 documents (before: 5)"),
        ({"track": "trained"}, "trained track (before: zero-shot)"),
    ],
)
def test_runs_that_do_not_compare_are_never_joined(change: dict[str, Any], words: str) -> None:
    points = (point(1), point(2, change), point(3))
    assert joined(*points) == [["1", "3"], ["2"]]
    (found,) = build_trend(points, "ndcg@5").changes
    assert (found.point.name, found.words, found.breaks) == ("2", words, True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"queries": 10, "seed": 1}, {"queries": 10, "seed": 2}),
        ({"shard": (0, 2)}, {"shard": (1, 2)}),
    ],
)
def test_samples_and_shards_are_never_joined(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert joined(point(1, one), point(2, other)) == [["1"], ["2"]]


def test_answers_that_were_judged_in_another_way_are_not_joined_but_their_rankings_are() -> None:
    values = {"ndcg@5": Estimate(0.5), "correctness": Estimate(0.5)}
    points = [point(n, values=values, answers_by=by) for n, by in ((1, "facts"), (2, "judge"))]
    assert joined(*points) == [["1", "2"]]
    assert joined(*points, figure="correctness") == [["1"], ["2"]]


def test_another_setting_is_told_and_does_not_break_the_line() -> None:
    points = (
        point(1, settings={"agent": "Finder 1", "reranker": "--reranker a"}),
        point(2, settings={"agent": "Finder 2"}),
    )
    trend = build_trend(points, "ndcg@5")
    assert len(trend.series) == 1
    assert [(each.words, each.breaks) for each in trend.changes] == [
        ("Finder 1 → Finder 2; without --reranker a", False)
    ]


def header(
    target: str = "builtin:bm25", config: dict[str, Any] | None = None, **changes: Any
) -> RunHeader:
    values: dict[str, Any] = {
        "started": "2026-11-15T08:30:00+00:00",
        "process": 1,
        "config": {"target": target, **(config or {})},
        "target": {"name": target, "protocol": "builtin", "details": ""},
        "track": "zero-shot",
        "dataset": {"name": "notes", "fingerprint": "f"},
        "versions": {"agent-assay": "0.2.0"},
    }
    return RunHeader.model_validate({**values, **changes})


def git(branch: str, commit: str = "a" * 40, dirty: bool = False) -> dict[str, Any]:
    return {"branch": branch, "commit": commit, "dirty": dirty}


MAIN, OTHER = git("main"), git("x", "b" * 40)


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ([header(label="old", git=MAIN), header(label="new", git=OTHER)], ["old, main", "new, x"]),
        (
            [header(), header(config={"bm25": ["b=0.4"], "top_k": 10})],
            ["--top-k 5", "--top-k 10, --bm25 b=0.4"],
        ),
        (  # what changes no score
            [header(config={"compare_to": "main"}, label="a"), header(label="b")],
            ["a", "b"],
        ),
        (
            [
                header(tags={"chunks": "256"}, retriever={"fusion": "rrf"}),
                header(tags={"chunks": "512"}, retriever={"fusion": "zscore"}),
            ],
            ["chunks=256, fusion rrf", "chunks=512, fusion zscore"],
        ),
        (
            [header(git=MAIN), header(git=git("main", "b" * 40, dirty=True))],
            ["aaaaaaaa", "bbbbbbbb with changes"],
        ),
        (
            [header(), header(started="2026-11-15T09:00:00+00:00")],
            ["2026-11-15 08:30:00", "2026-11-15 09:00:00"],
        ),
    ],
)
def test_runs_are_called_by_what_differs(headers: list[RunHeader], names: list[str]) -> None:
    assert distinguish(headers) == [f"builtin:bm25 ({name})" for name in names]
    alone = header("purple:hybrid")
    assert distinguish([alone, *headers])[0] == "purple:hybrid"  # it needs no more
