"""Retrievers of LangChain and LlamaIndex, and other things that functions return for ids."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import assay
from assay.data import load_dataset
from assay.errors import UsageError
from assay.targets.python_call import as_agent, load_object, to_plain_answer

KNOWN = {"d1", "d2"}


class LangChainRetriever:
    """Has what `BaseRetriever` of langchain-core has: `invoke`, and no `__call__`."""

    def invoke(self, query: str) -> list[Any]:
        return [
            SimpleNamespace(id="uuid-1", metadata={"id": "d1"}, page_content=query),
            SimpleNamespace(id="d2", metadata={"source": "a.pdf"}, page_content=query),
            SimpleNamespace(id=None, metadata={"doc_id": 3}, page_content=query),
        ]


class LlamaIndexRetriever:
    """Has what `BaseRetriever` of llama-index-core has: nodes with scores."""

    def retrieve(self, query: str) -> list[Any]:
        node = SimpleNamespace(node_id="n1", ref_doc_id="d1", metadata={"file_name": "x.txt"})
        other = SimpleNamespace(node_id="d2", ref_doc_id=None, metadata={})
        return [SimpleNamespace(node=node, score=0.9), SimpleNamespace(node=other, score=0.5)]


@pytest.mark.parametrize(
    ("value", "doc_ids"),
    [
        ([1, 2], ["1", "2"]),
        ([("d1", 0.7), ("d2", 1)], ["d1", "d2"]),
        ([(5, 0.7)], ["5"]),
        (np.array([3, 4]), ["3", "4"]),
        (np.array(["d1"]), ["d1"]),
        (list(np.array([3, 4])), ["3", "4"]),
        ([(SimpleNamespace(id="d1", metadata={}), 0.3)], ["d1"]),
        (LangChainRetriever().invoke("x"), ["d1", "d2", "3"]),
        (LlamaIndexRetriever().retrieve("x"), ["d1", "d2"]),
        ([SimpleNamespace(id=None, metadata={"source": "kb/d1.md"})], ["d1"]),
    ],
)
def test_documents_pairs_and_numbers_are_ids(value: object, doc_ids: list[str]) -> None:
    assert to_plain_answer(value, KNOWN) == doc_ids


@pytest.mark.parametrize("value", [["a", True], [{"id": "a"}], [("a", "b")], "abc", 3, {"x": 1}])
def test_what_is_no_id_stays_as_it_is_and_is_reported(value: object) -> None:
    assert to_plain_answer(value, KNOWN) == value


def chunk(doc_id: str, number: int, own: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(id=own, page_content=f"part {number}", metadata={"doc_id": doc_id})


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk("d1", 1), chunk("d1", 2), chunk("d2", 1), chunk("d1", 3), chunk("d3", 1)],
        [(chunk("d1", 1, "c1"), 0.9), (chunk("d1", 1, "c2"), 0.8), (chunk("d2", 1, "c3"), 0.7)],
    ],
)
async def test_chunks_of_one_document_count_as_one(chunks: list[Any]) -> None:
    class Chunked:
        async def invoke(self, query: str) -> list[Any]:
            return chunks

    agent = as_agent(Chunked(), known=KNOWN)
    try:
        assert (await agent.ask("x", 2)).doc_ids == ("d1", "d2")
    finally:
        await agent.close()


def test_the_same_chunk_twice_stays_a_repeated_id() -> None:
    repeated = [chunk("d1", 1), chunk("d1", 1), SimpleNamespace(id="d2"), SimpleNamespace(id="d2")]
    assert to_plain_answer(repeated, KNOWN) == ["d1", "d1", "d2", "d2"]


def test_a_chain_answers_with_its_documents() -> None:
    documents = LangChainRetriever().invoke("x")
    for value in (
        {"input": "x", "context": documents, "answer": "Yes."},
        {"query": "x", "source_documents": documents, "result": "Yes."},
    ):
        plain = to_plain_answer(value, KNOWN)
        assert (plain["doc_ids"], plain["answer"]) == (["d1", "d2", "3"], "Yes.")


async def test_an_object_is_asked_by_its_method_and_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    Path("my_retrievers.py").write_text(
        "from tests.targets.test_retrievers import LangChainRetriever, LlamaIndexRetriever\n"
        "chain, index, number = LangChainRetriever(), LlamaIndexRetriever(), 7\n"
    )
    for name, expected in (("chain", ("d1", "d2")), ("index", ("d1", "d2"))):
        agent = as_agent(load_object(f"my_retrievers:{name}"), known=KNOWN)
        try:
            assert (await agent.ask("x", 2)).doc_ids == expected
        finally:
            await agent.close()
    with pytest.raises(UsageError, match="got int"):
        as_agent(load_object("my_retrievers:number"))


def test_a_retriever_is_evaluated_from_python(tmp_path: Path) -> None:
    notes = load_dataset("notes")

    class Retriever:
        def invoke(self, query: str) -> list[Any]:
            relevant = {text.text: text.id for text in notes.queries.values()}[query]
            found = notes.judgments["test"][relevant]
            return [SimpleNamespace(id=None, metadata={"id": each}) for each in found]

    run = assay.evaluate(Retriever(), notes, num_queries=5, out=tmp_path)
    assert run.metrics["hit@5"] == 1.0


@pytest.mark.skipif(
    "ASSAY_LANGCHAIN" not in os.environ,
    reason="set ASSAY_LANGCHAIN to a folder with langchain-core and llama-index-core: "
    "sh scripts/get-retriever-libraries.sh",
)
def test_the_real_libraries_are_understood(tmp_path: Path) -> None:
    import subprocess

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
from assay.targets.python_call import as_search_function, to_plain_answer
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

class Mine(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(id="u", page_content="t", metadata={"id": "d1"}),
                Document(id="d2", page_content="t")]

assert not callable(Mine())
assert to_plain_answer(as_search_function(Mine())("x", 5), {"d1"}) == ["d1", "d2"]
print("langchain")

from llama_index.core.retrievers import BaseRetriever as Base
from llama_index.core.schema import NodeWithScore, TextNode

class Other(Base):
    def _retrieve(self, query_bundle):
        first = TextNode(id_="n1", text="t", metadata={"doc_id": "d1"})
        return [NodeWithScore(node=first, score=1.0),
                NodeWithScore(node=TextNode(id_="d2", text="t"), score=0.5)]

assert not callable(Other())
assert to_plain_answer(as_search_function(Other())("x", 5), {"d1"}) == ["d1", "d2"]
print("llamaindex")
"""
