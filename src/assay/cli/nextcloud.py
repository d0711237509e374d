"""`assay nextcloud`: upload a data set as notes, wait for the index, sync notes, clean up."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from assay.cli.console import print_json, progress_bar, say, show, warn
from assay.cli.help import verbs
from assay.cli.options import (
    EMBEDDER,
    ArchiveOption,
    DatasetOption,
    JsonOption,
    embedder_settings,
    option,
    retriever_settings,
    switch,
    with_options,
)
from assay.errors import UsageError
from assay.nextcloud.note import CATEGORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.data.dataset import Document
    from assay.nextcloud.client import NotesClient
    from assay.nextcloud.upload import CleanupPlan
    from assay.nextcloud.wait import WaitReport
    from assay.progress import Progress
    from assay.targets.protocol import Agent

Result = TypeVar("Result")

nextcloud_app = verbs(
    "nextcloud",
    "Upload a data set to Nextcloud as notes. Set NEXTCLOUD_HOST, NEXTCLOUD_USERNAME and "
    "NEXTCLOUD_PASSWORD.",
)

Host = Annotated[str | None, option("The URL of Nextcloud.", "NEXTCLOUD_HOST", "URL")]
Username = Annotated[
    str | None,
    option("The user. The password is read from NEXTCLOUD_PASSWORD.", "NEXTCLOUD_USERNAME", "NAME"),
]
Category = Annotated[str, option("The notes' category.", "ASSAY_NEXTCLOUD_CATEGORY", "CATEGORY")]
NoteMapping = Annotated[
    Path,
    option("The file that maps documents to notes.", "ASSAY_NOTE_MAPPING", "FILE", "--mapping"),
]
Concurrency = Annotated[
    int, option("How many requests to send at once.", "ASSAY_CONCURRENCY", "N", min=1)
]

MAPPING = Path("note_mapping.json")


@nextcloud_app.command("upload")
def upload(
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    category: Category = CATEGORY,
    mapping: NoteMapping = MAPPING,
    concurrency: Concurrency = 8,
    host: Host = None,
    username: Username = None,
    as_json: JsonOption = False,
) -> None:
    """Upload each document as a note. Existing notes are kept or updated.

    An interrupted upload continues where it stopped. It succeeds only when every document has its
    note.
    """
    from assay.data import load_dataset
    from assay.nextcloud.upload import upload_documents
    from assay.report.numbers import count, counted, duration

    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        data.require_documents("an upload")
        report = _with_notes(
            host,
            username,
            lambda client: upload_documents(
                data.documents.values(),
                client,
                mapping,
                category=category,
                concurrency=concurrency,
                progress=progress,
            ),
        )
    if report.outdated or report.foreign:
        warn(
            f"category {category!r} also holds {counted(report.outdated, 'note')} of documents "
            f"that are no longer in the data set and {counted(report.foreign, 'other note')}: "
            "a search can return them, and they count as unknown documents"
        )
    if as_json:
        facts = {"dataset": data.name, "category": category, "mapping": str(mapping)}
        print_json(facts | asdict(report))
        return
    show(
        f"{data.name}: {count(report.documents)} documents are notes in category {category!r}",
        f"{count(report.created)} created, {count(report.updated)} updated, "
        f"{count(report.adopted)} matched to existing notes, {count(report.unchanged)} unchanged, "
        f"{counted(report.copies, 'copy', 'copies')} deleted in {duration(report.seconds)}",
        f"note mapping: {mapping}",
    )


@nextcloud_app.command("status")
def show_status(
    category: Category = CATEGORY,
    mapping: NoteMapping = MAPPING,
    host: Host = None,
    username: Username = None,
    as_json: JsonOption = False,
) -> None:
    """Show the notes of the category, and documents without a note."""
    from assay.nextcloud.upload import category_status
    from assay.report.numbers import count

    found = _with_notes(host, username, lambda client: category_status(client, mapping, category))
    if as_json:
        print_json(asdict(found))
        return
    show(
        f"{found.host}, Notes API {found.api_versions or 'of an unknown version'}",
        f"category {category!r}: {count(found.notes)} notes",
        f"note mapping {mapping}: {count(found.mapped)} documents, "
        f"{count(len(found.missing))} without their note, {count(found.foreign)} other notes",
    )


@nextcloud_app.command("cleanup")
def cleanup(
    category: Category = CATEGORY,
    mapping: NoteMapping = MAPPING,
    everything: Annotated[
        bool,
        switch(
            "--all-in-category",
            "Delete every note of the category, even those that Assay did not upload.",
        ),
    ] = False,
    yes: Annotated[bool, switch("--yes", "Confirm the deletion.")] = False,
    concurrency: Concurrency = 8,
    host: Host = None,
    username: Username = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the uploaded notes of the category."""
    from assay.nextcloud.upload import clean_up, plan_cleanup
    from assay.report.numbers import counted

    async def plan_and_delete(client: "NotesClient") -> "CleanupPlan":
        plan = await plan_cleanup(client, mapping, category, everything=everything)
        if plan.delete and not yes:
            raise UsageError(
                f"this would delete {counted(len(plan.delete), 'note')} of category {category!r} "
                f"at {client.account.host}; confirm with --yes"
            )
        await clean_up(plan, client, mapping, concurrency=concurrency, progress=progress)
        return plan

    with progress_bar() as progress:
        plan = _with_notes(host, username, plan_and_delete)
    facts = {"deleted": len(plan.delete), "left": plan.left, "elsewhere": plan.elsewhere}
    if as_json:
        print_json({"category": category} | facts)
        return
    show(f"{counted(len(plan.delete), 'note')} deleted, {counted(plan.left, 'other')} left alone")
    if plan.elsewhere:
        say(f"{counted(plan.elsewhere, 'note')} of the mapping are not in category {category!r}")


@nextcloud_app.command("sync")
@with_options(retriever_settings(*EMBEDDER))
def sync(
    folder: Annotated[
        Path,
        option(
            "Folder to write the notes to as a data set, for --dataset.",
            "ASSAY_NEXTCLOUD_FOLDER",
            "DIR",
        ),
    ] = Path("nextcloud-notes"),
    questions: Annotated[
        str | None,
        option(
            "Use the queries and judgments of this data set. Default: the titles "
            "of the notes are the queries.",
            "ASSAY_QUESTIONS",
            "NAME|PATH",
        ),
    ] = None,
    archive: ArchiveOption = None,
    category: Category = CATEGORY,
    mapping: NoteMapping = MAPPING,
    host: Host = None,
    username: Username = None,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Update Assay's index with the notes that changed.

    Search them with: assay search QUERY --dataset DIR
    """
    from assay.data import load_dataset
    from assay.data.note_mapping import documents_by_note, read_note_mapping
    from assay.nextcloud.sync import sync_notes
    from assay.report.numbers import count
    from assay.search.embedding import open_embedder
    from assay.search.index import build_index, open_store

    with progress_bar() as progress:
        known = documents_by_note(read_note_mapping(mapping), mapping) if mapping.exists() else {}
        asked = load_dataset(questions, archive=archive, progress=progress) if questions else None
        report = _with_notes(
            host,
            username,
            lambda client: sync_notes(
                client,
                folder,
                category=category,
                doc_ids=known,
                questions=asked,
                progress=progress,
            ),
        )
        data = load_dataset(folder.resolve())
        chosen = open_embedder(embedder_settings(options))
        store = open_store(data.name, chosen)
        built = build_index(data.documents.values(), chosen, store, progress)
    if as_json:
        facts = {"folder": str(folder), "index": store.where, "category": category}
        print_json(facts | {"notes": asdict(report), "indexed": asdict(built)})
        return
    show(
        f"{count(report.notes)} notes of category {category!r} in {folder}: "
        f"{count(report.added)} added, {count(report.changed)} changed, "
        f"{count(report.removed)} removed",
        f"index in {store.where}: {count(built.added)} added, {count(built.changed)} changed, "
        f"{count(built.removed)} removed, {count(built.unchanged)} unchanged",
    )
    say(f"search it with: assay search QUERY --dataset {folder}")


@nextcloud_app.command("wait")
def wait(
    target: Annotated[
        str,
        typer.Argument(
            help="The target whose search must return the documents: nextcloud:URL of a Nextcloud "
            "MCP server, or any other target.",
            envvar="ASSAY_TARGET",
            metavar="TARGET",
        ),
    ],
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    mapping: NoteMapping = MAPPING,
    sample: Annotated[
        int, option("How many documents to search for.", "ASSAY_WAIT_SAMPLE", "N", min=1)
    ] = 20,
    seed: Annotated[int, option("Random seed of the sample.", "ASSAY_SEED", "S")] = 42,
    timeout: Annotated[
        float,
        option(
            "Give up after this many seconds, but not before every document was searched for "
            "twice.",
            "ASSAY_WAIT_TIMEOUT",
            "S",
            min=0.0,
        ),
    ] = 600.0,
    concurrency: Concurrency = 4,
    as_json: JsonOption = False,
) -> None:
    """Wait until a search returns a sample of the documents.

    Lists the documents that were not found, and separately those whose search failed.

    Exit codes: 0 all were found, 1 some were not before the timeout, 2 usage or input error, 3 the
    target could not be reached.
    """
    from assay.data import load_dataset
    from assay.data.note_mapping import read_note_mapping
    from assay.nextcloud.wait import sample_documents
    from assay.report.numbers import counted, duration
    from assay.targets.opening import open_target
    from assay.targets.target_kinds import OpenContext

    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        documents = sample_documents(data.documents, read_note_mapping(mapping), sample, seed)
        if not documents:
            raise UsageError(
                f"{mapping} has no document of {data.name!r}; upload the data set first"
            )
        agent = open_target(target, OpenContext(data, note_mapping=mapping, progress=progress))
        report = asyncio.run(_wait(agent, documents, timeout, concurrency, progress))
    if as_json:
        print_json({"target": target, "sample": [one.id for one in documents]} | asdict(report))
        return
    found = counted(report.found, "document is", "documents are")
    show(f"{found} found by {target}, after {duration(report.seconds)}")


async def _wait(
    agent: "Agent",
    documents: "Sequence[Document]",
    timeout: float,
    concurrency: int,
    progress: "Progress",
) -> "WaitReport":
    from assay.nextcloud.wait import wait_until_found

    async def find(query: str, top_k: int) -> "Sequence[str]":
        return (await agent.ask(query, top_k)).doc_ids

    await agent.open()
    try:
        return await wait_until_found(
            documents, find, timeout=timeout, concurrency=concurrency, progress=progress
        )
    finally:
        await agent.close()


def _with_notes(
    host: str | None, username: str | None, work: "Callable[[NotesClient], Awaitable[Result]]"
) -> Result:
    """Run `work` with a client for the account that options and environment name."""
    from assay.nextcloud.client import NotesClient, account_from_environment

    account = account_from_environment(host, username)

    async def run() -> Result:
        async with NotesClient(account) as client:
            return await work(client)

    return asyncio.run(run())
