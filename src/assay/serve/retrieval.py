"""The searchable documents behind a server: a data set and the retriever over it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from assay.data import Dataset, load_dataset
from assay.net.gather import DaemonThreads
from assay.progress import Progress, silent
from assay.search import Mode
from assay.search.index import open_retriever
from assay.search.retriever import Retriever, check_request
from assay.search.retriever import SearchHit as SearchHit
from assay.text import strip_controls


def _searchable(query: str) -> str:
    if not strip_controls(query).strip():
        raise PydanticCustomError("string_too_short", "String should have at least 1 character")
    return query


# For a query in a pydantic model: refuses one that holds nothing but control characters, so that
# the caller learns which field is empty instead of that a search failed.
SEARCHABLE = AfterValidator(_searchable)

# A query of a request.
QueryText = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000), SEARCHABLE
]


@dataclass(frozen=True)
class Retrieval:
    """A loaded data set and what searches it, in `mode` unless a search asks for another."""

    dataset: Dataset
    searcher: Retriever
    mode: Mode

    async def search(
        self,
        query: str,
        top_k: int,
        *,
        mode: Mode | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> Sequence[SearchHit]:
        """Best first, at most `top_k` distinct documents, scores in [0, 1]."""
        return await asyncio.to_thread(
            self.searcher.search, query, top_k, mode=mode or self.mode, filters=filters
        )


async def load_retrieval(name: str, mode: str, progress: Progress = silent) -> Retrieval:
    """Load, and the first time build, what a server searches in the data set `name`."""
    known = check_request("any", 1, mode)

    def load() -> Retrieval:
        dataset = load_dataset(name, progress=progress)
        dataset.require_documents("a search")
        return open_retrieval(dataset, known, progress)

    # In a daemon thread: a server that is stopped does not wait for an index to be built.
    return await DaemonThreads().run(load)


def open_retrieval(dataset: Dataset, mode: Mode, progress: Progress = silent) -> Retrieval:
    """What searches a loaded data set; blocks while an index is built."""
    return Retrieval(dataset, open_retriever(dataset, mode, progress=progress), mode)
