from collections.abc import Iterator

import pytest
from tests.search.tuning import worlds

from assay.search.tuning import trees, validation
from assay.search.tuning.features import TuningData
from assay.search.tuning.model import TunedRanker
from assay.search.tuning.tune import fit


@pytest.fixture(scope="package", autouse=True)
def few_trees() -> Iterator[None]:
    """As many as these small worlds need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "OVERLAP_TREES", 40)
        patch.setattr(trees, "RANKING_TREES", 40)
        patch.setattr(validation, "TREE_COUNTS", (20, 40))
        yield


@pytest.fixture(scope="package")
def data() -> TuningData:
    return worlds.learnable()


@pytest.fixture(scope="package")
def ranker(data: TuningData) -> TunedRanker:
    return fit(data, worlds.by_vectors(data), seed=0)
