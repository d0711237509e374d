"""Writes the reference answers that tests/rag_evaluation asks for: five questions of NFCorpus.

    NFCORPUS_ARCHIVE=nfcorpus.zip python tools/generate_rag_ground_truth.py
    python tools/generate_rag_ground_truth.py --provider ollama:llama3.1:8b --out mine.json

It is `assay ground-truth nfcorpus` with the place of that file; `--resume` writes it anew. The file
in the repository has hashes in the place of NFCorpus's text, which may not be passed on; whoever
names a provider or a file gets the text. docs/ground-truth.md tells the rest.
"""

import sys
from pathlib import Path

from assay.cli.app import main

FIXTURE = Path(__file__).parents[1] / "tests" / "rag_evaluation" / "fixtures" / "ground_truth.json"


def arguments(given: list[str]) -> list[str]:
    own = any(each.startswith(("--provider", "--out")) for each in given)
    fixture = [] if own else ["--provider", "extractive", "--out", str(FIXTURE), "--without-text"]
    return ["ground-truth", "nfcorpus", *fixture, *given]


if __name__ == "__main__":
    sys.argv[1:] = arguments(sys.argv[1:])
    main()
