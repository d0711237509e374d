"""A category of notes compared with the note mapping, and the deletion of its notes."""

from dataclasses import dataclass
from pathlib import Path

from assay.data.note_mapping import read_note_mapping, write_note_mapping
from assay.net.gather import for_each
from assay.nextcloud.client import NotesClient
from assay.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class CategoryStatus:
    """What a category holds.

    `missing` are documents whose note is not in the category, `foreign` counts notes in it that
    hold no document.
    """

    host: str
    category: str
    api_versions: str
    notes: int
    mapped: int
    missing: tuple[str, ...]
    foreign: int


async def category_status(client: NotesClient, mapping_path: Path, category: str) -> CategoryStatus:
    """Compare a category with the note mapping."""
    mapping = read_note_mapping(mapping_path) if mapping_path.exists() else {}
    listing = await client.notes_in(category, exclude=("content",))
    there = listing.ids if listing else frozenset()
    return CategoryStatus(
        host=client.account.host,
        category=category,
        api_versions=listing.api_versions if listing else "",
        notes=len(there),
        mapped=len(mapping),
        missing=tuple(doc_id for doc_id, note_id in mapping.items() if note_id not in there),
        foreign=len(there - set(mapping.values())),
    )


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """Which notes to delete.

    `left` counts notes in the category that the mapping does not name; `elsewhere` counts mapped
    notes that are not in it: they were deleted already, or moved to another category.
    """

    delete: tuple[int, ...]
    left: int
    elsewhere: int


async def plan_cleanup(
    client: NotesClient, mapping_path: Path, category: str, *, everything: bool = False
) -> CleanupPlan:
    """The mapped notes in the category, or with `everything` all of its notes.

    With `everything` no mapping is needed.
    """
    mapped: set[int] = set()
    if mapping_path.exists() or not everything:
        mapped = set(read_note_mapping(mapping_path).values())
    listing = await client.notes_in(category, exclude=("content",))
    there = listing.ids if listing else frozenset()
    chosen = there if everything else there & mapped
    return CleanupPlan(tuple(sorted(chosen)), len(there - chosen), len(mapped - there))


async def clean_up(
    plan: CleanupPlan,
    client: NotesClient,
    mapping_path: Path,
    *,
    concurrency: int = 8,
    progress: Progress = silent,
) -> None:
    """Delete the planned notes and the mapping.

    On a failure the mapping keeps the notes that are left, so that a second call can continue.
    """
    gone: set[int] = set()

    async def delete(note_id: int) -> None:
        await client.delete(note_id)
        gone.add(note_id)
        progress("deleting notes", len(gone), len(plan.delete))

    try:
        await for_each(plan.delete, delete, concurrency)
    except BaseException:
        _forget(gone, mapping_path)
        raise
    mapping_path.unlink(missing_ok=True)


def _forget(gone: set[int], mapping_path: Path) -> None:
    if mapping_path.exists():
        mapping = read_note_mapping(mapping_path)
        write_note_mapping({d: n for d, n in mapping.items() if n not in gone}, mapping_path)
