"""What the verbs of `assay nextcloud` share: whose notes, which of them, how they are reached."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from assay.nextcloud.client import NotesClient

Result = TypeVar("Result")

Host = Annotated[
    str | None,
    typer.Option(help="The address of Nextcloud.", envvar="NEXTCLOUD_HOST", metavar="URL"),
]
Username = Annotated[
    str | None,
    typer.Option(
        help="The user. The password is taken from NEXTCLOUD_PASSWORD.",
        envvar="NEXTCLOUD_USERNAME",
        metavar="NAME",
    ),
]
Category = Annotated[
    str,
    typer.Option(
        help="The notes' category.", envvar="ASSAY_NEXTCLOUD_CATEGORY", metavar="CATEGORY"
    ),
]
NoteMapping = Annotated[
    Path,
    typer.Option(
        "--mapping",
        help="Where it is kept which note stands for which document.",
        envvar="ASSAY_NOTE_MAPPING",
        metavar="FILE",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]

CATEGORY = "nfcorpus_rag_eval"
MAPPING = Path("note_mapping.json")


def with_notes(
    host: str | None, username: str | None, work: "Callable[[NotesClient], Awaitable[Result]]"
) -> Result:
    from assay.nextcloud.account import account_from_environment
    from assay.nextcloud.client import NotesClient

    account = account_from_environment(host, username)

    async def run() -> Result:
        async with NotesClient(account) as client:
            return await work(client)

    return asyncio.run(run())
