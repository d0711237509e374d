"""Reads documents from a data set, a corpus.jsonl alone, or a folder of notes."""

import re
from collections.abc import Iterator
from pathlib import Path

from assay.data.dataset import Document
from assay.data.text_file import Findings, Record, plain_file, read_by_id
from assay.errors import DataError

_KINDS = (".md", ".txt")
_MAX_BYTES = 2 * 2**20
# A hard-wrapped line: a long one, with plain text on the next.
_WRAPPED_LINE = re.compile(r"(?<=[^\n]{60})\n(?=[^\s#>|*+-])")
_FORMS = "a data set, a corpus.jsonl, or a folder of .md and .txt files"


def is_dataset(path: Path) -> bool:
    """Whether the path has questions too, so that it is read as a data set."""
    inside = path.is_dir() and next(path.glob("**/queries.jsonl*"), None) is not None
    return inside or path.suffix.lower() == ".zip"


def read_documents(path: Path) -> dict[str, Document]:
    """The documents of a corpus.jsonl or of a folder of text files, by id."""
    if not path.exists():
        raise DataError(f"does not exist; pass {_FORMS}", file=path)
    corpus = path / "corpus.jsonl" if path.is_dir() else path
    if corpus.is_file() and corpus.suffix == ".jsonl":
        return read_by_id(plain_file(corpus), "_id", _document, Findings())
    if not path.is_dir():
        raise DataError(f"has no readable documents; pass {_FORMS}", file=path)
    documents = {document.id: document for document in _notes(path)}
    if not documents:
        raise DataError(f"has no documents; pass {_FORMS}", file=path)
    return documents


def _document(record: Record, identifier: str) -> Document:
    return Document(identifier, record.text("title"), record.text("text"))


def _notes(folder: Path) -> Iterator[Document]:
    """The id is the path within the folder. Hidden files and folders are skipped."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        if hidden or path.suffix.lower() not in _KINDS or not path.is_file():
            continue
        title, text = _title_and_text(_content(path), path.stem)
        yield Document(inside.as_posix(), title, text)


def _content(path: Path) -> str:
    if path.stat().st_size > _MAX_BYTES:
        raise DataError(f"is larger than {_MAX_BYTES // 2**20} MiB; split it", file=path)
    try:
        return _WRAPPED_LINE.sub(" ", path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as UTF-8 text: {error}", file=path) from None


def _title_and_text(content: str, name: str) -> tuple[str, str]:
    """A heading of Markdown on the first line is the title, else the file's name is."""
    first, _, rest = content.lstrip().partition("\n")
    if first.startswith("# "):
        return first[2:].strip(), rest.strip()
    return name, content.strip()
