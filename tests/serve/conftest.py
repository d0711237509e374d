from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.tiny_dataset import tiny_dataset

from assay.data import Dataset

SIZE = 40


@pytest.fixture
def tiny() -> Dataset:
    return tiny_dataset(SIZE, document="word{}", query="word{}")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"
