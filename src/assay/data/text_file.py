"""Text files, archives and rows that others wrote, and the warnings noted while reading them."""

import gzip
import io
import re
import reprlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from sys import intern
from typing import IO, Any, NoReturn, cast

import orjson

from assay.errors import DataError
from assay.files import MAX_LINE, atomic_write, open_file, require_regular
from assay.net.json import JsonObject, parse_json

# All that the standard library raises for damaged or hostile files.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    IndexError,  # a damaged extra field of a zip
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
_MAX_EXAMPLES = 10
_MAX_ERRORS = 1000
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_ABSENT = object()
_BETWEEN_WORDS = re.compile(r"[\s_-]+|(?<=[a-z])(?=[A-Z])")


class Findings:
    """Warnings of readers, counted by kind: one message for each kind, not one for each line.

    With `collect`, errors are kept too; without, the first one is raised.
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

    def add_error(self, error: DataError) -> None:
        """Raise an error, or keep it if errors are collected: the caller skips what is wrong."""
        if not self._collect:
            raise error
        self.error_count += 1
        if len(self.errors) < _MAX_ERRORS:
            self.errors.append(error)

    @contextmanager
    def errors_collected(self, row: "Record | None" = None) -> Iterator[None]:
        """Around what reads a row or a whole file: an error in it may be collected.

        A `ValueError` about the values of a `row` gets its place.
        """
        try:
            yield
        except DataError as error:
            self.add_error(error)
        except ValueError as error:
            if row is None:
                raise
            self.add_error(row.refusal(str(error)))

    def sound(self, rows: "Iterable[Record | DataError]") -> "Iterator[Record]":
        """The rows that could be read."""
        for row in rows:
            if isinstance(row, DataError):
                self.add_error(row)
            else:
                yield row

    @property
    def messages(self) -> tuple[str, ...]:
        """One sentence for each kind of finding, with its count and an example."""
        return tuple(
            f"{what}: {count:,}, {'for example ' if count > 1 else ''}{'; '.join(examples)}"
            for what, (count, examples) in self.seen.items()
        )


@contextmanager
def reading(
    file: Path | str, otherwise: str = "cannot be read", *also: type[Exception]
) -> Iterator[None]:
    """Around what reads a file of others: whatever is raised for it becomes a `DataError`."""
    unreadable: tuple[type[Exception], ...] = (*_UNREADABLE, *also)
    try:
        yield
    except FileNotFoundError as error:
        raise DataError("no such file", file=file) from error
    except unreadable as error:
        # Without the path, which the message begins with.
        words = error.strerror if isinstance(error, OSError) else None
        what = f"{otherwise}: {words or str(error) or type(error).__name__}"
        raise DataError(f"{what}; check its permissions, or get a new copy", file=file) from None


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

    def raw_lines(self) -> Iterator[str]:
        """Every line with its end. `DataError` names a line that is too long or not UTF-8."""
        with reading(self.label), self.open() as stream:
            for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), 1):
                if len(raw) > MAX_LINE:
                    what = f"is longer than {MAX_LINE // 2**20} MB; is it a file of text lines?"
                    raise DataError(what, file=self.label, line=number)
                try:
                    text = raw.decode()
                except UnicodeDecodeError as error:
                    byte = f"byte 0x{raw[error.start]:02x} in column {error.start + 1}"
                    what = (
                        f"is not UTF-8 ({byte}); save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')"
                    )
                    raise DataError(what, file=self.label, line=number) from None
                yield text.removeprefix("\ufeff") if number == 1 else text

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines without their ends. Blank lines are skipped but counted, as in editors."""
        for number, raw in enumerate(self.raw_lines(), start=1):
            text = raw.rstrip("\r\n")
            if text and not text.isspace():
                yield number, text


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one line or row, with their place for messages.

    `number` is a line of the file if `lined`, else the number of the row, from 1. Columns are
    found by any of their usual names, in any spelling: `row.text("query", "question")`.
    """

    source: str
    number: int
    fields: JsonObject
    lined: bool = False

    def column(self, *names: str) -> str | None:
        """The first column of these names, in any spelling."""
        for name in names:
            if name in self.fields:
                return name
        spelled = {spelling(name): name for name in reversed(self.fields)}
        return next((spelled[name] for name in names if name in spelled), None)

    def find(self, *names: str, absent: object = None) -> Any:
        """The value of the first column of these names; `absent` if there is none."""
        column = self.column(*names)
        return absent if column is None else self.fields[column]

    def identifier(self, *names: str) -> str:
        """The id in a column, interned because judgments repeat ids by the million."""
        value = self.find(*names)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # a data frame's column of integers with gaps
        if isinstance(value, str) and value and not value.isspace():
            return intern(value)
        if not isinstance(value, int) or isinstance(value, bool):
            have = short_repr(list(self.fields))
            where = f"{', '.join(names[:3])}{' or the like' if len(names) > 1 else ''}"
            self.fail(f"has no id in a column {where}, got {short_repr(value)} from {have}")
        return intern(str(value))

    def text(self, *names: str, required: bool = False) -> str:
        """The text in a column; "" if it is null, or missing and not `required`."""
        value = self.find(*names, absent=_ABSENT)
        if isinstance(value, str):
            return value
        if value is _ABSENT and required:
            have = short_repr(list(self.fields))
            self.fail(f"has no text in a column {', '.join(names[:3])}, only {have}")
        is_gap = isinstance(value, float) and isnan(value)
        if not (value is _ABSENT or value is None or is_gap):
            self.fail(f"{names[0]!r} must be text, got {short_repr(value)}")
        return ""

    @property
    def place(self) -> str:
        """Where it is in its file, `on line 3` or `in row 3`."""
        return f"{'on line' if self.lined else 'in row'} {self.number}"

    def refusal(self, message: str) -> DataError:
        """An error that names the source and the line or row."""
        if self.lined:
            return DataError(message, file=self.source, line=self.number)
        return DataError(f"row {self.number}: {message}", file=self.source)

    def fail(self, message: str) -> NoReturn:
        raise self.refusal(message) from None


def spelling(name: object) -> str:
    """A column's name without case, spaces and hyphens: `actualOutput` is `actual_output`."""
    return _BETWEEN_WORDS.sub("_", str(name).strip()).casefold()


def json_lines(file: TextFile) -> Iterator[Record | DataError]:
    """The JSON object on each line, or the error of a line that holds anything else."""
    for line, text in file.lines():
        try:
            fields = parse_json(text)
        except orjson.JSONDecodeError as error:
            what = f"is not valid JSON: {error.msg} (column {error.colno})"
            what += "; correct or delete the line"
        else:
            if isinstance(fields, dict):
                yield Record(file.label, line, fields, lined=True)
                continue
            what = f"must be one JSON object, as {{...}}, got {short_repr(fields)}"
        yield DataError(what, file=file.label, line=line)


short_repr = _SHORT.repr  # a value for a message


def write_file(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, all or nothing; `DataError` if it cannot be written."""
    try:
        atomic_write(path, content)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def plain_file(path: Path) -> TextFile:
    """A file on disk; `.gz` is decompressed."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0  # told when it is read
    if path.suffix != ".gz":
        return TextFile(str(path), lambda: open_file(path), path, size)

    def unpacked() -> io.BufferedReader:
        require_regular(path)
        return io.BufferedReader(gzip.open(path, "rb"))

    # Text is packed to about a third; what it really is would have to be unpacked to be known.
    return TextFile(str(path), unpacked, path, 3 * size)


def archive_files(path: Path) -> dict[str, TextFile]:
    """The files of a zip by their names in it. Nothing is unpacked to the disk.

    zipfile never returns more bytes than a member declares, so the declared sizes bound a bomb.
    """
    with reading(path, "is not a readable zip archive"):
        require_regular(path)
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
    total = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    is_bomb = total > RATIO_MATTERS_ABOVE and total > MAX_RATIO * max(packed, 1)
    if len(members) > MAX_MEMBERS or total > ARCHIVE_MAX_BYTES or is_bomb:
        what = f"unpacks to {len(members):,} files of {total:,} bytes, too much to read"
        raise DataError(f"{what}; pass a folder instead", file=path)

    @contextmanager
    def opened(name: str) -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(path) as archive, archive.open(name) as stream:
            # zipfile finds line ends in Python, the buffer in C: four times as fast.
            yield io.BufferedReader(cast(io.RawIOBase, stream), 2**16)

    return {
        name: TextFile(f"{path}/{name}", partial(opened, name), path, member.file_size)
        for member in members
        if (name := member.filename)
    }
