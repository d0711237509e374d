"""A note, and how a document becomes one and is read back.

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

CATEGORY = "nfcorpus_rag_eval"
"""Of the notes that Assay makes, unless the user names another."""

UNKNOWN = "note:"
"""Begins the id of a note that holds no document of the data set."""

_TITLE_LENGTH = 100
_DROPPED = re.compile(r'[*|/\\:"<>?]')
_MARKER = re.compile(r"(?<!\s)\s*+\[([^\]]{1,200})\]\s*")
# ` (2)`: how the app distinguishes two notes of one title.
_NUMBERED = re.compile(r"\s\(\d+\)$")


@dataclass(frozen=True, slots=True)
class Note:
    """A note as the Notes API has it; `modified` is a Unix time."""

    id: int
    etag: str
    title: str
    content: str
    category: str
    modified: int

    @classmethod
    def from_json(cls, value: JsonObject) -> "Note":
        """From an object of the API; `KeyError` without an id. Other fields may be excluded."""
        return cls(
            id=int(value["id"]),
            etag=str(value.get("etag", "")),
            title=_writable(str(value.get("title", ""))),
            content=_writable(str(value.get("content") or "")),
            category=_writable(str(value.get("category", ""))),
            modified=int(value.get("modified", 0)),
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
        return note.content == self.content and self._title_fits(note.title)

    def matches_by_marker(self, note: Note) -> bool:
        """The same, but the marker of the title is enough: servers may change the rest."""
        marked = note.content == self.content and marker_of(note.title) == self.marker
        return marked or self.matches(note)

    def _title_fits(self, stored: str) -> bool:
        """Whether the app made `stored` of the title: versions differ in what they drop."""
        wanted, unnumbered = _letters(_kept(self.title)), _letters(_NUMBERED.sub("", stored))
        if len(stored) == _TITLE_LENGTH and _NUMBERED.search(stored):  # cut to fit its number
            return wanted.startswith(unnumbered)
        return wanted in (_letters(stored), unnumbered)


def plan_note(document: Document) -> PlannedNote:
    """The note for a document; a title that the app would cut is repeated in the content."""
    title, text = " ".join(strip_controls(document.title).split()), strip_controls(document.text)
    marked = f"[{document.id}] {title}".strip()
    content = text if _kept(marked) == marked else f"{title}\n\n{text}"
    return PlannedNote(document.id, marked, content)


def check_category(category: str) -> None:
    """Raise `UsageError` for a category that Nextcloud would rename: it becomes a folder."""
    kept = "/".join(_DROPPED.sub("", step).strip().lstrip(". ") for step in category.split("/"))
    if kept != category or "//" in f"/{category}/":
        raise UsageError(
            f"Nextcloud cannot store the category {category!r}: a name must not contain "
            '* | \\ : " < > ?, nor begin with a space or a dot'
        )


def plan_notes(documents: Iterable[Document]) -> list[PlannedNote]:
    """A note for each document, each with a marker of its own, by which it is recognized later."""
    planned = [plan_note(document) for document in documents]
    seen: dict[str, str] = {}
    for each in planned:
        other = seen.setdefault(each.marker, each.doc_id)
        if not each.marker or other != each.doc_id:
            what = f"looks like {other!r} in" if each.marker else "does not fit into"
            raise DataError(
                f"document id {each.doc_id!r} {what} the title of a note, which holds 100 "
                'characters and none of * | / \\ : " < > ?; give the document another id'
            )
    return planned


def marker_of(title: str) -> str:
    """The `MED-10` of a title that begins with `[MED-10]`, as far as the app keeps it."""
    match = _MARKER.match(_kept(title))
    return " ".join(match[1].split()) if match else ""


def document_from(note: Note, doc_id: str | None) -> Document:
    """The document that a note was made of; where `doc_id` is None, the note itself."""
    metadata = {"note_id": note.id, "category": note.category, "modified": note.modified}
    if doc_id is None:
        return Document(f"{UNKNOWN}{note.id}", note.title, note.content, metadata)
    title, gap, text = note.content.partition("\n\n")
    with_long_title = Document(doc_id, title, text, metadata)
    if gap and plan_note(with_long_title).matches(note):
        return with_long_title
    return Document(doc_id, _MARKER.sub("", note.title, count=1), note.content, metadata)


def _writable(text: str) -> str:
    """JSON can spell half of a surrogate pair, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _kept(title: str) -> str:
    return _DROPPED.sub("", title).strip()[:_TITLE_LENGTH]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
