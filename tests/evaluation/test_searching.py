"""Planted agents: each fault of an agent that searches shows in its own figure."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer
from assay.errors import DataError
from assay.evaluation.evaluation import run_evaluation
from assay.evaluation.merge import merge, merged_config
from assay.evaluation.run import Run
from assay.evaluation.searching import SearchedCalls, measure_searches, read_evidence
from assay.metrics.searches import Groups
from assay.report.terminal import search_lines
from assay.run.calls import CallLog
from assay.run.config import RunConfig
from assay.run.models import SearchReport
from assay.targets.python_call import as_agent

SIZE = 20


def _documents() -> dict[str, Document]:
    """Question n needs two notes: `a{n}` has its words, `b{n}` only those that `a{n}` names."""
    found = {}
    for n in range(SIZE):
        found[f"a{n}"] = Document(f"a{n}", f"Plan {n}", f"plan{n} is kept by keeper{n}")
        found[f"b{n}"] = Document(f"b{n}", f"Person {n}", f"keeper{n} lives in town{n}")
        found[f"x{n}"] = Document(f"x{n}", f"Other {n}", f"plan{n} noise")
    return found


HOPS = Dataset(
    name="hops",
    documents=_documents(),
    queries={f"q{n}": Query(f"q{n}", f"where does plan{n} end") for n in range(SIZE)},
    judgments={"test": {f"q{n}": {f"a{n}": 1, f"b{n}": 1} for n in range(SIZE)}},
    answers={
        f"q{n}": ReferenceAnswer(
            f"q{n}", f"In town{n}.", (Fact(f"town{n}", (f"town{n}",)),), (f"b{n}",)
        )
        for n in range(SIZE)
    },
)

Search = Callable[..., Awaitable[list[dict[str, Any]]]]


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["doc_id"] for hit in hits]


def number(query: str) -> str:
    return query.split("plan")[1].split()[0]


async def two_hops(query: str, top_k: int, search: Search) -> list[str]:
    """What a good agent does: reads who keeps the plan, then looks for that person."""
    await search(f"plan{number(query)}", top_k=2)
    await search(f"keeper{number(query)}", top_k=2)
    return [f"a{number(query)}", f"b{number(query)}"]


async def repeats(query: str, top_k: int, search: Search) -> list[str]:
    hits = [await search(f"plan{number(query)}", top_k=2) for _ in range(4)]
    return ids(hits[0])


async def stops_early(query: str, top_k: int, search: Search) -> list[str]:
    return ids(await search(f"plan{number(query)}", top_k=2))


async def drops(query: str, top_k: int, search: Search) -> list[str]:
    await two_hops(query, top_k, search)
    return [f"x{number(query)}"]


async def ignores(query: str, top_k: int) -> list[str]:
    return [f"a{number(query)}", f"b{number(query)}"]


async def reformulates_away(query: str, top_k: int, search: Search) -> list[str]:
    return ids(await search(f"town{int(number(query)) + 1}x noise", top_k=3))


async def from_memory(query: str, top_k: int, search: Search) -> dict[str, Any]:
    await search("noise", top_k=1)
    return {"doc_ids": [], "answer": f"In town{number(query)}."}


class Leaks:
    """Returns what its search for the question before found: a cache with the wrong key."""

    __name__ = "leaks"

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def __call__(self, query: str, top_k: int, search: Search) -> list[str]:
        before, self.kept = self.kept, await two_hops(query, top_k, search)
        return before


async def measured(agent: Any, out: Path, **changes: Any) -> Run:
    settings = {"dataset": "hops", "search": "builtin:bm25", "top_k": 2, "concurrency": 4}
    config = RunConfig(target=f"python:m:{agent.__name__}", **{**settings, **changes})
    found = as_agent(agent, name=f"python:{agent.__name__}")
    return await run_evaluation(config, HOPS, out=out, agent=found)


async def searches(agent: Any, out: Path, **changes: Any) -> tuple[SearchReport, dict[str, float]]:
    report = (await measured(agent, out, **changes)).report.search
    assert report is not None
    return report, {name: figure.mean for name, figure in report.figures.items()}


async def test_every_figure_of_a_known_trajectory(tmp_path: Path) -> None:
    """Two searches of two documents: a and x, then b and a. Nothing is lost; one is shown twice."""
    gates = ("evidence_recall>=0.9", "calls.p95<=2", "loop_gain>0.6")
    run = await measured(two_hops, tmp_path, gates=gates)
    assert [gate.passed for gate in run.report.gates] == [True, True, False]
    report = run.report.search
    assert report is not None
    assert {name: figure.mean for name, figure in report.figures.items()} == {
        "evidence_recall": 1,
        "evidence_complete": 1,
        "evidence_auc@10": pytest.approx((0.5 + 9) / 10),
        "search_loss": pytest.approx(0, abs=1e-12),
        "selection_loss": pytest.approx(0, abs=1e-12),
        "loop_gain": pytest.approx(0.5),  # the plain question finds a and x, never b
        "redundancy": pytest.approx(0.25),
        "overrun": 0,
        "kept": 1,
        "unseen": 0,
        "calls": 2,
    }
    assert [point.mean for point in report.curve] == [0.5, 1]
    assert report.figures["loop_gain"].low == 0.5
    assert report.blame is None


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (repeats, {"redundancy": 0.75, "overrun": 0.75, "evidence_recall": 0.5, "loop_gain": 0}),
        (stops_early, {"evidence_recall": 0.5, "calls": 1, "kept": 1, "redundancy": 0}),
        (drops, {"evidence_recall": 1, "kept": 0, "search_loss": 0, "selection_loss": 1}),
        (Leaks(), {"evidence_recall": 1, "unseen": 1, "kept": 0, "selection_loss": 1}),
        (ignores, {"calls": 0, "evidence_recall": 0, "unseen": 1, "search_loss": 0}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_faults_have_figures(agent: Any, expected: dict[str, float], tmp_path: Path) -> None:
    _, figures = await searches(agent, tmp_path)
    assert {name: figures[name] for name in expected} == pytest.approx(expected, abs=1e-9)


async def test_missing_documents_are_blamed(tmp_path: Path) -> None:
    report, _ = await searches(repeats, tmp_path)
    assert report.blame is not None
    assert report.blame.counts == {"never asked for": SIZE}
    report, _ = await searches(reformulates_away, tmp_path)
    assert report.blame is not None
    assert report.blame.counts["reformulated away"] == SIZE

    async def shallow(query: str, top_k: int, search: Search) -> list[str]:
        return ids(await search(f"keeper{number(query)}", top_k=1))

    report, _ = await searches(shallow, tmp_path)
    assert report.blame is not None
    assert report.blame.counts == {"cut too early": SIZE}

    async def unsteady(query: str, top_k: int, search: Search) -> list[str]:
        hops = 3 if number(query) == "0" else 1
        return ids([hit for _ in range(hops) for hit in await search(f"plan{number(query)}")])

    report, _ = await searches(unsteady, tmp_path)
    assert report.blame is not None
    assert report.blame.counts == {"stopped early": SIZE - 1, "never asked for": 1}


async def test_a_document_that_the_tool_cannot_find_is_the_tool_s_fault(tmp_path: Path) -> None:
    def broken(query: str, top_k: int) -> list[str]:
        return ["a0"]

    run = await measured(stops_early, tmp_path)
    searched = SearchedCalls(
        run.report.config, HOPS, list(HOPS.queries.values()), CallLog(run.folder.calls_file).read
    )
    tool = as_agent(broken, name="python:broken")
    rows = await measure_searches(searched, tool)
    assert {reason for row in rows for reason in row.missing.values()} == {"not findable"}


@pytest.mark.parametrize("fault", ["fails", "hangs"])
async def test_a_tool_that_fails_later_decides_nothing(fault: str, tmp_path: Path) -> None:
    async def broken(query: str, top_k: int) -> list[str]:
        if fault == "hangs":
            await asyncio.sleep(60)
        raise RuntimeError("gone")

    run = await measured(stops_early, tmp_path, timeout=0.2)
    log = CallLog(run.folder.calls_file)
    searched = SearchedCalls(run.report.config, HOPS, list(HOPS.queries.values())[:3], log.read)
    rows = await measure_searches(searched, as_agent(broken, name="python:broken"))
    assert not any(row.missing or "loop_gain" in row.figures for row in rows)


async def test_one_search_of_a_tool_that_repeats_itself_gains_nothing(tmp_path: Path) -> None:
    async def once(query: str, top_k: int, search: Search) -> list[str]:
        return ids(await search(query, top_k=5))

    run = await measured(once, tmp_path, search="python:tests.evaluation.test_searching:repeating")
    assert run.report.search is not None
    assert run.report.search.figures["loop_gain"].mean == 0


def repeating(query: str, top_k: int) -> list[str]:
    """A tool that returns one document four times before the next."""
    return [*[f"a{number(query)}"] * 4, f"b{number(query)}"][:top_k]


async def test_answers_are_told_apart_by_what_was_seen(tmp_path: Path) -> None:
    report, figures = await searches(from_memory, tmp_path, answers=True)
    assert report.quadrants is not None
    assert report.quadrants.knew_it == SIZE
    assert figures["evidence_complete"] == 0
    assert report.per_right["calls"] == 1

    async def reads(query: str, top_k: int, search: Search) -> dict[str, Any]:
        found = await two_hops(query, top_k, search)
        right = number(query) != "3"
        return {"doc_ids": found, "answer": f"In town{number(query)}." if right else "In Rome."}

    report, _ = await searches(reads, tmp_path, answers=True)
    assert report.quadrants is not None
    assert (report.quadrants.read_it, report.quadrants.did_not_read) == (SIZE - 1, 1)
    shown = " ".join(words for _, words in search_lines(report))
    assert "19 read it, 0 knew it without, 1 did not read it (5.0 points), 0 never" in shown


async def test_pass_at_n_and_flaky_questions(tmp_path: Path) -> None:
    asked: dict[str, int] = {}

    async def flaky(query: str, top_k: int) -> dict[str, Any]:
        asked[query] = asked.get(query, 0) + 1
        wrong = number(query) == "7" and asked[query] == 2
        return {"doc_ids": [], "answer": "In Rome." if wrong else f"In town{number(query)}."}

    gates = ("pass^3>=0.99", "pass@3>=0.99")
    run = await measured(flaky, tmp_path, search="", answers=True, repeat=3, gates=gates)
    trials = run.report.trials
    assert trials is not None
    assert trials.pass_all is not None
    assert trials.pass_any is not None
    assert (trials.pass_all.mean, trials.pass_any.mean) == ((SIZE - 1) / SIZE, 1)
    assert trials.flaky == ["q7"]
    assert [gate.passed for gate in run.report.gates] == [False, True]


@pytest.mark.parametrize("zipped", [True, False])
def test_evidence_in_groups(zipped: bool, tmp_path: Path) -> None:
    def read(line: str) -> dict[str, Groups]:
        if not zipped:
            (tmp_path / "evidence.jsonl").write_text(line + "\n")
            return read_evidence(tmp_path, HOPS)
        with ZipFile(tmp_path / "hops.zip", "w") as archive:
            archive.writestr("hops/evidence.jsonl", line)
        return read_evidence(tmp_path / "hops.zip", HOPS)

    first, second, third = list(HOPS.documents)[:3]
    query_id = next(iter(HOPS.queries))
    line = {"query_id": query_id, "groups": [[first, second], [third]]}
    assert read(json.dumps(line)) == {query_id: [{first, second}, {third}]}
    wrong: list[Any] = [[[]], [first], first, [], [[first], ["unknown"]]]
    for groups in wrong:
        with pytest.raises(DataError, match=r"is not evidence|does not have"):
            read(json.dumps({**line, "groups": groups}))
    with pytest.raises(DataError, match="'q99', which 'hops' does not have"):
        read(json.dumps({**line, "query_id": "q99"}))


async def test_shards_are_merged_with_their_searches(tmp_path: Path) -> None:
    whole = await measured(stops_early, tmp_path / "whole", repeat=2)
    shards = [
        await measured(stops_early, tmp_path / "shards", shard_index=n, num_shards=2, repeat=2)
        for n in range(2)
    ]
    folders = [shard.folder for shard in shards]
    merged = await merge(folders, merged_config(folders), HOPS, tmp_path / "merged")
    assert whole.report.search is not None
    assert merged.report.search is not None
    assert merged.report.search.figures == whole.report.search.figures
    assert merged.report.search.blame == whole.report.search.blame
    assert merged.report.trials == whole.report.trials


async def test_the_page_of_repeated_trials_shows_the_searches_of_the_first(tmp_path: Path) -> None:
    run = await measured(repeats, tmp_path, repeat=2)
    assert ">4 searches<" in run.folder.page_file.read_text()
