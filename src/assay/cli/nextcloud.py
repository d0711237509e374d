"""`assay nextcloud`: upload a data set as notes, wait for its index, delete the notes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from assay.cli.console import progress_bar, warn
from assay.cli.options import DATASET_OPTION
from assay.cli.verb import Result, option, switch
from assay.data import load_dataset
from assay.data.note_mapping import read_note_mapping
from assay.errors import UsageError
from assay.nextcloud.client import Account, NotesClient
from assay.nextcloud.upload import (
    CATEGORY,
    clean_up,
    plan_cleanup,
    sample_documents,
    upload_documents,
    wait_until_found,
)
from assay.report.numbers import counted
from assay.targets.target_kinds import OpenContext, open_target

if TYPE_CHECKING:
    from assay.data import Dataset
    from assay.progress import Progress

_Result = TypeVar("_Result")

CATEGORY_OPTION = option(CATEGORY, "The notes' category.", "ASSAY_NEXTCLOUD_CATEGORY", "CATEGORY")
NOTE_MAPPING_OPTION = option(
    Path("note_mapping.json"), "Maps documents to notes.", "ASSAY_NOTE_MAPPING", "FILE", "--mapping"
)


def upload(
    dataset: str = DATASET_OPTION,
    category: str = CATEGORY_OPTION,
    mapping: Path = NOTE_MAPPING_OPTION,
    wait: str | None = option(
        None, "Wait until this nextcloud:URL finds the notes.", "ASSAY_NEXTCLOUD_WAIT", "TARGET"
    ),
    timeout: float = option(
        600.0, "With --wait: give up after this many seconds.", "ASSAY_WAIT_TIMEOUT", "S", min=0
    ),
) -> Result:
    """Upload each document as a note. Existing notes are kept or updated.

    An interrupted upload continues where it stopped.

    Exit codes: 0 uploaded (and found), 1 not all were found before the timeout, 2 usage or input
    error, 3 Nextcloud or the target could not be reached.
    """
    with progress_bar() as progress:
        data = load_dataset(dataset, progress=progress)
        data.require_documents("an upload")
        report = _with_notes(
            lambda client: upload_documents(
                data.documents.values(), client, mapping, category=category, progress=progress
            )
        )
        waited = asyncio.run(_wait(wait, data, mapping, timeout, progress)) if wait else {}
    if report.others:
        warn(
            f"category {category!r} also holds {counted(report.others, 'other note')}: a search "
            "can return them, and they count as unknown documents"
        )
    value = {"dataset": data.name, "category": category, "mapping": str(mapping)} | asdict(report)
    return Result(value | ({"wait": waited} if waited else {}))


def cleanup(
    category: str = CATEGORY_OPTION,
    mapping: Path = NOTE_MAPPING_OPTION,
    force: bool = switch("--force", "Confirm the deletion."),
) -> Result:
    """Delete the uploaded notes of the category."""

    async def plan_and_delete(client: NotesClient) -> tuple[int, int]:
        note_ids, left = await plan_cleanup(client, mapping, category)
        if note_ids and not force:
            raise UsageError(
                f"this would delete {counted(len(note_ids), 'note')} of category {category!r} "
                f"at {client.account.host}; confirm with --force"
            )
        with progress_bar() as progress:
            await clean_up(note_ids, client, mapping, progress)
        return len(note_ids), left

    deleted, left = _with_notes(plan_and_delete)
    return Result({"category": category, "deleted": deleted, "left": left})


async def _wait(
    target: str, data: "Dataset", mapping: Path, timeout: float, progress: "Progress"
) -> dict[str, float]:
    """How many documents were found, and after how many seconds."""
    documents = sample_documents(data.documents, read_note_mapping(mapping))
    agent = open_target(target, OpenContext(data, note_mapping=mapping, progress=progress))
    await agent.open()
    try:
        seconds = await wait_until_found(documents, agent.ask, timeout=timeout, progress=progress)
        return {"found": len(documents), "seconds": seconds}
    finally:
        await agent.close()


def _with_notes(work: Callable[[NotesClient], Awaitable[_Result]]) -> _Result:
    """Run `work` with a client for the account of the environment."""
    account = Account.from_environment()

    async def run() -> _Result:
        async with NotesClient(account) as client:
            return await work(client)

    return asyncio.run(run())
