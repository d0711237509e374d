"""Waits until documents are indexed, by searching for them.

An index that says "idle" may not have started yet. So a sample of the documents is searched for,
each by its own beginning, until the search returns it.
"""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assay.data.dataset import Document
from assay.errors import AssayError, DataError
from assay.net.gather import for_each
from assay.progress import Progress, silent

TIMEOUT_S = 600.0

_SAMPLE_SIZE = 20
_TOP_K = 10
_CONCURRENCY = 4
# A real server was seen to take 28 s for a search while it indexed.
_SEARCH_TIMEOUT_S = 120.0
_PAUSE_S = 2.0
_QUERY_CHARACTERS = 400


class SupportsAsk(Protocol):
    """An opened agent; its answers have `doc_ids`."""

    async def ask(self, query: str, top_k: int) -> Any:
        """Search for `query`."""


class NotRetrievable(AssayError):
    """Documents that a search does not find: exit code 1."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class WaitReport:
    """How many documents were found, and when."""

    found: int
    seconds: float


def sample_documents(
    documents: Mapping[str, Document], mapping: Mapping[str, int], size: int = _SAMPLE_SIZE
) -> list[Document]:
    """A random sample that includes the last uploaded document, which is often indexed last.

    Raises `DataError` if a document has no note: no search could ever return it.
    """
    searchable = [doc_id for doc_id in documents if documents[doc_id].full_text]
    lacking = [doc_id for doc_id in searchable if doc_id not in mapping]
    if lacking or not searchable:
        raise DataError(
            f"the note mapping has no note for {len(lacking):,} of {len(searchable):,} documents, "
            f"such as {lacking[:1]}; upload the data set again"
        )
    newest = max(searchable, key=lambda doc_id: mapping[doc_id])
    others = [doc_id for doc_id in searchable if doc_id != newest]
    drawn = random.Random(42).sample(others, min(max(0, size - 1), len(others)))
    return [documents[doc_id] for doc_id in (newest, *drawn)]


async def wait_until_found(
    documents: Sequence[Document],
    agent: SupportsAsk,
    *,
    timeout: float = TIMEOUT_S,
    pause: float = _PAUSE_S,
    progress: Progress = silent,
) -> WaitReport:
    """Search for `documents` in rounds until the opened `agent` returns each of them.

    Each one is searched for at least once, however short `timeout` is. Raises `NotRetrievable`,
    which names the missing documents and the last failure of a search.
    """
    started, failure = time.monotonic(), ""
    missing = {document.id: document for document in documents}

    async def look_for(document: Document) -> None:
        nonlocal failure
        try:
            async with asyncio.timeout(_SEARCH_TIMEOUT_S):
                answer = await agent.ask(document.full_text[:_QUERY_CHARACTERS], _TOP_K)
        except Exception as error:  # a server that is still starting fails in many ways
            failure = str(error) or type(error).__name__
            return
        if document.id in answer.doc_ids:
            missing.pop(document.id, None)
        progress("waiting for the index", len(documents) - len(missing), len(documents))

    while missing:
        await for_each(list(missing.values()), look_for, _CONCURRENCY)
        seconds = time.monotonic() - started
        if missing and seconds + pause > timeout:
            names = ", ".join(map(repr, list(missing)[:10]))
            names += ", ..." if len(missing) > 10 else ""
            why = f"; the last failed search: {failure}" if failure else ""
            raise NotRetrievable(
                f"{len(missing)} of {len(documents)} documents are not found after {seconds:.0f} "
                f"s: {names}{why}. Wait longer (--timeout), or check the logs of the indexer"
            )
        if missing:
            await asyncio.sleep(pause)
    return WaitReport(len(documents), time.monotonic() - started)
