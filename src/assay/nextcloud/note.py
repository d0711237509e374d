"""A note, and how a document becomes one.

The Notes app keeps a note as a file named after its title: it takes characters out that file
systems dislike, and cuts the name after 100. What it would cut is kept in the note's content.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from assay.data.dataset import Document
from assay.errors import DataError, UsageError
from assay.net.json import JsonObject
from assay.text import strip_controls

# Of the notes that Assay makes, unless the user names another.
CATEGORY = "nfcorpus_rag_eval"

_TITLE_LENGTH = 100
# Titles are compared as far as the app keeps them when it numbers a cut one.
_COMPARED_LENGTH = 80
_DROPPED = re.compile(r'[*|/\\:"<>?]')
_MARKER = re.compile(r"\s*+\[([^\]]{1,200})\]")
# ` (2)`: how the app distinguishes two notes of one title.
_NUMBERED = re.compile(r"\s\(\d+\)$")


@dataclass(frozen=True, slots=True)
class Note:
    """A note as the Notes API has it."""

    id: int
    etag: str
    title: str
    content: str
    category: str

    @classmethod
    def from_json(cls, value: JsonObject) -> "Note":
        """From an object of the API; `KeyError` without an id. Other fields may be excluded."""
        return cls(
            id=int(value["id"]),
            etag=str(value.get("etag", "")),
            title=str(value.get("title", "")),
            content=str(value.get("content") or ""),
            category=str(value.get("category", "")),
        )


@dataclass(frozen=True, slots=True)
class PlannedNote:
    """What the note of a document has to hold."""

    doc_id: str
    title: str
    content: str

    @property
    def marker(self) -> str:
        """What its title begins with in brackets, as far as the app keeps it."""
        return marker_of(self.title)

    def matches(self, note: Note) -> bool:
        """Whether the note holds the content under this title, as the app may have changed it."""
        wanted = _letters(_kept(self.title))
        stored = (_letters(note.title), _letters(_NUMBERED.sub("", note.title)))
        return note.content == self.content and wanted in stored


def plan_note(document: Document) -> PlannedNote:
    """The note for a document; a title that the app would cut is repeated in the content."""
    title, text = " ".join(strip_controls(document.title).split()), strip_controls(document.text)
    marked = f"[{document.id}] {title}".strip()
    content = text if _kept(marked) == marked else f"{title}\n\n{text}"
    return PlannedNote(document.id, marked, content)


def plan_notes(documents: Iterable[Document]) -> list[PlannedNote]:
    """A note for each document, each with a distinct marker, by which it is recognized later."""
    planned = [plan_note(document) for document in documents]
    seen: dict[str, str] = {}
    for note in planned:
        other = seen.setdefault(note.marker, note.doc_id)
        if not note.marker or other != note.doc_id:
            what = f"looks like {other!r} in" if note.marker else "does not fit into"
            raise DataError(
                f"document id {note.doc_id!r} {what} the title of a note, which holds 100 "
                'characters and none of * | / \\ : " < > ?; give the document another id'
            )
    return planned


def validate_category(category: str) -> None:
    """Raise `UsageError` for a category that Nextcloud would rename: it becomes a folder."""
    kept = "/".join(_DROPPED.sub("", step).strip().lstrip(". ") for step in category.split("/"))
    if kept != category or "//" in f"/{category}/":
        raise UsageError(
            f"Nextcloud cannot store the category {category!r}: a name must not contain "
            '* | \\ : " < > ?, nor begin with a space or a dot'
        )


def marker_of(title: str) -> str:
    """The `MED-10` of a title that begins with `[MED-10]`, as far as the app keeps it."""
    match = _MARKER.match(_kept(title))
    return " ".join(match[1].split()) if match else ""


def _kept(title: str) -> str:
    return _DROPPED.sub("", title).strip()[:_TITLE_LENGTH]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()[:_COMPARED_LENGTH]
