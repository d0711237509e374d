"""Commands that are broken off at every step: evaluations here, `data_scenarios` beside."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.data_scenarios import DATA_SCENARIOS, Scenario, assay, prepare_data, write_lines

# eval ---------------------------------------------------------------------------------------------

_TIMES = ("second", "latency", "time", "at", "started", "process")


def _run_digest() -> Any:
    from assay.run.folder import find_run, list_runs

    runs = list(list_runs(Path("runs")))
    assert [run.state() for run in runs] == ["complete"] * len(runs), "a run is not complete"
    folder = find_run("latest", Path("runs"))
    folder.validate()
    left = [path.name for run in runs for path in run.path.rglob("*.part")]
    assert not left, f"left behind: {left}"
    assert folder.page_file.read_text().rstrip().endswith("</html>"), "half a page"
    assert all(run.summary_file.read_text() for run in runs if not run.is_baseline())
    return {"runs": len(runs), "report": _without_times(folder.read_json())}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if not _is_time(name)}
        return {name: _without_times(each) for name, each in kept.items()}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def _is_time(name: str) -> bool:
    """`run` and `baseline_of` are names of folders, which hold the time; spending depends on what
    the cache already had."""
    return name in ("run", "merged_from", "spending") or any(
        part in _TIMES for word in name.split("_") for part in (word, word.rstrip("s"))
    )


def _evaluate(*more: str) -> Callable[[], int]:
    def run() -> int:
        return assay(
            *("eval", "python:target:retrieves", "--dataset", "tiny", "--top-k", "2"),
            *("--concurrency", "1", *more),
        )

    return run


def _resume(otherwise: Callable[[], int]) -> Callable[[], int]:
    """As the message of the failed run says; a run that never began is started again."""

    def run() -> int:
        begun = any(Path("runs").glob("*/run.json"))
        return assay("eval", "--resume", "latest") if begun else otherwise()

    return run


def _prepare_resume() -> None:
    """A run that was killed in its third call."""
    prepare_data()
    assert _evaluate()() == 0
    (folder,) = Path("runs").iterdir()
    for path in folder.iterdir():
        if path.name not in ("run.json", "calls.jsonl"):
            path.unlink()
    calls = (folder / "calls.jsonl").read_bytes()
    third = sum(map(len, calls.splitlines(keepends=True)[:2])) + 20
    (folder / "calls.jsonl").write_bytes(calls[:third])


# merge --------------------------------------------------------------------------------------------


def _prepare_merge() -> None:
    """The two shards of one evaluation."""
    prepare_data()
    for shard in ("1/2", "2/2"):
        assert _evaluate("--shard", shard)() == 0


def _merge() -> int:
    from assay.run.folder import list_runs

    shards = [run.name for run in list_runs(Path("runs")) if not run.read_header().merged_from]
    return assay("merge", *shards)


def _merge_again() -> int:
    from assay.run.folder import list_runs

    merged = any(run.read_header().merged_from for run in list_runs(Path("runs")))
    return 0 if merged else _merge()


def _merge_digest() -> Any:
    """The shards are as they were, and there is one merged run, whole; its summary may be missing
    where the command was killed after all else was written."""
    from assay.run.folder import find_run, list_runs

    runs = list(list_runs(Path("runs")))
    assert [run.state() for run in runs] == ["complete"] * 3, "not three complete runs"
    folder = find_run("latest", Path("runs"))
    folder.validate()
    return {"report": _without_times(folder.read_json())}


# judge --------------------------------------------------------------------------------------------


def _prepare_judge() -> None:
    write_lines(
        "labels.jsonl",
        [
            {"question": f"Which {n}?", "answer": f"{n}", "reference": f"{n % 3}", "label": n < 3}
            for n in range(4)
        ],
    )


def _judge() -> int:
    result = assay("judge", "calibrate", "labels.jsonl", "--judge-set", "votes=1", "--json")
    sys.stdout.flush()
    return result


def _judge_digest() -> Any:
    """What the command prints, from replies that are all in the cache by now."""
    import sqlite3

    with sqlite3.connect("cache/replies.sqlite3") as database:
        (kept,) = database.execute("SELECT count(*) FROM replies").fetchone()
    printed = json.loads(Path("../stdout").read_text())
    return {"replies": kept, "result": _without_times({**printed, "judge": None})}


def _answers() -> int:
    """Answers that a model judges: calls, replies, rows of answers, report."""
    return assay(
        *("eval", "python:target:answers", "--dataset", "tiny", "--top-k", "2", "--answers"),
        *("--concurrency", "1", "--judge", "openai:judge", "--judge-set", "votes=1"),
        *("--num-queries", "3"),
    )


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("eval", prepare_data, _evaluate(), _resume(_evaluate()), _run_digest),
        Scenario(
            "resume", _prepare_resume, _resume(_evaluate()), _resume(_evaluate()), _run_digest
        ),
        Scenario("answers", prepare_data, _answers, _resume(_answers), _run_digest),
        Scenario("merge", _prepare_merge, _merge, _merge_again, _merge_digest),
        Scenario("judge", _prepare_judge, _judge, _judge, _judge_digest),
        *DATA_SCENARIOS,
    )
}
