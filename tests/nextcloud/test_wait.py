"""Indexed means found."""

import asyncio
from collections.abc import Sequence

import pytest

from assay.data.dataset import Document
from assay.nextcloud.wait import NotRetrievable, sample_documents, wait_until_found

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

    with pytest.raises(NotRetrievable, match=r"1 of 3 documents.*: 'd1'\. Wait longer") as failure:
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

    with pytest.raises(NotRetrievable, match="10 of 10"):
        await wait_until_found(DOCUMENTS[:10], find, timeout=0.05)


def test_the_sample_holds_the_newest_note_and_only_what_was_uploaded() -> None:
    documents = {document.id: document for document in DOCUMENTS}
    mapping = {f"d{n}": 1000 - n for n in range(20)} | {"gone": 5000}
    sample = [document.id for document in sample_documents(documents, mapping, 5)]
    assert sample[0] == "d0"
    assert len(set(sample)) == 5
    assert set(sample) <= mapping.keys()
    assert sample == [document.id for document in sample_documents(documents, mapping, 5)]
