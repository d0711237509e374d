import pytest
from tests.search.tuning import worlds

from assay.search.tuning import TunedRanker, TuningData, fit


@pytest.fixture(scope="session")
def data() -> TuningData:
    return worlds.learnable()


@pytest.fixture(scope="session")
def ranker(data: TuningData) -> TunedRanker:
    return fit(data, worlds.by_vectors(data), seed=0)
