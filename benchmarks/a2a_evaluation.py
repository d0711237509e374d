"""What an evaluation over A2A costs, and who pays: the agent, the libraries, or Assay.

    NFCORPUS_ARCHIVE=nfcorpus.zip .venv/bin/python benchmarks/a2a_evaluation.py [--calls 10000]

Starts the bm25 purple agent as a process of its own, evaluates all test queries of NFCorpus with
eight out at once, and prints lines for benchmarks/README.md. Then it evaluates again under a
profiler for the shares of the evaluator's time. With --calls it goes on asking, and shows the
memory of both processes on the way.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.data import Dataset, load_dataset
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.targets.builtin import PurpleProcess
from assay.targets.protocol import Agent, AgentAnswer, AgentInfo
from assay.targets.target_kinds import OpenContext, parse_target

CONCURRENCY = 8
LIBRARIES = "asyncio, HTTP and other libraries"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Opened:
    """An agent that stays open between evaluations, so that its start is not timed."""

    inner: PurpleProcess

    @property
    def info(self) -> AgentInfo:
        return self.inner.info

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        return await self.inner.ask(query, top_k)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_of(pid: int) -> float:
    """Resident megabytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


async def evaluate(agent: Agent, dataset: Dataset, out: Path) -> Run:
    config = RunConfig(target="purple:bm25", dataset="nfcorpus", concurrency=CONCURRENCY)
    return await Evaluation.plan(config, dataset).start(agent, out)


async def timed(agent: Opened, pid: int, dataset: Dataset, out: Path) -> tuple[float, float]:
    """CPU seconds of the agent and of the evaluator."""
    agent_cpu, own_cpu, started = cpu_of(pid), time.process_time(), time.perf_counter()
    outcome = await evaluate(agent, dataset, out)
    wall = time.perf_counter() - started
    own_cpu, agent_cpu = time.process_time() - own_cpu, cpu_of(pid) - agent_cpu
    asked = outcome.report.summary.successful_queries
    calls = outcome.report.summary.total_time_seconds
    assert asked == len(dataset.queries_in("test"))
    print(f"| evaluation over A2A, bm25 | {asked} queries | {wall:.2f} s | {asked / wall:.0f}/s |")
    print(f"  of it asking {calls:.2f} s; CPU: agent {agent_cpu:.2f} s, evaluator {own_cpu:.2f} s")
    return agent_cpu, own_cpu


async def profiled(agent: Opened, dataset: Dataset, out: Path) -> float:
    """The share of our own code in the evaluator's CPU; waiting for the agent does not count."""
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    await evaluate(agent, dataset, out)
    profile.disable()
    shares = Counter[str]()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, _), (_, _, seconds, _, callers) in stats.items():
        if file != "~":
            shares[owner_of(file)] += seconds
        for (caller, _, _), (_, _, spent, _) in callers.items():
            if file == "~":  # what C code does counts to whoever called it
                shares[owner_of(caller)] += spent
    total = sum(shares.values())
    for owner, seconds in shares.most_common():
        print(f"  evaluator's CPU in {owner}: {seconds / total:.0%}")
    return 1 - shares[LIBRARIES] / total


def owner_of(file: str) -> str:
    if "/assay/" in file:
        return "assay." + file.rpartition("/assay/")[2].partition("/")[0]
    return LIBRARIES


async def soak(agent: Opened, pid: int, dataset: Dataset, calls: int) -> None:
    queries = [query.text for query in dataset.queries_in("test")]
    room = asyncio.Semaphore(CONCURRENCY)

    async def one(number: int) -> None:
        async with room:
            await agent.ask(queries[number % len(queries)], 5)

    for done in range(0, calls, 1000):
        await asyncio.gather(*(one(done + number) for number in range(1000)))
        print(
            f"  after {done + 1000:>6} calls: agent {memory_of(pid):.1f} MB, "
            f"evaluator {memory_of(os.getpid()):.1f} MB"
        )


async def main(calls: int) -> None:
    dataset = load_dataset("nfcorpus")
    purple = PurpleProcess(parse_target("purple:bm25"), OpenContext(dataset))
    try:
        await purple.open()
        pid = purple.pid
        agent = Opened(purple)
        with tempfile.TemporaryDirectory() as folder:
            rounds = [await timed(agent, pid, dataset, Path(folder)) for _ in range(3)]
            ours = await profiled(agent, dataset, Path(folder))
        agent_cpu, own_cpu = min(rounds, key=sum)
        share = ours * own_cpu / (agent_cpu + own_cpu)
        print(f"  of the CPU of both processes, Assay's evaluator itself: {share:.0%}")
        await soak(agent, pid, dataset, calls)
    finally:
        await purple.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=0)
    asyncio.run(main(parser.parse_args().calls))
