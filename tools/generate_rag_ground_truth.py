"""Write the reference answers that tests/rag_evaluation needs: five questions of NFCorpus.

    NFCORPUS_ARCHIVE=nfcorpus.zip python tools/generate_rag_ground_truth.py
    python tools/generate_rag_ground_truth.py --provider ollama:llama3.1:8b --out mine.json

It is `assay ground-truth nfcorpus` with the path of that file; `--resume` writes it again. The file
in the repository has hashes in place of NFCorpus's text, which may not be redistributed; with
--provider or --out the text is written. See docs/labels.md.
"""

import sys
from pathlib import Path

from assay.cli.app import main

FIXTURE = Path(__file__).parents[1] / "tests" / "rag_evaluation" / "fixtures" / "ground_truth.json"


def arguments(given: list[str]) -> list[str]:
    """The command line of `assay` for the options that were given."""
    own = any(each.startswith(("--provider", "--out")) for each in given)
    fixture = [] if own else ["--provider", "extractive", "--out", str(FIXTURE), "--without-text"]
    return ["ground-truth", "nfcorpus", *fixture, *given]


if __name__ == "__main__":
    sys.argv[1:] = arguments(sys.argv[1:])
    main()
