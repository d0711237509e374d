"""Lines and JSON records of text files that others wrote, and the warnings noted while reading.

Readers see `TextFile` alone, so they work the same on folders, archives and compressed files.
"""

import gzip
import io
import reprlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from sys import intern
from typing import IO, cast

import orjson

from assay.errors import DataError
from assay.files import MAX_LINE, atomic_write, open_file, require_regular
from assay.net.json import JsonObject, parse_json

# All that the standard library raises for damaged or hostile files.
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

MAX_MEMBERS = 10_000
ARCHIVE_MAX_BYTES = 8 * 2**30
MAX_RATIO = 100  # text compresses 3 to 10 times, deflate at most 1032 times
RATIO_MATTERS_ABOVE = 64 * 2**20  # a small file of equal lines compresses well and does no harm
_BYTE_ORDER_MARK = "\ufeff"
_MAX_EXAMPLES = 10
_MAX_ERRORS = 1000
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class Findings:
    """Warnings of readers, counted by kind: one message for each kind, not one for each line.

    Parameters:
        collect: keep errors and several examples of each kind, as a check of a data set needs
            them, where a reader would stop at the first error.
    """

    def __init__(self, *, collect: bool = False) -> None:
        self.errors: list[DataError] = []
        self.error_count = 0
        self._collect = collect
        self.seen: dict[str, tuple[int, list[str]]] = {}

    def note(self, what: str, example: str, count: int = 1) -> None:
        """Count a finding; `what` is plural, as a count follows: "documents without text: 3"."""
        before, examples = self.seen.get(what, (0, []))
        if not examples or (self._collect and len(examples) < _MAX_EXAMPLES):
            examples.append(example)
        self.seen[what] = (before + count, examples)

    def refuse(self, error: DataError) -> None:
        """Raise an error, or keep it if errors are collected: the caller skips what is wrong."""
        if not self._collect:
            raise error
        self.error_count += 1
        if len(self.errors) < _MAX_ERRORS:
            self.errors.append(error)

    @contextmanager
    def errors_collected(self) -> Iterator[None]:
        """Around what reads a whole file: an error in it may be collected, too."""
        try:
            yield
        except DataError as error:
            self.refuse(error)

    @property
    def messages(self) -> tuple[str, ...]:
        """One sentence for each kind of finding, with its count and an example."""
        return tuple(
            f"{what}: {count:,}, {'for example ' if count > 1 else ''}{'; '.join(examples)}"
            for what, (count, examples) in self.seen.items()
        )


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that may be read more than once; `label` is what messages call it.

    `source` is the file on the disk, which may be an archive, and `size` how many bytes the text
    has, if that is known.
    """

    label: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    source: Path | None = None
    size: int | None = None

    @property
    def name(self) -> str:
        """The file name, for warnings that are shown beside the name of the data set."""
        return Path(self.label).name

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines without their ends. Blank lines are skipped but counted, as in editors."""
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
                for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), 1):
                    if len(raw) > MAX_LINE:
                        what = f"is longer than {MAX_LINE // 2**20} MB; is it a file of text lines?"
                        raise DataError(what, file=self.label, line=number)
                    yield raw
        except FileNotFoundError as error:
            raise DataError("no such file", file=self.label) from error
        except UNREADABLE as error:
            message = f"cannot be read: {reason(error)}; check its permissions, or get a new copy"
            raise DataError(message, file=self.label) from error

    def _not_utf8(self, line: int, raw: bytes, error: UnicodeDecodeError) -> DataError:
        byte = f"byte 0x{raw[error.start]:02x} in column {error.start + 1}"
        where = " (in a spreadsheet: 'CSV UTF-8')" if ".csv" in self.name.lower() else ""
        what = f"is not UTF-8 ({byte}); save it as UTF-8{where}"
        return DataError(what, file=self.label, line=line)


def write_file(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, all or nothing; `DataError` if it cannot be written."""
    try:
        atomic_write(path, content)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def plain_file(path: Path) -> TextFile:
    """A file on disk; `.gz` is decompressed."""
    if path.suffix == ".gz":
        # Text is packed to about a third; what it really is would have to be unpacked to be known.
        return TextFile(str(path), lambda: _unpacked(path), path, 3 * _size(path))
    return TextFile(str(path), lambda: open_file(path), path, _size(path))


def files_below(folder: Path, most: int) -> list[Path]:
    """The files in a folder and in those below it, sorted, without hidden ones.

    Raises `DataError` if there are more than `most`.
    """
    every = (
        path
        for path in folder.rglob("*")
        if not path.is_dir() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    )
    found = sorted(islice(every, most + 1))
    if len(found) > most:
        raise DataError(f"has more than {most:,} files; pass a part of it", file=folder)
    return found


def _unpacked(path: Path) -> io.BufferedReader:
    require_regular(path)
    return io.BufferedReader(gzip.open(path, "rb"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # told when it is read


def reason(error: Exception) -> str:
    """What went wrong, without the path, which the message begins with."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one line or row, with their place for messages.

    `number` is a line of the file if `lined`, else the number of the row, from 1.
    """

    source: str
    number: int
    fields: JsonObject
    lined: bool = False

    def identifier(self, key: str) -> str:
        """The id in field `key`, interned because judgments repeat ids by the million."""
        if key not in self.fields:
            found = short_repr(list(self.fields))
            raise self.refusal(f"has no {key!r}, only {found}; add {key!r} to every line")
        value = self.fields[key]
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.refusal(f"{key!r} must be a non-empty string, got {short_repr(value)}")
        return intern(value)

    def text(self, key: str) -> str:
        """The text in field `key`; "" if it is missing or null."""
        value = self.fields.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.refusal(f"{key!r} must be a string, got {short_repr(value)}")
        return value

    @property
    def place(self) -> str:
        """Where it is in its file, `on line 3` or `in row 3`."""
        return f"{'on line' if self.lined else 'in row'} {self.number}"

    def refusal(self, message: str) -> DataError:
        """An error that names the source and the line or row."""
        if self.lined:
            return DataError(message, file=self.source, line=self.number)
        return DataError(f"row {self.number}: {message}", file=self.source)


def records(file: TextFile) -> Iterator[Record]:
    """One record for each line of JSON."""
    for line, text in file.lines():
        yield json_record(file, line, text)


def short_repr(value: object) -> str:
    """A value for a message, shortened."""
    return _SHORT.repr(value)


def json_record(file: TextFile, line: int, text: str) -> Record:
    """The JSON object on a line; `DataError` if it is anything else."""
    try:
        fields = parse_json(text)
    except orjson.JSONDecodeError as error:
        message = (
            f"is not valid JSON: {error.msg} (column {error.colno}); correct or delete the line"
        )
        raise DataError(message, file=file.label, line=line) from None
    if not isinstance(fields, dict):
        message = f"must be one JSON object, as {{...}}, got {short_repr(fields)}"
        raise DataError(message, file=file.label, line=line)
    return Record(file.label, line, fields, lined=True)


def archive_files(path: Path) -> dict[str, TextFile]:
    """The files of a zip by their names in it. Nothing is unpacked to the disk.

    zipfile never returns more bytes than a member declares, so the declared sizes bound a bomb.
    """
    try:
        require_regular(path)
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except UNREADABLE as error:
        message = f"is not a readable zip archive: {reason(error)}; download or copy it again"
        raise DataError(message, file=path) from error
    if len(members) > MAX_MEMBERS:
        raise DataError(f"has over {MAX_MEMBERS:,} files; pass a folder instead", file=path)
    if sum(member.file_size for member in members) > ARCHIVE_MAX_BYTES:
        raise DataError(f"unpacks to over {ARCHIVE_MAX_BYTES:,} bytes; pass a folder", file=path)
    for member in members:
        large = member.file_size > RATIO_MATTERS_ABOVE
        if large and member.file_size > MAX_RATIO * max(member.compress_size, 1):
            what = f"{member.filename!r} grows over {MAX_RATIO} times; pass a folder instead"
            raise DataError(what, file=path)
    return {m.filename: _member(path, m.filename, m.file_size) for m in members if not m.is_dir()}


def _member(path: Path, name: str, size: int) -> TextFile:
    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(path) as archive, archive.open(name) as stream:
            # zipfile finds line ends in Python, the buffer in C: four times as fast.
            yield io.BufferedReader(cast(io.RawIOBase, stream), 2**16)

    return TextFile(f"{path}/{name}", opened, path, size)
