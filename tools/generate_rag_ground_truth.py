"""Write the reference answers that tests/rag_evaluation needs: five questions of NFCorpus.

    NFCORPUS_ARCHIVE=nfcorpus.zip python tools/generate_rag_ground_truth.py
    RAG_EVAL_PROVIDER=ollama python tools/generate_rag_ground_truth.py --out mine.json

It is `assay ground-truth nfcorpus` with the path of that file; `--resume` writes it again. The file
in the repository has hashes in place of NFCorpus's text, which may not be redistributed; with a
model (RAG_EVAL_PROVIDER, --provider) or --out the text is written. See docs/labels.md.
"""

import os
import sys
from pathlib import Path

from assay.cli.app import main

FIXTURE = Path(__file__).parents[1] / "tests" / "rag_evaluation" / "fixtures" / "ground_truth.json"


def arguments(given: list[str]) -> list[str]:
    """The command line of `assay` for the options that were given."""
    out = [] if _has(given, "--out") else ["--out", str(FIXTURE)]
    if out and not _has(given, "--provider") and not os.environ.get("RAG_EVAL_PROVIDER"):
        out += ["--provider", "extractive", "--without-text"]
    return ["ground-truth", "nfcorpus", *out, *given]


def _has(given: list[str], option: str) -> bool:
    return any(word.startswith(option) for word in given)


if __name__ == "__main__":
    sys.argv[1:] = arguments(sys.argv[1:])
    main()
