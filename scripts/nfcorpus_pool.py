"""Write the part of NFCorpus that CI evaluates: five questions and the documents that compete.

    NFCORPUS_ARCHIVE=nfcorpus.zip python scripts/nfcorpus_pool.py build/nfcorpus-pool
    pytest tests/rag_evaluation --assay-dataset build/nfcorpus-pool \\
        --assay-ground-truth tests/rag_evaluation/fixtures/ground_truth.json

Embedding all 3,633 documents takes minutes. The pool has those that are judged for a question and
the first 50 that BM25, dense and hybrid search of all documents find for it, so that what is left
out is found by none of them. `--choose` looks for them again and writes their ids to the file that
is kept in the repository.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from assay.data import Dataset, load_dataset
from assay.data.beir import write_new_beir
from assay.labels.reference_writing import SELECTED
from assay.targets.target_kinds import OpenContext, open_target

POOL = Path(__file__).parents[1] / "tests" / "rag_evaluation" / "fixtures" / "pool.txt"
DEPTH = 50
TARGETS = ("builtin:bm25", "builtin:dense", "builtin:hybrid")


async def chosen(whole: Dataset) -> list[str]:
    """The ids of the pool, in the order of the corpus."""
    ids = {doc_id for query_id in SELECTED for doc_id in whole.judgments_in("test")[query_id]}
    for target in TARGETS:
        agent = open_target(target, OpenContext(whole))
        await agent.open()
        for query_id in SELECTED:
            ids.update((await agent.ask(whole.queries[query_id].text, DEPTH)).doc_ids)
        await agent.close()
    return [doc_id for doc_id in whole.documents if doc_id in ids]


def pooled(whole: Dataset, ids: list[str]) -> Dataset:
    """The five questions with these documents."""
    return Dataset(
        "nfcorpus-pool",
        {doc_id: whole.documents[doc_id] for doc_id in ids},
        {query_id: whole.queries[query_id] for query_id in SELECTED},
        {"test": {query_id: whole.judgments_in("test")[query_id] for query_id in SELECTED}},
    )


def main(arguments: list[str]) -> None:
    """Write the folder, which must not exist."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--choose", action="store_true", help=f"write {POOL.name} first")
    options = parser.parse_args(arguments)
    whole = load_dataset("nfcorpus")
    if options.choose:
        POOL.write_text("".join(f"{each}\n" for each in asyncio.run(chosen(whole))))
    write_new_beir(pooled(whole, POOL.read_text().split()), options.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
