"""What holds for every test."""

import logging
from collections.abc import Callable, Iterator

import pytest

from assay.data import Dataset, Document, Query

MakeDataset = Callable[[int], Dataset]


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Servers set logging up for their whole process; in a test that must end with the test."""
    root = logging.getLogger()
    level, disabled = root.level, root.manager.disable
    known = [each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = [(each, each.level, each.propagate, each.disabled, each.filters[:]) for each in known]
    yield
    root.setLevel(level)
    root.manager.disable = disabled
    for each, its_level, propagate, off, filters in before:
        each.setLevel(its_level)
        each.propagate, each.disabled, each.filters[:] = propagate, off, filters


@pytest.fixture
def make_dataset() -> MakeDataset:
    """n queries; query i has documents d{i} (grade 2) and d{i+1} (grade 1) of n + 1."""

    def make(size: int) -> Dataset:
        return Dataset(
            name="tiny",
            documents={f"d{i}": Document(f"d{i}", "", f"text {i}") for i in range(size + 1)},
            queries={f"q{i}": Query(f"q{i}", f"query {i}") for i in range(size)},
            judgments={"test": {f"q{i}": {f"d{i}": 2, f"d{i + 1}": 1} for i in range(size)}},
        )

    return make
