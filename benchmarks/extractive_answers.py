"""How good answers without a model are: facts stated, and questions turned down that should be.

Constants of the extractive answerer were chosen on the questions at even places of each file (dev
for NFCorpus) and are reported on the others (test), so the second table is the one to believe.

    NFCORPUS_ARCHIVE=nfcorpus.zip python benchmarks/extractive_answers.py

Without NFCorpus the questions off topic are left out.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence

from assay.answers.outcome import stated_facts
from assay.data import Dataset, load_dataset
from assay.data.dataset import Query
from assay.llm.answerer import ExtractiveAnswerer
from assay.llm.passages import Answer, Passage
from assay.search.bm25 import Bm25Index

TOP_K = 5
TOKENS = 500


class Library:
    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._index = Bm25Index(dataset.documents.values())

    def found(self, question: str) -> list[Passage]:
        return self.passages(doc_id for doc_id, _ in self._index.search(question, TOP_K))

    def passages(self, ids: Iterable[str]) -> list[Passage]:
        documents = (self.dataset.documents[doc_id] for doc_id in ids)
        return [Passage(each.id, each.title, each.text) for each in documents]


async def answered(asked: Iterable[tuple[str, Sequence[Passage]]]) -> list[Answer]:
    answerer = ExtractiveAnswerer()
    return [await answerer.answer(question, found, TOKENS) for question, found in asked]


async def facts(notes: Library, queries: Sequence[Query], gold: bool) -> str:
    references = [(query, notes.dataset.answers[query.id]) for query in queries]
    answerable = [(query, each) for query, each in references if each.answer]
    asked = [
        (query.text, notes.passages(each.documents) if gold else notes.found(query.text))
        for query, each in answerable
    ]
    answers = await answered(asked)
    scores = [
        len(stated_facts(answer.text, reference.facts)) / len(reference.facts)
        for answer, (_, reference) in zip(answers, answerable, strict=True)
    ]
    lengths = [len(answer.text) for answer in answers if answer.found]
    return (
        f"fact recall {sum(scores) / len(scores):.3f}, answered {len(lengths)} of {len(answers)}, "
        f"{sum(lengths) / max(1, len(lengths)):.0f} characters"
    )


async def share(library: Library, queries: Sequence[Query]) -> str:
    answers = await answered((query.text, library.found(query.text)) for query in queries)
    return f"answered {sum(answer.found for answer in answers)} of {len(answers)}"


async def main() -> None:
    notes = Library(load_dataset("notes"))
    medical = Library(load_dataset("nfcorpus")) if os.environ.get("NFCORPUS_ARCHIVE") else None
    questions = list(notes.dataset.queries.values())
    for name, half, split in (("chosen on", 0, "dev"), ("reported on", 1, "test")):
        mine = questions[half::2]
        lacking = [query for query in mine if notes.dataset.answers[query.id].answer is None]
        print(f"{name}: {len(mine)} questions of notes")
        print("  BM25, top 5:                  ", await facts(notes, mine, gold=False))
        print("  the documents that are needed:", await facts(notes, mine, gold=True))
        print("  on topic, the fact is missing:", await share(notes, lacking))
        if medical is not None:
            theirs = medical.dataset.queries_in(split)
            print(f"  NFCorpus {split}, NFCorpus:  ", await share(medical, theirs))
            print(f"  NFCorpus {split}, notes:     ", await share(notes, theirs), "(off topic)")
            print("  notes, NFCorpus:              ", await share(medical, mine), "(off topic)")


if __name__ == "__main__":
    asyncio.run(main())
