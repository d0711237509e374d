from collections.abc import Callable

import pytest

from assay.data import Dataset, Document, Query

MakeDataset = Callable[[int], Dataset]


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
