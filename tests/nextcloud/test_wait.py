"""Indexed means found."""

import asyncio
from collections.abc import Sequence

import pytest

from assay.data.dataset import Document
from assay.errors import DataError
from assay.nextcloud.wait import NotRetrievable, _Wait, sample_documents, wait_until_found

DOCUMENTS = [Document(f"d{n}", f"Title {n}", "Text.") for n in range(30)]


async def test_it_ends_when_all_of_the_sample_are_found() -> None:
    asked: list[str] = []

    async def find(query: str, top_k: int) -> Sequence[str]:
        asked.append(query)
        return ["d0", "d1"] if len(asked) > 5 else ["d0"]

    report = await wait_until_found(DOCUMENTS[:2], find, pause=0.0)
    assert report.found == 2
    assert asked[0] == "Title 0 Text."
    assert asked.count("Title 0 Text.") == 1  # what was found is not asked for again


async def test_those_that_were_not_found_are_named_when_time_is_over() -> None:
    async def find(query: str, top_k: int) -> Sequence[str]:
        return ["d0", "d2"]

    with pytest.raises(
        NotRetrievable,
        match=r"1 of 3 documents.*searched for and not returned: 'd1'\)\. Wait longer",
    ) as failure:
        await wait_until_found(DOCUMENTS[:3], find, timeout=0.1, pause=0.01)
    assert failure.value.exit_code == 1


async def test_a_search_that_fails_counts_as_not_yet() -> None:
    attempts = 0

    async def find(query: str, top_k: int) -> Sequence[str]:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise ConnectionError("still starting")
        return ["d0"]

    assert (await wait_until_found(DOCUMENTS[:1], find, pause=0.0)).rounds == 3


async def test_why_the_last_search_failed_is_said() -> None:
    async def find(query: str, top_k: int) -> Sequence[str]:
        raise ConnectionError("nobody there")

    with pytest.raises(NotRetrievable, match="the last search failed: nobody there"):
        await wait_until_found(DOCUMENTS[:1], find, timeout=0.05, pause=0.5)


async def test_a_search_that_never_answers_does_not_hold_it_up() -> None:
    async def find(query: str, top_k: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(NotRetrievable, match="10 of 10") as failure:
        await wait_until_found(DOCUMENTS[:10], find, timeout=0.05)
    said = str(failure.value)
    assert "searched for without an answer: 'd0', 'd1', 'd2', 'd3'; " in said
    assert "not searched for yet: 'd4', 'd5', 'd6', 'd7', 'd8', 'd9')" in said
    assert "not returned" not in said


async def test_a_slow_search_is_asked_for_every_document_before_it_is_given_up() -> None:
    """In 0.1 s there is time for eight searches of 0.05 s: twenty documents need more."""
    asked: dict[str, int] = {}

    async def find(query: str, top_k: int) -> Sequence[str]:
        asked[query] = asked.get(query, 0) + 1
        await asyncio.sleep(0.05)
        number = query.split()[1]
        return [f"d{number}"] if asked[query] > 1 else []

    report = await wait_until_found(DOCUMENTS[:20], find, timeout=0.1, pause=0.0)
    assert (report.found, report.rounds) == (20, 2)
    assert report.search_s >= 0.05


async def test_several_searches_are_sent_at_once() -> None:
    busy = most = 0

    async def find(query: str, top_k: int) -> Sequence[str]:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        return [document.id for document in DOCUMENTS]

    await wait_until_found(DOCUMENTS, find, concurrency=7)
    assert most == 7


async def test_the_rest_between_rounds_does_not_grow_with_their_number() -> None:
    """Three times a round of 140 s of searches once took all of the time there was."""

    async def find(query: str, top_k: int) -> Sequence[str]:
        return []

    wait = _Wait(find, 600.0, 4, {}, 20, latencies=[28.0])
    assert (wait.rest(2.0), round(wait.deadline() - wait.started)) == (15.0, 600)
    wait.timeout = 400.0
    assert wait.deadline() - wait.started == pytest.approx(2 * (5 * 28.0 * 1.5 + 15.0))


def test_the_sample_holds_the_newest_note() -> None:
    documents = {document.id: document for document in DOCUMENTS}
    mapping = {f"d{n}": 1000 - n for n in range(30)} | {"gone": 5000}
    sample = [document.id for document in sample_documents(documents, mapping, 5)]
    assert sample[0] == "d0"
    assert len(set(sample)) == 5
    assert sample == [document.id for document in sample_documents(documents, mapping, 5)]


def test_a_mapping_that_lacks_a_sampled_document_is_said_at_once() -> None:
    documents = {document.id: document for document in DOCUMENTS}
    mapping = {f"d{n}": n for n in range(20)}
    with pytest.raises(DataError, match=r"no note for 10 of 30 documents, such as 'd2\d'"):
        sample_documents(documents, mapping, 20)


def test_a_mapping_of_other_documents_gives_no_sample() -> None:
    documents = {document.id: document for document in DOCUMENTS}
    assert sample_documents(documents, {"x": 1}, 5) == []
