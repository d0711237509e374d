import pytest
from tests.search.tuning import worlds

from assay.search.tuning.features import TuningData
from assay.search.tuning.fit import fit
from assay.search.tuning.model import TunedRanker


@pytest.fixture(scope="session")
def data() -> TuningData:
    return worlds.learnable()


@pytest.fixture(scope="session")
def ranker(data: TuningData) -> TunedRanker:
    return fit(data, worlds.by_vectors(data), seed=0)
