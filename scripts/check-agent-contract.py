"""Check running agents against the HTTP agent contract.

    export AGENT_CONTRACT_TARGETS="http://localhost:8000=RAG_RETRIEVE,http://localhost:8001=POLICY_REVIEW"
    python3 scripts/check-agent-contract.py

Exit code 0: all pass. 1: one fails, or cannot be reached. 2: no targets, or a malformed one.
`assay check` does the same with options.
"""

import sys


def main() -> int:
    try:
        from assay.cli.console import show
        from assay.cli.contract import (
            check_all,
            check_exit_code,
            rendered_report,
            targets_from_environment,
        )
        from assay.errors import AssayError
    except ImportError as error:
        print(f"error: {error}; run `make setup`, then use .venv/bin/python", file=sys.stderr)
        return 2
    targets = targets_from_environment()
    if not targets:
        print('error: set AGENT_CONTRACT_TARGETS="url=TASK,url=TASK"', file=sys.stderr)
        return 2
    try:
        reports = check_all(targets, skip=[])
    except AssayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for report in reports:
        show(*rendered_report(report))
    return min(check_exit_code(reports), 1)


if __name__ == "__main__":
    sys.exit(main())
