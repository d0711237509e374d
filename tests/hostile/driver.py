"""Meets the whole catalogue in one protocol, in a process whose memory is limited.

    python -m tests.hostile.driver PROTOCOL URL     one JSON line for each misbehavior

A client that buffers without a bound dies here with a MemoryError, not the machine.
"""

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from tests.hostile.catalogue import CATALOGUE

from assay.contract.check import check_agent
from assay.contract.probes import CheckLimits
from assay.contract.rules import RuleLevel
from assay.data.dataset import Dataset
from assay.errors import AgentFailure, AssayError, TargetError
from assay.targets import mcp_connection
from assay.targets.target_kinds import OpenContext, RequestSettings, open_target

QUERY = "Does vitamin D lower blood pressure?"
PATIENCE, SECONDS = 20.0, 1.0
"""For one call: what is expected to end on its own, and what is expected to last for ever."""
LASTING = {each.name for each in CATALOGUE if each.expected == "timeout"}
MORE_MEMORY = 600_000_000
"""What the catalogue may add to the address space of a client that has imported everything."""
AT_ONCE = 8
NOTHING = Dataset(name="none", documents={}, queries={}, judgments={})

PROTOCOLS = {
    "a2a": "a2a:{url}",
    "a2a-stream": "a2a:{url}#stream",
    "mcp": "mcp:{url}/mcp",
    "http": "http:{url}=RAG_RETRIEVE",
    "http-stream": "http:{url}=RAG_RETRIEVE#stream",
    "rest": "rest:{url}/search?q={{query}}&k={{top_k}}",
    "openai": "openai:{url}",
    "openai-stream": "openai:{url}",
    "url": "{url}",
}
"""How each protocol's target is written: a new protocol joins here, with one line."""
REQUESTS = {"openai-stream": RequestSettings(body='{"stream": true}')}
"""What `--request` says where a protocol has two ways."""


Met = tuple[str, str, tuple[str, ...]]
"""A `FailureKind`, "answer" or "no target"; the message or the number of ids; the first ids."""


async def ask(target: str, seconds: float, request: RequestSettings | None = None) -> Met:
    agent = open_target(target, OpenContext(NOTHING, request=request or RequestSettings()))
    try:
        await agent.open()
        async with asyncio.timeout(seconds):
            answer = await agent.ask(QUERY, 5)
    except AgentFailure as failure:
        return str(failure.kind), str(failure), ()
    except TargetError as error:
        return "no target", str(error), ()
    except TimeoutError:
        return "timeout", "", ()
    finally:
        await agent.close()
    return "answer", str(len(answer.doc_ids)), answer.doc_ids[:5]


async def check(url: str) -> Met:
    limits = CheckLimits(sync_s=1.0, first_event_s=1.0, stream_s=1.0, heartbeat_s=1.0)
    report = await check_agent(url, "RAG_RETRIEVE", limits=limits, level=RuleLevel.OURS)
    if report.unreachable is not None:
        return "no target", report.unreachable, ()
    return "kept" if report.passed else "broken", str(report.counts()), ()


async def meet(way: str, base: str, name: str) -> dict[str, object]:
    url = f"{base}/{name}"
    started = time.perf_counter()
    try:
        seconds = SECONDS if name in LASTING else PATIENCE
        if way == "check":
            result, detail, ids = await check(url)
        else:
            result, detail, ids = await ask(
                PROTOCOLS[way].format(url=url), seconds, REQUESTS.get(way)
            )
    except AssayError as error:
        result, detail, ids = type(error).__name__, str(error), ()
    except Exception as error:  # the finding of this suite
        result, detail, ids = f"{type(error).__name__} came out", str(error)[:200], ()
    took = time.perf_counter() - started
    found = {"result": result, "detail": detail[:300], "ids": [each[:60] for each in ids]}
    return {"name": name, "seconds": took, **found}


async def meet_all(way: str, base: str, names: list[str]) -> None:
    waiting = iter(names)

    async def work() -> None:
        for name in waiting:
            print(json.dumps(await meet(way, base, name)), flush=True)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def memory_mb(field: str) -> int:
    """`VmRSS` is the memory of this process, `VmHWM` the most of it so far.

    `getrusage` also counts the process that started it.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) // 1024


def find_nothing(_query: str, _top_k: int) -> list[str]:
    return []


def main() -> None:
    way, base, *names = sys.argv[1:]
    mcp_connection._OPEN_SECONDS = 5.0
    # Threads and loops are there before the limit.
    asyncio.run(ask("python:tests.hostile.driver:find_nothing", PATIENCE))
    limit = memory_mb("VmSize") * 2**20 + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = memory_mb("VmRSS")
    asyncio.run(meet_all(way, base, names or [each.name for each in CATALOGUE]))
    print(json.dumps({"added_mb": memory_mb("VmHWM") - before}), flush=True)


if __name__ == "__main__":
    main()
