"""Waits until documents are indexed, by searching for them.

An index that says "idle" may not have started yet. So a sample of the documents is searched for,
each by its own beginning, until the search returns it.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from assay.data.dataset import Document
from assay.errors import AssayError, DataError
from assay.net.gather import for_each
from assay.progress import Progress, silent

FindNotes = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes a query and a number, returns document ids, best first. An exception counts as a miss."""

TOP_K = 10
"""Among how many results a document must be."""
CONCURRENCY = 4
_QUERY_CHARACTERS = 400
_SHOWN = 10
# Every document is searched for this often before it is given up, however slow the search is.
_LEAST_SEARCHES = 2
# Between two rounds the indexer, often on the same machine, has it for itself: for as long as one
# search takes, and no longer than this.
_LONGEST_REST = 15.0
# The searches to come may be slower than those that were measured.
_SLOWER = 1.5


class NotRetrievable(AssayError):
    """Documents that a search does not find: exit code 1."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class WaitReport:
    """How many documents were found, in how many rounds of searches; `search_s` is one of them."""

    found: int
    rounds: int
    seconds: float
    search_s: float = 0.0


def sample_documents(
    documents: Mapping[str, Document], mapping: Mapping[str, int], size: int, seed: int = 42
) -> list[Document]:
    """A random sample that includes the last uploaded document, which is often indexed last.

    Raises `DataError` where the mapping has no note for a document of the sample: no search could
    ever return it.
    """
    searchable = [doc_id for doc_id in documents if documents[doc_id].full_text]
    known = [doc_id for doc_id in searchable if doc_id in mapping]
    if not known:
        return []
    newest = max(known, key=lambda doc_id: mapping[doc_id])
    others = [doc_id for doc_id in searchable if doc_id != newest]
    drawn = random.Random(seed).sample(others, min(max(0, size - 1), len(others)))
    lacking = next((doc_id for doc_id in drawn if doc_id not in mapping), None)
    if lacking is not None:
        raise DataError(
            f"the note mapping has no note for {len(searchable) - len(known):,} of "
            f"{len(searchable):,} documents, such as {lacking!r}, so no search can return them; "
            "upload the data set again, or pass its own mapping (--mapping)"
        )
    return [documents[doc_id] for doc_id in (newest, *drawn)]


@dataclass
class _Searches:
    """What became of the searches for one document."""

    document: Document
    sent: int = 0
    answered: int = 0
    failure: str = ""


@dataclass
class _Wait:
    """One wait: who is missing, and how long a search takes."""

    find: FindNotes
    timeout: float
    concurrency: int
    missing: dict[str, _Searches]
    total: int
    started: float = field(default_factory=time.monotonic)
    rounds: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def search_s(self) -> float:
        """The mean time of a search; 0 while none has been answered."""
        return sum(self.latencies) / len(self.latencies) if self.latencies else 0.0

    def deadline(self) -> float:
        """When to give up: after the timeout, or later where a slow search needs longer to be asked
        for every document."""
        rounds_s = math.ceil(self.total / self.concurrency) * self.search_s * _SLOWER
        needed = _LEAST_SEARCHES * (rounds_s + self.rest(0.0))
        return self.started + max(self.timeout, needed)

    def rest(self, pause: float) -> float:
        """Seconds between two rounds."""
        return max(pause, min(self.search_s, _LONGEST_REST))

    async def look(self, searches: _Searches) -> None:
        """Search for one document."""
        searches.sent += 1
        began = time.monotonic()
        try:
            found = await self.find(searches.document.full_text[:_QUERY_CHARACTERS], TOP_K)
        except Exception as error:
            searches.failure = str(error) or type(error).__name__
            return
        self.latencies.append(time.monotonic() - began)
        searches.answered += 1
        searches.failure = ""
        if searches.document.id in found:
            self.missing.pop(searches.document.id, None)


async def wait_until_found(
    documents: Sequence[Document],
    find: FindNotes,
    *,
    timeout: float = 600.0,
    pause: float = 2.0,
    concurrency: int = CONCURRENCY,
    progress: Progress = silent,
) -> WaitReport:
    """Search for `documents` again and again until `find` returns each of them.

    Raises `NotRetrievable`, which names the documents that were searched for and not found, and
    apart from them those whose search was not answered.

    Parameters:
        documents: what must be found.
        find: the search.
        timeout: seconds after which to give up. A search so slow that not every document could be
            asked for twice gets more time.
        pause: least seconds between two rounds.
        concurrency: how many searches to send at once.
        progress: called with the number of documents that are found.
    """
    missing = {each.id: _Searches(each) for each in documents}
    wait = _Wait(find, timeout, concurrency, missing, len(missing))

    async def look(searches: _Searches) -> None:
        await wait.look(searches)
        progress("waiting for the index", len(documents) - len(wait.missing), len(documents))

    progress("waiting for the index", 0, len(documents))
    while wait.missing:
        wait.rounds += 1
        if not await _before_deadline(wait, _round(wait, look, pause)):
            raise _not_found(wait, len(documents))
    return WaitReport(
        len(documents), wait.rounds, time.monotonic() - wait.started, round(wait.search_s, 3)
    )


async def _round(wait: _Wait, look: Callable[[_Searches], Awaitable[None]], pause: float) -> None:
    """Search for each missing document once; those that were asked for least come first."""
    order = sorted(wait.missing.values(), key=lambda each: each.sent)
    await for_each(order, look, wait.concurrency)
    if wait.missing:
        await asyncio.sleep(wait.rest(pause))


async def _before_deadline(wait: _Wait, work: Awaitable[None]) -> bool:
    """Whether `work` ended before a deadline that moves as the latency of the search gets known."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            left = wait.deadline() - time.monotonic()
            if left <= 0:
                return False
            await asyncio.wait({task}, timeout=left)
        await task
        return True
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _not_found(wait: _Wait, total: int) -> NotRetrievable:
    missing = list(wait.missing.values())
    asked = [each for each in missing if each.answered]
    unanswered = [each for each in missing if each.sent and not each.answered]
    not_asked = [each for each in missing if not each.sent]
    failure = next((each.failure for each in missing if each.failure), "")
    said = [
        f"{what}: {_names(group)}"
        for what, group in (
            ("searched for and not returned", asked),
            ("searched for without an answer", unanswered),
            ("not searched for yet", not_asked),
        )
        if group
    ]
    speed = f" at {wait.search_s:.1f} s a search" if wait.latencies else ""
    why = f"; the last search failed: {failure}" if failure else ""
    seconds = time.monotonic() - wait.started
    return NotRetrievable(
        f"{len(missing)} of {total} documents are not found after {seconds:.0f} s{speed} "
        f"({'; '.join(said)}){why}. Wait longer (--timeout), or check the logs of the indexer"
    )


def _names(group: Sequence[_Searches]) -> str:
    names = ", ".join(repr(each.document.id) for each in group[:_SHOWN])
    return f"{names} and {len(group) - _SHOWN} more" if len(group) > _SHOWN else names
