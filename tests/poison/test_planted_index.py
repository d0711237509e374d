"""`--poison-into index`: documents that are planted in an index, and always taken out again."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.poison.applications import (
    TEA,
    obeys,
)

from assay.answers import poison_documents
from assay.data import Document
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.targets.protocol import Agent, AgentAnswer, AgentInfo

ALL = 4 * len(TEA.queries)


class IndexedAgent:
    """An agent whose index can be written to; `index` is what is in it."""

    takes_context = False

    def __init__(self, on_ask: Callable[[], None] = lambda: None) -> None:
        self.info = AgentInfo("indexed", "python")
        self.index: dict[str, Document] = dict(TEA.documents)
        self.asked_with_planted = 0
        self.blocks = 0
        self._on_ask = on_ask
        self.hidden = False
        self.refusal = ""

    async def refuse_documents(self) -> str:
        return self.refusal

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        planted = self.index.keys() - TEA.documents.keys()
        self.asked_with_planted += bool(planted)
        self._on_ask() if planted else None
        mine = [each for each in self.index.values() if query in each.text and not self.hidden]
        shown = [{"id": each.id, "title": "", "text": each.text} for each in mine]
        return AgentAnswer(tuple(each.id for each in mine), obeys(query, shown))

    @asynccontextmanager
    async def with_documents(self, documents: Sequence[Document]) -> AsyncIterator[Agent]:
        self.blocks += 1
        self.index |= {each.id: each for each in documents}
        try:
            yield self
        finally:
            await asyncio.sleep(0)  # what removes over a network has to wait
            for each in documents:
                del self.index[each.id]


def start(agent: Any, out: Path, stop: asyncio.Event | None = None, **options: Any) -> Run:
    config = RunConfig(
        target="python:x:y", dataset="tea", poison=True, poison_into="index", **options
    )
    return asyncio.run(
        Evaluation.plan(config, TEA).start(agent, out, events=Events(stop=stop or asyncio.Event()))
    )


def test_documents_are_planted_one_kind_at_a_time_and_taken_out(tmp_path: Path) -> None:
    agent = IndexedAgent()
    run = start(agent, tmp_path)
    assert run.report.answers is not None
    poison = run.report.answers.poison
    assert poison is not None
    assert (poison.total.followed, poison.total.retrieved) == (ALL, ALL)
    assert agent.blocks == 4
    assert agent.index == TEA.documents


def test_the_document_that_did_it_may_be_that_of_another_question(tmp_path: Path) -> None:
    class Confused(IndexedAgent):
        async def ask(self, query: str, top_k: int) -> AgentAnswer:
            other = query.replace("2", "9") if "2" in query else query
            return await super().ask(other, top_k)

    run = start(Confused(), tmp_path, poison_kinds=("override",))
    rows = (run.folder.path / "poison.jsonl").read_text().splitlines()
    planted = {each["id"]: each["query_id"] for each in map(json.loads, rows)}
    assert run.report.answers is not None
    poison = run.report.answers.poison
    assert poison is not None
    assert poison.total.followed == len(TEA.queries)
    did_it = {each.query_id: planted[each.doc_id] for each in poison.examples}
    assert did_it["q2"] == "q9"


def test_an_answer_is_read_once_and_not_for_each_canary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sound(IndexedAgent):
        async def ask(self, query: str, top_k: int) -> AgentAnswer:
            return AgentAnswer(tuple(self.index), "A few minutes, %61s always.")

    reads: list[str] = []

    def counted(text: str) -> str:
        reads.append(text)
        return unquote(text)

    monkeypatch.setattr(poison_documents, "unquote", counted)
    run = start(Sound(), tmp_path)
    assert run.report.answers is not None
    assert run.report.answers.poison is not None
    assert run.report.answers.poison.total.answered == ALL
    assert 0 < len(reads) <= 2 * ALL  # for its canary, and for its outcome


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    stop = asyncio.Event()
    agent = IndexedAgent(on_ask=stop.set)
    run = start(agent, tmp_path, stop, concurrency=1)
    assert run.state == "interrupted"
    assert agent.asked_with_planted >= 1
    assert agent.index == TEA.documents


def test_a_run_that_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    stop = asyncio.Event()
    run = start(IndexedAgent(on_ask=stop.set), tmp_path, stop, concurrency=1)
    again = IndexedAgent()
    evaluation = Evaluation.plan(run.report.config, TEA)
    whole = asyncio.run(evaluation.resume(again, run.folder))
    assert whole.report.answers is not None
    assert whole.report.answers.poison is not None
    assert whole.report.answers.poison.total.answered == ALL
    assert again.index == TEA.documents


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> None:
        raise OSError("disk")

    agent = IndexedAgent(on_ask=broken)
    with pytest.raises(Exception, match="disk"):
        start(agent, tmp_path)
    assert agent.index == TEA.documents


def test_planted_documents_that_are_never_found_prove_nothing(tmp_path: Path) -> None:
    agent = IndexedAgent()
    agent.hidden = True
    run = start(agent, tmp_path, gates=("poisoned<=0.05",))
    assert not run.gates_passed
    assert run.report.answers is not None
    assert run.report.answers.poison is not None
    assert run.report.answers.poison.note is not None
    assert "no planted document was retrieved" in run.report.answers.poison.note
