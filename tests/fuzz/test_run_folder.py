"""Any order of appending, dying, withdrawing and resuming keeps what was recorded."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.fuzz.mutation import examples
from tests.tiny_dataset import tiny_dataset

from assay.errors import AgentFailure, FailureKind, RunError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.merge import merge, merged_config
from assay.evaluation.run import Run
from assay.files import is_locked
from assay.run.calls import Call, CallLog, CallWriter
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, create_run
from assay.run.models import TargetRecord
from assay.targets import AgentAnswer, AgentInfo

SIZE, SHARDS = 6, 2
DATASET = tiny_dataset(SIZE)
_shards = st.integers(0, SHARDS - 1)
_queries = st.integers(0, SIZE - 1).map(lambda n: f"q{n}")


class _Agent:
    """Always the same answer to a query; those of `failing` always fail."""

    def __init__(self, failing: set[str]) -> None:
        self.info = AgentInfo("agent", "test")
        self.failing = failing
        self.asked: list[str] = []

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        query_id = f"q{query.split()[1]}"
        self.asked.append(query_id)
        if query_id in self.failing:
            raise AgentFailure(FailureKind.AGENT_ERROR, "HTTP 500")
        return AgentAnswer(_ranking(query_id))


def _ranking(query_id: str) -> tuple[str, ...]:
    number = int(query_id[1:])
    return (f"d{number}", "d0") if number % 2 else ("d3", f"d{number + 1}", f"d{number}")


def _call(query_id: str, failed: bool) -> Call:
    if failed:
        kind = FailureKind.AGENT_ERROR
        return Call(query_id, (), 1.0, 1, at=0.5, failure=kind, message="HTTP 500")
    ranking = _ranking(query_id)
    return Call(query_id, ranking, 1.0, 1, at=0.5, returned=len(ranking))


class RunFolders(RuleBasedStateMachine):
    """`known` is what the logs must hold, as a plain dictionary for each shard."""

    @initialize()
    def start(self) -> None:
        self.out = Path(tempfile.mkdtemp(prefix="assay-fuzz-"))
        self.plans = [
            Evaluation.plan(
                RunConfig("agent", dataset="tiny", shard_index=shard, num_shards=SHARDS), DATASET
            )
            for shard in range(SHARDS)
        ]
        record = TargetRecord(name="agent", protocol="test", details="")
        self.folders: list[RunFolder] = [
            create_run(self.out, plan.config, DATASET, record, track="zero-shot")
            for plan in self.plans
        ]
        self.known: list[dict[str, Call]] = [{} for _ in range(SHARDS)]
        self.finished: dict[int, Run] = {}

    @rule(shard=_shards, query=_queries, failed=st.booleans())
    def append(self, shard: int, query: str, failed: bool) -> None:
        if query not in {each.id for each in self.plans[shard].queries}:
            return
        call = _call(query, failed)
        with CallWriter(self.folders[shard].calls_file) as writer:
            writer.append(call)
        self.known[shard][query] = call
        self.finished.pop(shard, None)

    @rule(shard=_shards, query=_queries)
    def withdraw(self, shard: int, query: str) -> None:
        with CallWriter(self.folders[shard].calls_file) as writer:
            writer.withdraw((query, 0))
        self.known[shard].pop(query, None)
        self.finished.pop(shard, None)

    @rule(shard=_shards, query=_queries, share=st.floats(0, 0.99))
    def die_while_writing(self, shard: int, query: str, share: float) -> None:
        """A torn line, and the part files of a report."""
        path = self.folders[shard].calls_file
        before = path.read_bytes() if path.exists() else b""
        with CallWriter(path) as writer:
            writer.append(_call(query, False))
        line = path.read_bytes()[len(before) :]
        path.write_bytes(before + line[: int(share * len(line))])
        (self.folders[shard].path / ".report.json.0a1b2c3d4e5f.part").write_bytes(b'{"half')
        (self.folders[shard].path / ".rows.part").write_bytes(b"half")

    @rule(shard=_shards, failing=st.sets(_queries, max_size=2))
    def resume(self, shard: int, failing: set[str]) -> None:
        agent, known = _Agent(failing), self.known[shard]
        plan = [each.id for each in self.plans[shard].queries]
        left = [each for each in plan if each not in known]
        run = asyncio.run(self.plans[shard].resume(agent, self.folders[shard]))
        assert sorted(agent.asked) == sorted(left)
        known |= {each: _call(each, each in failing) for each in left}
        assert run.state == "complete"
        assert not list(self.folders[shard].path.glob("*.part"))
        self.folders[shard].validate()
        failed = sum(known[each].failure is not None for each in plan)
        assert run.report.summary.failed_queries == failed
        self.finished[shard] = run

    @precondition(lambda self: len(self.finished) == SHARDS)
    @rule()
    def merge(self) -> None:
        config = merged_config(self.folders)
        merged = asyncio.run(merge(self.folders, config, DATASET, self.out / "merged"))
        everything = {name: call for each in self.known for name, call in each.items()}
        failing = {name for name, call in everything.items() if call.failure is not None}
        whole = Evaluation.plan(RunConfig("agent", dataset="tiny"), DATASET)
        unbroken = asyncio.run(whole.start(_Agent(failing), self.out / "whole"))
        assert merged.report.statistics == unbroken.report.statistics
        assert merged.report.failures == unbroken.report.failures

    @precondition(lambda self: len(self.finished) < SHARDS)
    @rule()
    def a_half_is_not_merged(self) -> None:
        if any(not folder.report_file.exists() for folder in self.folders):
            with pytest.raises(RunError, match="finish it with"):
                merged_config(self.folders)

    @invariant()
    def the_log_holds_what_was_recorded(self) -> None:
        for folder, known in zip(self.folders, self.known, strict=True):
            calls = CallLog(folder.calls_file).read(DATASET.queries.values())
            found = {call.query_id: (call.doc_ids, call.failure) for call in calls if call}
            assert found == {name: (call.doc_ids, call.failure) for name, call in known.items()}
            assert not is_locked(folder.calls_file)

    def teardown(self) -> None:
        shutil.rmtree(getattr(self, "out", Path("nothing")), ignore_errors=True)


TestRunFolders = RunFolders.TestCase
TestRunFolders.settings = settings(settings.default, max_examples=examples(8))
