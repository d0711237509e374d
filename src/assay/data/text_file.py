"""Lines of text from files that others wrote: numbered, without byte order mark and blank lines.

The readers of this package see `TextFile` alone, so they work the same on folders, on archives and
on compressed files.
"""

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from assay.errors import DataError

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # also NotImplementedError: features of zip that Python does not know
    OverflowError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""All that the standard library raises for damaged or hostile files."""

_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that may be read several times; `label` is what messages call it."""

    label: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]

    @property
    def name(self) -> str:
        """For warnings, which are read beside the name of their data set."""
        return Path(self.label).name

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbers count all lines, as editors do; lines of white space alone are left out."""
        for number, raw in enumerate(self._raw_lines(), start=1):
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                raise self._not_utf8(number, raw, error) from None
            text = text.rstrip("\r\n")
            if number == 1:
                text = text.removeprefix(_BYTE_ORDER_MARK)
            if text and not text.isspace():
                yield number, text

    def _raw_lines(self) -> Iterator[bytes]:
        try:
            with self.open() as stream:
                yield from stream
        except UNREADABLE as error:
            message = f"cannot be read: {reason(error)}; get a fresh copy, or check who may read it"
            raise DataError(message, file=self.label) from error

    def _not_utf8(self, line: int, raw: bytes, error: UnicodeDecodeError) -> DataError:
        byte = f"byte 0x{raw[error.start]:02x} in column {error.start + 1}"
        return DataError(f"is not UTF-8 ({byte}); save it as UTF-8", file=self.label, line=line)


def plain_file(path: Path) -> TextFile:
    if path.suffix == ".gz":
        return TextFile(str(path), lambda: io.BufferedReader(gzip.open(path, "rb")))
    return TextFile(str(path), lambda: path.open("rb"))


def reason(error: Exception) -> str:
    """What went wrong, without the path, which leads the message already."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error) or type(error).__name__
