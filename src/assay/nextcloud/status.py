"""What is in a category, held against what the mapping says should be."""

from dataclasses import dataclass
from pathlib import Path

from assay.data.note_mapping import read_note_mapping
from assay.nextcloud.client import NotesClient


@dataclass(frozen=True, slots=True)
class CategoryStatus:
    host: str
    category: str
    api_versions: str
    notes: int
    mapped: int
    missing: tuple[str, ...]
    """Documents whose note is not in the category."""
    foreign: int
    """Notes in the category that stand for no document."""


async def category_status(client: NotesClient, mapping_path: Path, category: str) -> CategoryStatus:
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
