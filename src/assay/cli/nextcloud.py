"""`assay nextcloud`: a data set as notes in a Nextcloud, and what its search makes of them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, say, show, warn
from assay.cli.index import ArchiveOption, DatasetOption
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
from assay.cli.nextcloud_index import sync, wait
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.nextcloud.cleanup import CleanupPlan
    from assay.nextcloud.client import NotesClient

nextcloud_app = typer.Typer(
    name="nextcloud",
    help="Put a data set into Nextcloud as notes. The account: NEXTCLOUD_HOST, "
    "NEXTCLOUD_USERNAME, NEXTCLOUD_PASSWORD.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Concurrency = Annotated[
    int,
    typer.Option(
        help="How many requests are out at once.", envvar="ASSAY_CONCURRENCY", min=1, metavar="N"
    ),
]


@nextcloud_app.command("upload")
def upload(
    dataset: DatasetOption = "nfcorpus",
    archive: ArchiveOption = None,
    category: Category = CATEGORY,
    mapping: NoteMapping = MAPPING,
    concurrency: Concurrency = 8,
    host: Host = None,
    username: Username = None,
    as_json: Json = False,
) -> None:
    """Make a note of each document; what is there already is left or brought up to date.

    An upload that was interrupted goes on where it was. It ends well only when every document has
    its note.
    """
    from assay.cli.live_progress import progress_bar
    from assay.data import load_dataset
    from assay.nextcloud.upload import upload as carry_out
    from assay.report.numbers import count, counted, duration

    with progress_bar() as progress:
        data = load_dataset(dataset, archive=archive, progress=progress)
        documents = data.documents.values()
        options: dict[str, Any] = {
            "category": category,
            "at_once": concurrency,
            "progress": progress,
        }
        report = with_notes(
            host, username, lambda client: carry_out(documents, client, mapping, **options)
        )
    if report.outdated or report.foreign:
        warn(
            f"category {category!r} also holds {counted(report.outdated, 'note')} of documents "
            f"that are no longer in the data set and {counted(report.foreign, 'other note')}: "
            "a search can find them, and they count as unknown"
        )
    if as_json:
        facts = {"dataset": data.name, "category": category, "mapping": str(mapping)}
        print_json(facts | asdict(report))
        return
    show(
        f"{data.name}: {count(report.documents)} documents are notes in category {category!r}",
        f"{count(report.created)} created, {count(report.updated)} updated, "
        f"{count(report.adopted)} found again, {count(report.unchanged)} unchanged, "
        f"{counted(report.copies, 'copy', 'copies')} deleted in {duration(report.seconds)}",
        f"note mapping: {mapping}",
    )


@nextcloud_app.command("status")
def status(
    category: Category = CATEGORY,
    mapping: NoteMapping = MAPPING,
    host: Host = None,
    username: Username = None,
    as_json: Json = False,
) -> None:
    """What is in the category, and whether every mapped document still has its note."""
    from assay.nextcloud.status import category_status
    from assay.report.numbers import count

    found = with_notes(host, username, lambda client: category_status(client, mapping, category))
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
        typer.Option(
            "--all-in-category", help="Delete every note of the category, whoever wrote it."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, delete them.")] = False,
    concurrency: Concurrency = 8,
    host: Host = None,
    username: Username = None,
    as_json: Json = False,
) -> None:
    """Delete the notes that the mapping names, as far as they are in the category."""
    from assay.cli.live_progress import progress_bar
    from assay.nextcloud.cleanup import clean_up, plan_cleanup
    from assay.report.numbers import counted

    async def carry_out(client: "NotesClient") -> "CleanupPlan":
        plan = await plan_cleanup(client, mapping, category, everything=everything)
        if plan.delete and not yes:
            raise UsageError(
                f"this would delete {counted(len(plan.delete), 'note')} of category {category!r} "
                f"at {client.account.host}; if that is meant, add --yes"
            )
        await clean_up(plan, client, mapping, at_once=concurrency, progress=progress)
        return plan

    with progress_bar() as progress:
        plan = with_notes(host, username, carry_out)
    facts = {"deleted": len(plan.delete), "left": plan.left, "elsewhere": plan.elsewhere}
    if as_json:
        print_json({"category": category} | facts)
        return
    show(f"{counted(len(plan.delete), 'note')} deleted, {counted(plan.left, 'other')} left alone")
    if plan.elsewhere:
        say(f"{counted(plan.elsewhere, 'note')} of the mapping are not in category {category!r}")


nextcloud_app.command("sync")(sync)
nextcloud_app.command("wait")(wait)
