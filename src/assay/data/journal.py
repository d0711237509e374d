"""A journal: what was made so far, one JSON line each, beside the result until that is complete."""

import os
from pathlib import Path

import orjson

from assay.errors import DataError
from assay.files import complete_lines, cut_file, open_to_append
from assay.net.json import JsonObject, parse_object

JOURNAL_MAX_BYTES = 2**30  # what it says is held in memory


class Journal:
    """The lines of `FILE.journal.jsonl` beside the result file `out`: `Journal(out).append(row)`.

    Work that was paid for survives a kill. `limit` is how many bytes it may have.
    """

    def __init__(self, out: Path, *, limit: int = JOURNAL_MAX_BYTES) -> None:
        self.path = out.with_name(f"{out.name}.journal.jsonl")
        self.limit = limit

    @property
    def size(self) -> int:
        """How many bytes the journal has; 0 if there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    def read(self) -> list[JsonObject]:
        """The lines of an interrupted run; an incomplete last line is removed."""
        lines, end = self.read_from(0)
        if end < self.size:
            self.cut(end)
        return lines

    def cut(self, size: int) -> None:
        """Remove what follows the first `size` bytes. Raises `OSError`."""
        cut_file(self.path, size)

    def read_from(self, offset: int) -> tuple[list[JsonObject], int]:
        """The complete lines since `offset`, and where the next ones will begin.

        Raises `DataError`, also if the journal is too large.
        """
        if not self.path.exists():
            return [], 0
        found, end = [], offset
        for end, line in complete_lines(self.path, offset):
            if end > self.limit:
                raise self._too_large()
            fields = parse_object(line) if line.strip() else {}
            if fields is None:
                what = "has a line that is not a JSON object; remove it, or the file to start over"
                raise DataError(what, file=self.path)
            found += [fields] if fields else []
        return found, end

    def _too_large(self) -> DataError:
        return DataError(f"has more than {self.limit:,} bytes, too many to read", file=self.path)

    def append(self, *lines: JsonObject, synced: bool = False) -> None:
        """Add lines, in a single write; `synced` waits until they are on disk.

        Raises `OSError` if they could not be written completely, and `DataError` if the
        journal would get too large to be read.
        """
        text = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
        if self.size + len(text) > self.limit:
            raise self._too_large()
        descriptor = open_to_append(self.path)
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
    """Fail before a model is paid, not after: `DataError` if `path` cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be created: {error.strerror}", file=path.parent) from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise DataError("cannot be written: choose a file in a writable folder", file=path)
