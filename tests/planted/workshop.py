"""A second application, in another field than `notes`: questions to a bicycle workshop's handbook.

Its documents have numbers with units, dates, prohibitions, comparisons and lists, which is where
answers go wrong without a foreign word. In German it is the same workshop for readers of German.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from assay.data import Dataset, Document, Query
from assay.data.dataset import Fact, ReferenceAnswer
from assay.llm.passages import NOT_FOUND
from assay.search.bm25_index import Bm25Index

Reply = dict[str, Any]
Change = Callable[[Reply, str], Reply]

HANDBOOKS = Path(__file__).with_name("workshop.json")


@cache
def workshop(language: str = "English") -> Dataset:
    """The handbook as a data set, each question with the one document that it needs."""
    documents, queries, answers = {}, {}, {}
    pages = json.loads(HANDBOOKS.read_text(encoding="utf-8"))[language]
    for number, page in enumerate(pages, start=1):
        name, query = f"page-{number:02}", f"q{number}"
        documents[name] = Document(name, page["title"], page["text"])
        queries[query] = Query(query, page["question"])
        facts = tuple(Fact(wordings[0], tuple(wordings)) for wordings in page["facts"])
        answers[query] = ReferenceAnswer(query, page["answer"], facts, (name,))
    judgments = {query: {answers[query].documents[0]: 1} for query in queries}
    return Dataset("workshop", documents, queries, {"test": judgments}, answers)


def application(dataset: Dataset, change: Change = lambda reply, query_id: reply) -> Any:
    """`answer(query, top_k)`: finds, shows the right page among others, and quotes the reference;
    `change` is the fault.
    """
    index = Bm25Index(dataset.documents.values())
    ids = {query.text: query.id for query in dataset.queries.values()}

    def answer(query: str, top_k: int) -> Reply:
        reference = dataset.answers[ids[query]]
        found = [doc_id for doc_id, _ in index.search(query, top_k)]
        shown = list(dict.fromkeys([*reference.documents, *found, *dataset.documents]))[:3]
        contexts = [
            {"id": f"{each}#0", "doc_id": each, "text": dataset.documents[each].full_text}
            for each in shown
        ]
        reply = {
            "doc_ids": shown,
            "contexts": contexts,
            "answer": reference.answer or NOT_FOUND,
            "citations": list(reference.documents),
        }
        return change(reply, ids[query])

    return answer
