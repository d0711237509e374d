"""A note, and how a document becomes one and is read back.

The Notes app keeps a note as a file named after its title: it takes characters out that file
systems dislike, and cuts the name after 100. What it would cut is kept in the note's text.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from assay.data.dataset import Document
from assay.errors import DataError, UsageError
from assay.text import strip_controls

UNKNOWN = "note:"
"""Before the id of a note that stands for no document of ours."""

_LONGEST_TITLE = 100
_DROPPED = re.compile(r'[*|/\\:"<>?]')
_MARK = re.compile(r"\s*\[([^\]]+)\]\s*")
# ` (2)`: the app's way to tell two notes of one title apart.
_NUMBERED = re.compile(r"\s\(\d+\)$")


@dataclass(frozen=True, slots=True)
class Note:
    id: int
    etag: str
    title: str
    content: str
    category: str
    modified: int

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Note":
        """Fields may be excluded from a listing; a note without an id is none."""
        return cls(
            id=int(value["id"]),
            etag=str(value.get("etag", "")),
            title=_writable(str(value.get("title", ""))),
            content=_writable(str(value.get("content") or "")),
            category=_writable(str(value.get("category", ""))),
            modified=int(value.get("modified", 0)),
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a document's note is to hold."""

    doc_id: str
    title: str
    content: str

    @property
    def mark(self) -> str:
        return mark_of(self.title)

    def is_in(self, note: Note) -> bool:
        return note.content == self.content and self._title_fits(note.title)

    def stands_in(self, note: Note) -> bool:
        """The mark is enough: a server may spell the rest of a title in its own way."""
        marked = note.content == self.content and mark_of(note.title) == self.mark
        return marked or self.is_in(note)

    def _title_fits(self, stored: str) -> bool:
        """Whether this is what the app made of our title: versions differ in what they drop."""
        wanted, unnumbered = _letters(_kept(self.title)), _letters(_NUMBERED.sub("", stored))
        if len(stored) == _LONGEST_TITLE and _NUMBERED.search(stored):  # cut to fit its number
            return wanted.startswith(unnumbered)
        return wanted in (_letters(stored), unnumbered)


def draft_of(document: Document) -> Draft:
    title, text = " ".join(strip_controls(document.title).split()), strip_controls(document.text)
    whole = f"[{document.id}] {title}".strip()
    content = text if _kept(whole) == whole else f"{title}\n\n{text}"
    return Draft(document.id, whole, content)


def check_category(category: str) -> None:
    """A category is a folder: under another name than was meant, its notes would not be found."""
    kept = "/".join(_DROPPED.sub("", step).strip().lstrip(". ") for step in category.split("/"))
    if kept != category or "//" in f"/{category}/":
        raise UsageError(
            f"Nextcloud cannot keep a category {category!r}: a name has none of "
            '* | \\ : " < > ?, and no blank or dot before it'
        )


def drafts_of(documents: Iterable[Document]) -> list[Draft]:
    """Each with a mark of its own, by which a note is known again after a kill."""
    drafts = [draft_of(document) for document in documents]
    seen: dict[str, str] = {}
    for draft in drafts:
        other = seen.setdefault(draft.mark, draft.doc_id)
        if not draft.mark or other != draft.doc_id:
            what = f"cannot be told from {other!r} by" if draft.mark else "does not fit into"
            raise DataError(
                f"document id {draft.doc_id!r} {what} the title of a note, which holds 100 "
                'characters and none of * | / \\ : " < > ?; give the document another id'
            )
    return drafts


def mark_of(title: str) -> str:
    """The `MED-10` of a title that begins with `[MED-10]`, as far as the app keeps it."""
    match = _MARK.match(_kept(title))
    return " ".join(match[1].split()) if match else ""


def document_of(note: Note, doc_id: str | None) -> Document:
    """The document as it was before it became a note; or the note itself, where it was none."""
    metadata = {"note_id": note.id, "category": note.category, "modified": note.modified}
    if doc_id is None:
        return Document(f"{UNKNOWN}{note.id}", note.title, note.content, metadata)
    title, gap, text = note.content.partition("\n\n")
    with_long_title = Document(doc_id, title, text, metadata)
    if gap and draft_of(with_long_title).is_in(note):
        return with_long_title
    return Document(doc_id, _MARK.sub("", note.title, count=1), note.content, metadata)


def _writable(text: str) -> str:
    """JSON can spell half of a surrogate pair, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _kept(title: str) -> str:
    return _DROPPED.sub("", title).strip()[:_LONGEST_TITLE]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
