"""The examples of docstrings run as they stand; those of pages, in tests/docs/test_pages.py."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from assay import Dataset, load_dataset, score
from assay.data import Document, Query
from assay.metrics.metric import _DEFINITIONS

DOCS = Path(__file__).parents[2] / "docs"
NAMES = {"Dataset": Dataset, "Document": Document, "Query": Query, "load_dataset": load_dataset}


@pytest.mark.parametrize("documented", [score, load_dataset], ids=lambda each: each.__name__)
def test_the_examples_of_docstrings_work(documented: Any) -> None:
    parser = doctest.DocTestParser()
    test = parser.get_doctest(documented.__doc__, dict(NAMES), documented.__name__, None, 0)
    found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert found.attempted > 0
    assert found.failed == 0


def test_every_metric_has_its_row() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    rows = {re.split("[@`]", row)[0] for row in re.findall(r"\n\| `(.+)", page)}
    assert set(_DEFINITIONS) - rows == set()
