"""Chunks in an agent's answer: how they are read, and which documents they belong to."""

from pathlib import Path
from typing import Any

import pytest

from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer
from assay.errors import AgentFailure
from assay.evaluation.api import evaluate
from assay.llm.passages import ContextChunk
from assay.targets.answer_reader import MAX_CHUNKS, read_answer, read_contexts
from assay.targets.chunks import ChunkResolver, parse_separator, suggest_separator
from assay.targets.protocol import AgentAnswer

TOWN = Dataset(
    name="town",
    documents={
        "pool": Document("pool", "Pool", "The pool opens at 7:00. It closes at 22:00 in summer."),
        "bus": Document("bus", "Bus", "Bus 4 goes to the pool. A ride costs 2.80 euros."),
    },
    queries={"open": Query("open", "When does the pool open?")},
    judgments={"test": {"open": {"pool": 2}}},
    answers={"open": ReferenceAnswer("open", "At 7:00.", (Fact("7:00", ("7:00",)),), ("pool",))},
)


def test_contexts_are_texts_or_chunks() -> None:
    read = read_contexts(["one", {"id": "a#1", "doc_id": "a", "text": "two"}])
    assert read == (ContextChunk("one"), ContextChunk("two", "a#1", "a"))
    assert read_contexts([{"chunk_id": 7, "page_content": "x"}]) == (ContextChunk("x", "7"),)


def test_contexts_are_bounded() -> None:
    assert len(read_contexts(["text"] * 10_000)) == MAX_CHUNKS
    assert len(read_contexts(["x" * 10_000_000])[0].text) == 20_000


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("one text", "'contexts' is a str, not a list"),
        ([7], "position 0: not a text"),
        (["a", {"id": "x", "words": "y"}], "'text'; its keys: 'id', 'words'"),
    ],
)
def test_what_is_no_context_is_refused(value: Any, words: str) -> None:
    with pytest.raises(AgentFailure, match=words):
        read_contexts(value)


def test_an_answer_may_have_contexts_in_place_of_ids() -> None:
    answer = read_answer({"contexts": ["text"], "answer": "Yes.", "chunks": 3, "note": ""})
    assert answer.doc_ids == ()
    assert answer.contexts == (ContextChunk("text"),)
    assert answer.unknown_keys == ("chunks", "note")


@pytest.mark.parametrize(
    ("separator", "chunk", "document"),
    [("", "a#1", "a#1"), ("#", "a#1", "a"), ("#", "a#b#1", "a#b"), (r"re:[-_]p\d+", "a-p12", "a")],
)
def test_a_separator_ends_the_id_of_a_document(separator: str, chunk: str, document: str) -> None:
    assert parse_separator(separator)(chunk) == document


def resolved(separator: str = "", **answer: Any) -> AgentAnswer:
    return ChunkResolver(separator, TOWN.documents).resolve(AgentAnswer(**answer))


def test_several_chunks_of_a_document_are_one_document() -> None:
    answer = resolved("#", doc_ids=("pool#1", "bus#1", "pool#2"), citations=("pool#2",))
    assert (answer.doc_ids, answer.citations) == (("pool", "bus"), ("pool",))
    # A repeated id of a document is the agent's mistake.
    assert resolved("#", doc_ids=("pool", "pool")).doc_ids == ("pool", "pool")


def test_chunks_that_name_their_document_need_no_separator() -> None:
    chunks = (ContextChunk("x", "c1", "pool"), ContextChunk("y", "c2", "bus"))
    answer = resolved(doc_ids=("c2", "c1"), citations=("c1",), contexts=chunks)
    assert (answer.doc_ids, answer.citations) == (("bus", "pool"), ("pool",))


def test_plain_texts_are_found_in_their_documents() -> None:
    texts = ("it closes at 22:00\n  in summer.", "no document says this at all", "7:00")
    answer = resolved(doc_ids=(), contexts=tuple(map(ContextChunk, texts)))
    assert [chunk.doc_id for chunk in answer.contexts] == ["pool", "", ""]
    assert answer.doc_ids == ("pool",)


@pytest.mark.parametrize(
    ("ids", "separator"),
    [
        (["pool#1", "bus#22"], "#"),
        (["pool__chunk_1", "bus"], "__chunk_"),
        (["pool#1", "zoo#1"], None),
    ],
)
def test_a_separator_that_explains_every_id(ids: list[str], separator: str | None) -> None:
    assert suggest_separator(ids, TOWN.documents) == separator


def test_answers_are_measured_against_what_the_model_was_shown(tmp_path: Path) -> None:
    """The document holds the answer, the chunk does not: the answer is not from the chunk."""

    def shows(text: str) -> dict[str, float]:
        def agent(query: str, top_k: int) -> dict[str, Any]:
            chunk = {"id": "pool#2", "text": text}
            return {"contexts": [chunk], "answer": "It opens at 7:00.", "citations": ["pool#2"]}

        run = evaluate(agent, TOWN, out=tmp_path, answers=True, mapping="chunk=#")
        assert run.metrics["ndcg@5"] == 1.0
        assert run.report.answers is not None
        return run.report.answers.metrics

    assert shows("The pool opens at 7:00.")["faithfulness"] == 1.0
    assert shows("It closes at 22:00 in summer.")["faithfulness"] == 0.0
