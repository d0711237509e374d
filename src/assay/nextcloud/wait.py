"""Waits until documents are indexed, by searching for them.

An index that says "idle" may not have started yet. So a sample of the documents is searched for,
each by its own beginning, until the search returns it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from assay.data.dataset import Document
from assay.errors import AssayError
from assay.net.gather import for_each
from assay.progress import Progress, silent

Find = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes a query and a number, returns document ids, best first. An exception counts as a miss."""

TOP_K = 10
_QUERY_CHARACTERS = 400
_AT_ONCE = 4
_SHOWN = 10
# Searches slow down an indexer on the same machine: they get a quarter of the time at most.
_REST = 3.0


class NotRetrievable(AssayError):
    """Documents that a search does not find: exit code 1."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class WaitReport:
    """How many documents were found, in how many rounds of searches."""

    found: int
    rounds: int
    seconds: float


def sample_documents(
    documents: Mapping[str, Document], mapping: Mapping[str, int], size: int, seed: int = 42
) -> list[Document]:
    """A random sample that includes the last uploaded document, which is often indexed last."""
    known = [doc_id for doc_id in mapping if doc_id in documents and documents[doc_id].full_text]
    if not known:
        return []
    newest = max(known, key=lambda doc_id: mapping[doc_id])
    others = [doc_id for doc_id in known if doc_id != newest]
    drawn = random.Random(seed).sample(others, min(max(0, size - 1), len(others)))
    return [documents[doc_id] for doc_id in (newest, *drawn)]


async def wait_until_found(
    documents: Sequence[Document],
    find: Find,
    *,
    timeout: float = 600.0,
    pause: float = 2.0,
    top_k: int = TOP_K,
    progress: Progress = silent,
) -> WaitReport:
    """Search for `documents` again and again until `find` returns each of them.

    Raises `NotRetrievable`, which names the documents that were not found within `timeout` seconds.
    """
    started = time.monotonic()
    missing = {document.id: document for document in documents}
    last_failure: list[str] = []
    rounds = 0

    async def look(document: Document) -> None:
        try:
            found = await find(document.full_text[:_QUERY_CHARACTERS], top_k)
        except Exception as error:
            last_failure[:] = [str(error) or type(error).__name__]
            return
        if document.id in found:
            del missing[document.id]
            progress("waiting for the index", len(documents) - len(missing), len(documents))

    progress("waiting for the index", 0, len(documents))
    try:
        async with asyncio.timeout(timeout):
            while missing:
                rounds += 1
                last_failure.clear()
                began = time.monotonic()
                await for_each(list(missing.values()), look, _AT_ONCE)
                if missing:
                    await asyncio.sleep(max(pause, _REST * (time.monotonic() - began)))
    except TimeoutError:
        raise _not_found(missing, len(documents), timeout, last_failure) from None
    return WaitReport(len(documents), rounds, time.monotonic() - started)


def _not_found(
    missing: Mapping[str, Document], total: int, timeout: float, failure: Sequence[str]
) -> NotRetrievable:
    names = ", ".join(repr(doc_id) for doc_id in list(missing)[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    why = f"; the last search failed: {failure[0]}" if failure else ""
    return NotRetrievable(
        f"search does not return {len(missing)} of {total} documents after {timeout:g} s: "
        f"{names}{more}{why}. Wait longer (--timeout), or check the logs of the indexer"
    )
