"""Writes the table of rules in docs/contract.md; a test fails when it is stale.

python scripts/render_rules.py
"""

import re
from pathlib import Path

from assay.contract.rules import rules_table

PAGE = Path(__file__).parents[1] / "docs" / "contract.md"

if __name__ == "__main__":
    table = f"<!-- rules -->\n{rules_table()}\n<!-- /rules -->"
    page = PAGE.read_text(encoding="utf-8")
    pattern = r"<!-- rules -->\n.*<!-- /rules -->"
    PAGE.write_text(re.sub(pattern, lambda _: table, page, flags=re.DOTALL), encoding="utf-8")
