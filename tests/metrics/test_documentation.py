"""The examples of the docstrings and of docs/metrics.md and docs/data.md, run as they stand."""

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


def run(test: doctest.DocTest) -> None:
    found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize(
    "documented", [score, Dataset, load_dataset], ids=lambda each: each.__name__
)
def test_the_examples_of_docstrings_work(documented: Any) -> None:
    text = documented.__doc__
    run(doctest.DocTestParser().get_doctest(text, dict(NAMES), documented.__name__, None, 0))


@pytest.mark.parametrize("page", ["metrics.md", "data.md"])
def test_the_examples_of_a_page_work(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    run(doctest.DocTestParser().get_doctest(text, {}, page, None, 0))


def test_every_metric_has_its_row() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    rows = {re.split("[@`]", row)[0] for row in re.findall(r"\n\| `(.+)", page)}
    assert set(_DEFINITIONS) - rows == set()
