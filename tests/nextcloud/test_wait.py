"""Indexed means found."""

from collections.abc import Callable

import pytest

from assay.data.dataset import Document
from assay.errors import DataError
from assay.nextcloud.wait import NotRetrievable, sample_documents, wait_until_found
from assay.targets.protocol import AgentAnswer

DOCUMENTS = [Document(f"d{n}", f"Title {n}", "Text.") for n in range(30)]


class Searching:
    """An agent that answers with `found(number of the search)`."""

    def __init__(self, found: Callable[[int], list[str]]) -> None:
        self.asked: list[str] = []
        self._found = found

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        self.asked.append(query)
        return AgentAnswer(tuple(self._found(len(self.asked))))


async def test_it_ends_when_all_of_the_sample_are_found() -> None:
    agent = Searching(lambda number: ["d0", "d1"] if number > 5 else ["d0"])
    report = await wait_until_found(DOCUMENTS[:2], agent, pause=0.0)
    assert report.found == 2
    assert agent.asked.count("Title 0 Text.") == 1  # what was found is not asked for again


async def test_those_that_were_not_found_are_named_when_time_is_over() -> None:
    agent = Searching(lambda _number: ["d0", "d2"])
    with pytest.raises(NotRetrievable, match=r"1 of 3 documents .*: 'd1'\. Wait longer") as failure:
        await wait_until_found(DOCUMENTS[:3], agent, timeout=0.0)
    assert failure.value.exit_code == 1
    assert len(agent.asked) == 3


async def test_a_search_that_fails_counts_as_not_yet() -> None:
    def found(number: int) -> list[str]:
        if number < 3:
            raise ConnectionError("still starting")
        return ["d0"]

    agent = Searching(found)
    assert (await wait_until_found(DOCUMENTS[:1], agent, pause=0.0)).found == 1
    assert len(agent.asked) == 3
    with pytest.raises(NotRetrievable, match="the last failed search: still starting"):
        await wait_until_found(DOCUMENTS[:1], Searching(lambda _: found(0)), timeout=0.0)


def test_the_sample_holds_the_newest_note() -> None:
    documents = {document.id: document for document in DOCUMENTS}
    mapping = {f"d{n}": 1000 - n for n in range(30)} | {"gone": 5000}
    sample = [document.id for document in sample_documents(documents, mapping, 5)]
    assert sample[0] == "d0"
    assert len(set(sample)) == 5
    assert sample == [document.id for document in sample_documents(documents, mapping, 5)]


@pytest.mark.parametrize("mapping", [{f"d{n}": n for n in range(20)}, {"x": 1}])
def test_a_mapping_that_lacks_a_sampled_document_is_said_at_once(mapping: dict[str, int]) -> None:
    documents = {document.id: document for document in DOCUMENTS}
    with pytest.raises(DataError, match=r"no note for \d+ of 30 documents, such as ..d"):
        sample_documents(documents, mapping)
