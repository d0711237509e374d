"""Python targets: functions, objects and retrievers, what they may return, and how they fail."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import assay
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.gather import DaemonThreads
from assay.targets.protocol import AgentAnswer, AgentInfo, context_taker
from assay.targets.python_call import as_agent, load_object

KNOWN = {"d1", "d2"}


async def ask(target: Any) -> AgentAnswer:
    agent = as_agent(target, known=KNOWN)
    await agent.open()
    try:
        return await agent.ask("query", 2)
    finally:
        await agent.close()


async def later(_query: str, top_k: int) -> list[str]:
    await asyncio.sleep(0)
    return ["a", "b"][:top_k]


@pytest.mark.parametrize("function", [later, lambda query, top_k: later(query, top_k)])
async def test_async_functions_and_objects_are_asked_alike(function: Any) -> None:
    assert (await ask(function)).doc_ids == ("a", "b")


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (ConnectionResetError("gone"), FailureKind.CONNECTION, True),
        (TimeoutError("slow"), FailureKind.TIMEOUT, False),
        (KeyError("x"), FailureKind.AGENT_ERROR, False),
        (SystemExit(3), FailureKind.AGENT_ERROR, False),
    ],
)
async def test_what_a_function_raises_is_classified_and_said_with_its_line(
    error: BaseException, kind: FailureKind, retryable: bool
) -> None:
    def raises(_query: str, _top_k: int) -> list[str]:
        raise error

    with pytest.raises(AgentFailure) as caught:
        await ask(raises)
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)
    assert "(test_python_call.py:" in str(caught.value)


# As the retrievers of langchain-core and of llama-index-core answer.
DOCUMENTS = [
    SimpleNamespace(id="uuid-1", metadata={"id": "d1"}, page_content="x"),
    SimpleNamespace(id="d2", metadata={"source": "a.pdf"}, page_content="x"),
    SimpleNamespace(id=None, metadata={"doc_id": 3}, page_content="x"),
]
FIRST = SimpleNamespace(node_id="n1", ref_doc_id="d1", metadata={"file_name": "x.txt"})
SECOND = SimpleNamespace(node_id="d2", ref_doc_id=None, metadata={})
NODES = [SimpleNamespace(node=FIRST, score=0.9), SimpleNamespace(node=SECOND, score=0.5)]


def chunk(doc_id: str, number: int, own: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(id=own, page_content=f"part {number}", metadata={"doc_id": doc_id})


@pytest.mark.parametrize(
    ("value", "doc_ids"),
    [
        ([], ()),
        ([7, np.int64(3)], ("7", "3")),
        ([("d1", 0.7), ("d2", 1)], ("d1", "d2")),
        ([SimpleNamespace(id=None, metadata={"source": "kb/d1.md"})], ("d1",)),
        ([{"doc_id": "d1", "score": 0.9, "text": "x"}, {"id": 2}], ("d1", "2")),
        (["d1", "d1"], ("d1", "d1")),  # an agent's mistake, which a run reports
        ([chunk("d1", 1), chunk("d1", 2), chunk("d2", 1), chunk("d1", 3)], ("d1", "d2")),
        ([(chunk("d1", 1, "c1"), 0.9), (chunk("d1", 1, "c2"), 0.8)], ("d1",)),
    ],
)
async def test_many_forms_are_a_ranking(value: Any, doc_ids: tuple[str, ...]) -> None:
    found = (await ask(lambda query, top_k: value)).doc_ids
    assert found == doc_ids
    assert {type(each) for each in found} <= {str}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "the answer is a str, not a list of document ids"),
        (None, r"return \[\] if nothing is found"),
        ({"a", "b"}, "is a set, not a list"),
        (["a", 1.5], "position 1: a document id is a float"),
        (["a", ""], "position 1: a document id is empty"),
        (["x" * 5000], "longer than 4,096 characters"),
        ([(0.9, "a")], r"pairs are \(id, score\)"),
        ({"ids": ["a"]}, "a dictionary without 'doc_ids'; return a list of document ids"),
        ({"doc_ids": ["a"], "citations": "a"}, "'citations' is a str"),
    ],
)
async def test_another_shape_is_refused_with_the_remedy(value: object, message: str) -> None:
    with pytest.raises(AgentFailure, match=message) as caught:
        await ask(lambda query, top_k: value)
    assert caught.value.kind is FailureKind.INVALID_ANSWER


@pytest.mark.parametrize(("method", "found"), [("invoke", DOCUMENTS), ("retrieve", NODES)])
async def test_a_retriever_is_asked_by_its_method_and_cut(method: str, found: Any) -> None:
    retriever = SimpleNamespace(**{method: lambda query: found})
    assert (await ask(retriever)).doc_ids == ("d1", "d2")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", r"cannot import 'subject': ZeroDivisionError: .* \(subject\.py:1\)"),
        ("def f(:", "cannot import 'subject': SyntaxError"),
        ("def find(): ...", r"module 'subject' has no 'fnid'\. Did you mean 'find'"),
    ],
)
def test_a_module_that_does_not_import_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    (tmp_path / "subject.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "subject", raising=False)
    with pytest.raises(UsageError, match=message):
        load_object("subject:fnid")


async def test_a_thread_that_hangs_is_replaced() -> None:
    threads = DaemonThreads()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await threads.run(time.sleep, 3)
    assert await asyncio.wait_for(threads.run(lambda: 7), 2) == 7
    threads.close()


async def test_methods_of_an_object_may_be_plain_functions() -> None:
    class Plain:
        info = AgentInfo("plain", "own")
        takes_context = True

        def open(self) -> None:
            self.is_open = True

        def ask(self, query: str, top_k: int) -> AgentAnswer:
            return AgentAnswer(("a",) if self.is_open else ())

        def answer_from(self, query: str, passages: Any) -> dict[str, Any]:
            return {"doc_ids": [], "answer": "given"}

        def close(self) -> None:
            raise RuntimeError("stuck")

    agent = as_agent(Plain())
    await agent.open()
    assert context_taker(as_agent(SimpleNamespace(ask=Plain().ask))) is None
    assert agent.info == Plain.info
    assert (await agent.ask("query", 2)).doc_ids == ("a",)
    taker = context_taker(agent)
    assert taker is not None
    assert (await taker.answer_from("query", [])).answer == "given"
    with pytest.warns(UserWarning, match="closing the agent Plain failed: RuntimeError: stuck"):
        await agent.close()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (42, "got int"),
        (SimpleNamespace, "is a class; pass an instance"),
        (lambda query: ["a"], r"f\(query, top_k\), and <lambda>\(query\) cannot be"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_the_run(target: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        as_agent(target)


@pytest.mark.skipif(
    "ASSAY_LANGCHAIN" not in os.environ,
    reason="set ASSAY_LANGCHAIN to a folder with langchain-core and llama-index-core: "
    "sh scripts/get-retriever-libraries.sh",
)
def test_the_real_libraries_are_understood(tmp_path: Path) -> None:
    script = tmp_path / "look.py"
    script.write_text(_REAL)
    source = str(Path(assay.__file__).parents[1])
    # Ours come first: the folder brings its own versions of what both need.
    path = os.pathsep.join([source, os.environ["ASSAY_LANGCHAIN"]])
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["langchain", "llamaindex"]


_REAL = """
import asyncio
from assay.targets.python_call import as_agent
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

def found(retriever):
    return asyncio.run(as_agent(retriever, known={"d1"}).ask("x", 5)).doc_ids

class Mine(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(id="u", page_content="t", metadata={"id": "d1"}),
                Document(id="d2", page_content="t")]

assert found(Mine()) == ("d1", "d2")
print("langchain")

from llama_index.core.retrievers import BaseRetriever as Base
from llama_index.core.schema import NodeWithScore, TextNode

class Other(Base):
    def _retrieve(self, query_bundle):
        first = TextNode(id_="n1", text="t", metadata={"doc_id": "d1"})
        return [NodeWithScore(node=first, score=1.0),
                NodeWithScore(node=TextNode(id_="d2", text="t"), score=0.5)]

assert found(Other()) == ("d1", "d2")
print("llamaindex")
"""
