from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from assay.data import Dataset, Document, Query

SIZE = 40


@pytest.fixture
def tiny() -> Dataset:
    """40 queries; query i is answered by d{i} (grade 2) and d{i+1} (grade 1)."""
    return Dataset(
        name="tiny",
        documents={f"d{i}": Document(f"d{i}", "", f"word{i}") for i in range(SIZE + 1)},
        queries={f"q{i}": Query(f"q{i}", f"word{i}") for i in range(SIZE)},
        judgments={"test": {f"q{i}": {f"d{i}": 2, f"d{i + 1}": 1} for i in range(SIZE)}},
    )


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"
