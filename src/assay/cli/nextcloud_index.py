"""`assay nextcloud sync` and `wait`: notes in our index, and in that of Nextcloud."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, say, show
from assay.cli.index import ArchiveOption, DatasetOption, EmbedderOption, ModelOption
from assay.cli.nextcloud_account import (
    CATEGORY,
    MAPPING,
    Category,
    Host,
    Json,
    NoteMapping,
    Username,
    with_notes,
)
from assay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.agents.protocol import Agent
    from assay.data.dataset import Dataset, Document
    from assay.nextcloud.wait import WaitReport
    from assay.progress import Progress


def sync(
    folder: Annotated[
        Path,
        typer.Option(
            help="Where the notes are kept as a data set, which every verb takes.",
            envvar="ASSAY_NEXTCLOUD_FOLDER",
            metavar="DIR",
        ),
    ] = Path("nextcloud-notes"),
    questions: Annotated[
        str | None,
        typer.Option(
            help="Take queries and judgments from this data set. Left out: the titles of the "
            "notes are the queries.",
            envvar="ASSAY_QUESTIONS",
            metavar="NAME|PATH",
        ),
    ] = None,
    archive: ArchiveOption = None,
    category: Category = CATEGORY,
    mapping: NoteMapping = MAPPING,
    model: ModelOption = None,
    embedder: EmbedderOption = None,
    host: Host = None,
    username: Username = None,
    as_json: Json = False,
) -> None:
    """Bring notes into Assay's own index: what changed since the last time, and what is gone.

    Search them with: assay search QUERY --dataset DIR
    """
    from assay.cli.live_progress import progress_bar
    from assay.data import load_dataset
    from assay.data.note_mapping import documents_by_note, read_note_mapping
    from assay.nextcloud.sync import sync as bring
    from assay.report.numbers import count
    from assay.search.embedding import open_embedder
    from assay.search.index import build_index
    from assay.search.reference import open_store

    with progress_bar() as progress:
        known = documents_by_note(read_note_mapping(mapping), mapping) if mapping.exists() else {}
        asked = load_dataset(questions, archive=archive, progress=progress) if questions else None
        options: dict[str, Any] = {"doc_ids": known, "questions": asked, "progress": progress}
        report = with_notes(
            host, username, lambda client: bring(client, folder, category=category, **options)
        )
        data = load_dataset(folder.resolve())
        chosen, store = open_embedder(model=model, embedder=embedder), open_store(data.name)
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


def wait(
    target: Annotated[
        str,
        typer.Argument(
            help="Whose search is to find the documents: nextcloud:URL of a Nextcloud MCP server, "
            "or any other target.",
            envvar="ASSAY_TARGET",
            metavar="TARGET",
        ),
    ],
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    mapping: NoteMapping = MAPPING,
    sample: Annotated[
        int,
        typer.Option(
            help="How many documents are looked for.",
            envvar="ASSAY_WAIT_SAMPLE",
            min=1,
            metavar="N",
        ),
    ] = 20,
    seed: Annotated[
        int, typer.Option(help="Decides which.", envvar="ASSAY_SEED", metavar="S")
    ] = 42,
    timeout: Annotated[
        float,
        typer.Option(
            help="Seconds until this is given up.",
            envvar="ASSAY_WAIT_TIMEOUT",
            min=0.0,
            metavar="S",
        ),
    ] = 600.0,
    as_json: Json = False,
) -> None:
    """Wait until a sample of the documents is found by search: then they are indexed.

    Exit code 1, and the documents that were not found, when the time is over.
    """
    from assay.cli.live_progress import progress_bar
    from assay.data import load_dataset
    from assay.data.note_mapping import read_note_mapping
    from assay.nextcloud.wait import sample_documents
    from assay.report.numbers import counted, duration

    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        documents = sample_documents(data.documents, read_note_mapping(mapping), sample, seed)
        if not documents:
            raise UsageError(f"{mapping} names no document of {data.name!r}; upload it first")
        agent = _opened(target, data, mapping, progress)
        report = asyncio.run(_wait(agent, documents, timeout, progress))
    if as_json:
        print_json({"target": target, "sample": [one.id for one in documents]} | asdict(report))
        return
    found = counted(report.found, "document is", "documents are")
    show(f"{found} found by {target}, after {duration(report.seconds)}")


def _opened(target: str, data: "Dataset", mapping: Path, progress: "Progress") -> "Agent":
    kind, _, rest = target.partition(":")
    if kind == "nextcloud":
        from assay.agents.nextcloud import NextcloudAgent

        return NextcloudAgent.at(rest, note_mapping=mapping, known=data.documents)
    from assay.agents.targets import open_target

    return open_target(target, data, progress=progress)


async def _wait(
    agent: "Agent", documents: "Sequence[Document]", timeout: float, progress: "Progress"
) -> "WaitReport":
    from assay.nextcloud.wait import wait_until_found

    async def find(query: str, top_k: int) -> "Sequence[str]":
        return (await agent.ask(query, top_k)).doc_ids

    await agent.open()
    try:
        return await wait_until_found(documents, find, timeout=timeout, progress=progress)
    finally:
        await agent.close()
