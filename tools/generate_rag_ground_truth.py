"""Write the reference answers that tests/rag_evaluation needs: five questions of NFCorpus.

    NFCORPUS_ARCHIVE=nfcorpus.zip python tools/generate_rag_ground_truth.py
    RAG_EVAL_PROVIDER=ollama python tools/generate_rag_ground_truth.py --out mine.json

With a model (RAG_EVAL_PROVIDER, --provider) or --out it is `assay ground-truth nfcorpus`. Without,
it writes the file in the repository, which has hashes in place of NFCorpus's text, because that may
not be redistributed; readers make the same extracts again. See docs/labels.md.
"""

import asyncio
import os
import sys
from pathlib import Path

from assay.cli.app import main
from assay.data import load_dataset
from assay.labels.reference_writing import (
    AnswerWriter,
    choose_queries,
    generate_references,
)

FIXTURE = Path(__file__).parents[1] / "tests" / "rag_evaluation" / "fixtures" / "ground_truth.json"


def write_without_text(out: Path) -> None:
    """Extracts for the five questions, as hashes."""
    nfcorpus = load_dataset("nfcorpus")
    queries = choose_queries(nfcorpus, "test")
    out.unlink(missing_ok=True)
    writing = generate_references(nfcorpus, AnswerWriter(), out, queries=queries, text=False)
    asyncio.run(writing)


if __name__ == "__main__":
    if len(sys.argv) > 1 or os.environ.get("RAG_EVAL_PROVIDER"):
        sys.argv[1:1] = ["ground-truth", "nfcorpus"]
        main()
    else:
        write_without_text(FIXTURE)
