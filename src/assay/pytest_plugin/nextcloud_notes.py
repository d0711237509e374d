"""Documents as notes of a Nextcloud, for tests that search there."""

import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from assay.pytest_plugin.telling import told_in_words

if TYPE_CHECKING:
    from assay.agents import Agent
    from assay.data import Dataset
    from assay.nextcloud.client import NotesClient
    from assay.pytest_plugin.cases import RagTestData
    from assay.pytest_plugin.session_loop import SessionLoop

_SAMPLE = 20


@pytest.fixture(scope="session")
def nc_client(assay_loop: "SessionLoop") -> Iterator["NotesClient"]:
    """The notes of the Nextcloud that NEXTCLOUD_HOST, _USERNAME and _PASSWORD name."""
    from assay.nextcloud.client import (
        HOST,
        PASSWORD,
        USERNAME,
        NotesClient,
        account_from_environment,
    )

    if missing := [each for each in (HOST, USERNAME, PASSWORD) if not os.environ.get(each)]:
        pytest.skip(f"no Nextcloud to test with: {', '.join(missing)} not set")
    with told_in_words():
        account = account_from_environment()
    with assay_loop.entered(NotesClient(account)) as client:
        yield assay_loop.lend(client)


@pytest.fixture(scope="session")
def note_mapping(
    request: pytest.FixtureRequest, nfcorpus_test_data: "RagTestData"
) -> dict[str, int]:
    """The note of each document. What `note_mapping.json` lacks is uploaded first: all of it, or
    the fixture fails.
    """
    from assay.data.note_mapping import note_mapping_path, read_note_mapping

    path, documents = note_mapping_path(), nfcorpus_test_data.dataset.documents
    with told_in_words():
        known = read_note_mapping(path) if path.exists() else {}
    if not documents.keys() <= known.keys():
        _upload(request, nfcorpus_test_data.dataset)
    with told_in_words():
        return read_note_mapping(path)


def _upload(request: pytest.FixtureRequest, dataset: "Dataset") -> None:
    from assay.data.note_mapping import note_mapping_path
    from assay.nextcloud.upload import upload

    client: NotesClient = request.getfixturevalue("nc_client")
    loop: SessionLoop = request.getfixturevalue("assay_loop")
    with told_in_words():
        loop.run(partial(upload, dataset.documents.values(), client, note_mapping_path()))


async def wait_for_notes(agent: "Agent", dataset: "Dataset") -> None:
    """Until a sample of them is found: that an index says it is idle proves nothing."""
    from assay.data.note_mapping import note_mapping_path, read_note_mapping
    from assay.nextcloud.wait import sample_documents, wait_until_found

    async def find(query: str, top_k: int) -> tuple[str, ...]:
        return (await agent.ask(query, top_k)).doc_ids

    mapping = read_note_mapping(note_mapping_path())
    await wait_until_found(sample_documents(dataset.documents, mapping, _SAMPLE), find)
