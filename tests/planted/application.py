"""Question-answering applications over small handbooks, with faults that can be switched on.

Each searches, shows the right page among others and quotes the reference, or declines. A fault
changes its reply in one place; nothing here knows what Assay checks.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from assay.answers.case import AnswerCase
from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer
from assay.evaluation.answers.cases import cases_of
from assay.llm.passages import NOT_FOUND, ContextChunk
from assay.run.calls import Call
from assay.search.bm25 import Bm25Index

Reply = dict[str, Any]
Replies = dict[str, Reply]
Change = Callable[[Reply, str], Reply]


@cache
def handbook(name: str) -> Dataset:
    """The pages of `NAME.json` with their questions, and some that no page answers."""
    written = json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))
    documents, asked = {}, []
    for number, page in enumerate(written["pages"], start=1):
        doc_id = f"page-{number:02}"
        documents[doc_id] = Document(doc_id, page["title"], page["text"])
        asked += [(doc_id, *each) for each in page["questions"]]
    asked += [("", question, None, []) for question in written["unanswerable"]]
    queries, answers, judgments = {}, {}, {}
    for number, (doc_id, question, answer, facts) in enumerate(asked, start=1):
        query = f"q{number}"
        queries[query] = Query(query, question)
        known = tuple(Fact(each[0], tuple(each)) for each in facts)
        answers[query] = ReferenceAnswer(query, answer, known, (doc_id,) if doc_id else ())
        if doc_id:
            judgments[query] = {doc_id: 1}
    return Dataset(name, documents, queries, {"test": judgments}, answers)


@cache
def healthy(name: str) -> Replies:
    """The replies without a fault, by query id."""
    dataset = handbook(name)
    index = Bm25Index(dataset.documents.values())
    return {query.id: _reply(dataset, index, query) for query in dataset.queries.values()}


def _reply(dataset: Dataset, index: Bm25Index, query: Query) -> Reply:
    reference = dataset.answers[query.id]
    found = [doc_id for doc_id, _ in index.search(query.text, 5)]
    shown = list(dict.fromkeys([*reference.documents, *found, *dataset.documents]))[:3]
    texts = {each: dataset.documents[each].full_text for each in shown}
    return {
        "doc_ids": shown,
        "contexts": [
            {"id": f"{key}#0", "doc_id": key, "text": text} for key, text in texts.items()
        ],
        "answer": reference.answer or NOT_FOUND,
        "citations": list(reference.documents),
    }


def changed(name: str, change: Change) -> Replies:
    """The replies with a fault in every answer that it can be in."""
    return {query_id: change(dict(reply), query_id) for query_id, reply in healthy(name).items()}


def in_two(name: str, faulty: Replies) -> Replies:
    """The fault in two answers, from the first and the last third of those that have it."""
    hit = [query_id for query_id, reply in healthy(name).items() if faulty[query_id] != reply]
    two = {hit[len(hit) // 3], hit[2 * len(hit) // 3]}
    return {each: faulty[each] if each in two else reply for each, reply in healthy(name).items()}


def cases(name: str, replies: Replies, *, facts: bool = True) -> list[AnswerCase]:
    """The replies as Assay reads them; without `facts`, with reference answers alone."""
    dataset = handbook(name)
    if not facts:
        answers = {
            key: ReferenceAnswer(key, each.answer, (), each.documents)
            for key, each in dataset.answers.items()
        }
        dataset = Dataset(name, dataset.documents, dataset.queries, dataset.judgments, answers)
    calls = [_call(query_id, reply) for query_id, reply in replies.items()]
    return cases_of(dataset, "test", [dataset.queries[each] for each in replies], calls, 10)


def _call(query_id: str, reply: Reply) -> Call:
    return Call(
        query_id=query_id,
        doc_ids=tuple(reply["doc_ids"]),
        latency_ms=1.0,
        attempts=1,
        answer=reply["answer"],
        citations=tuple(reply["citations"]),
        contexts=tuple(ContextChunk(**each) for each in reply["contexts"]),
    )
