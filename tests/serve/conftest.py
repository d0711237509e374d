from pathlib import Path

import pytest
from tests.tiny_dataset import tiny_dataset

from assay.data import Dataset

SIZE = 40


@pytest.fixture
def tiny() -> Dataset:
    return tiny_dataset(SIZE, document="word{}", query="word{}")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"
