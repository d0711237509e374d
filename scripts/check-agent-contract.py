"""Check running agents against the HTTP agent contract.

    export AGENT_CONTRACT_TARGETS="http://localhost:8000=RAG_RETRIEVE,http://localhost:8001=POLICY_REVIEW"
    python3 scripts/check-agent-contract.py

Exit code 0: all pass. 1: one fails, or cannot be reached. 2: no targets, or a malformed one.
It is `assay check`, whose options it takes.
"""

import sys


def main() -> int:
    try:
        from assay.cli.app import main as assay
    except ImportError as error:
        print(f"error: {error}; run `make setup`, then use .venv/bin/python", file=sys.stderr)
        return 2
    sys.argv[:1] = ["assay", "check"]
    try:
        assay()
    except SystemExit as end:
        return 1 if end.code == 3 else int(end.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
