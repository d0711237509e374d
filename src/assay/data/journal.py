"""A journal: what was made so far, one JSON line each, beside the result until that is complete."""

import os
from pathlib import Path

import orjson

from assay.errors import DataError
from assay.net.json import JsonObject, parse_object


class Journal:
    """The lines of `FILE.journal.jsonl`. Work that was paid for survives a kill.

    Args:
        out: the result file that the journal belongs to.
    """

    def __init__(self, out: Path) -> None:
        self.path = out.with_name(f"{out.name}.journal.jsonl")

    @property
    def size(self) -> int:
        """In bytes; 0 where there is no journal."""
        return self.path.stat().st_size if self.path.exists() else 0

    def read(self) -> list[JsonObject]:
        """The lines of an interrupted run; an incomplete last line is removed."""
        if not self.path.exists():
            return []
        *lines, rest = self.path.read_bytes().split(b"\n")
        if rest:
            self.path.write_bytes(b"".join(line + b"\n" for line in lines))
        return [self._parsed(line) for line in lines if line]

    def _parsed(self, line: bytes) -> JsonObject:
        fields = parse_object(line)
        if fields is None:
            what = "has a line that is not a JSON object; remove it, or the file to start over"
            raise DataError(what, file=self.path)
        return fields

    def read_from(self, offset: int) -> tuple[list[JsonObject], int]:
        """The complete lines since `offset`, and where the next ones will begin."""
        if not self.path.exists():
            return [], 0
        with self.path.open("rb") as file:
            file.seek(offset)
            *lines, rest = file.read().split(b"\n")
            return [self._parsed(line) for line in lines if line], file.tell() - len(rest)

    def append(self, *lines: JsonObject, synced: bool = False) -> None:
        """Add lines, in a single write; `synced` waits until they are on disk.

        Raises `OSError` where they could not be written completely.
        """
        text = b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in lines)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            while text:  # a disk that is nearly full takes a part, and says so at the next one
                text = text[os.write(descriptor, text) :]
            if synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Delete the journal, once the result is written."""
        self.path.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Fail before a model is paid, not after: `DataError` where `path` cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created: {error.strerror}", file=path.parent) from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise DataError("cannot be written: choose a file in a writable folder", file=path)
