"""Archives that were made to harm, or were harmed."""

import io
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.data import load_dataset, text_file
from assay.errors import DataError

WriteArchive = Callable[..., Path]

SOUND = {
    "corpus.jsonl": b'{"_id": "d", "text": "x"}\n',
    "queries.jsonl": b'{"_id": "q", "text": "x"}\n',
    "qrels/test.tsv": b"q\td\t1\n",
}


@pytest.fixture
def write_archive(tmp_path: Path) -> WriteArchive:
    def write(*more: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
        path = tmp_path / "set.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of duplicate names
            for name, content in (*SOUND.items(), *more):
                packed.writestr(name, content)
        return path

    return write


def test_a_sound_archive_is_read(write_archive: WriteArchive) -> None:
    assert load_dataset(write_archive()).judgments == {"test": {"q": {"d": 1}}}


def of_kind(kind: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo("member")
    member.create_system = 3
    member.external_attr = (kind | 0o644) << 16
    return member


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("/etc/passwd", "'/etc/passwd', whose path leads outside the archive"),
        ("../outside", "leads outside"),
        ("a/../../outside", "leads outside"),
        ("..\\outside", "leads outside"),
        ("\\\\host\\share", "leads outside"),
        ("C:\\outside", "leads outside"),
        ("c:outside", "leads outside"),
        (of_kind(stat.S_IFLNK), "'member', which is a link or a device"),
        (of_kind(stat.S_IFIFO), "'member', which is a link or a device"),
        ("corpus.jsonl", "'corpus.jsonl' twice"),
    ],
)
def test_hostile_members_are_refused(
    write_archive: WriteArchive, member: str | zipfile.ZipInfo, message: str
) -> None:
    with pytest.raises(DataError, match=r"set.zip: refused: it contains") as refusal:
        load_dataset(write_archive((member, b"/etc/passwd")))
    assert message in str(refusal.value)


def test_nothing_is_ever_written_beside_the_archive(
    write_archive: WriteArchive, tmp_path: Path
) -> None:
    load_dataset(write_archive(("folder/other.txt", b"x")))
    assert [path.name for path in tmp_path.iterdir()] == ["set.zip"]


def test_an_encrypted_member_is_refused(write_archive: WriteArchive) -> None:
    path = write_archive()
    packed = bytearray(path.read_bytes())
    central = packed.index(b"PK\x01\x02")
    packed[central + 8] |= 1
    path.write_bytes(packed)
    with pytest.raises(DataError, match="which is encrypted"):
        load_dataset(path)


def test_another_method_than_deflate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("corpus.jsonl", b"x")
    with pytest.raises(DataError, match="not compressed with deflate"):
        load_dataset(path)


def test_a_member_that_unpacks_a_thousandfold_is_refused(write_archive: WriteArchive) -> None:
    zeros = bytes(text_file.RATIO_MATTERS_ABOVE + 1)
    with pytest.raises(DataError, match=r"'zeros', which grows over 100 times"):
        load_dataset(write_archive(("zeros", zeros)))


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ("ARCHIVE_MAX_BYTES", "bytes unpacked, more than 2"),
        ("MAX_MEMBERS", "3 members, more than 2"),
    ],
)
def test_too_much_is_refused(
    write_archive: WriteArchive, monkeypatch: pytest.MonkeyPatch, bound: str, message: str
) -> None:
    monkeypatch.setattr(text_file, bound, 2)
    with pytest.raises(DataError, match=message):
        load_dataset(write_archive())


def test_a_member_that_lies_about_its_size_gives_no_more_than_it_declared(
    write_archive: WriteArchive,
) -> None:
    path = write_archive()
    packed = bytearray(path.read_bytes())
    central = packed.index(b"PK\x01\x02")
    struct.pack_into("<I", packed, central + 24, 5)  # the declared size of corpus.jsonl
    path.write_bytes(packed)
    with pytest.raises(DataError, match="Bad CRC-32"):
        load_dataset(path)


def test_a_damaged_byte_is_noticed(write_archive: WriteArchive) -> None:
    path = write_archive()
    packed = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(packed)) as sound:
        stored = sound.getinfo("qrels/test.tsv")
    at = stored.header_offset + 30 + len(stored.filename) + 2
    path.write_bytes(packed[:at] + bytes([packed[at] ^ 0x10]) + packed[at + 1 :])
    with pytest.raises(DataError):
        load_dataset(path)


def test_a_wrong_checksum_is_noticed(write_archive: WriteArchive) -> None:
    path = write_archive()
    packed = bytearray(path.read_bytes())
    packed[packed.index(b"PK\x01\x02") + 16] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(DataError, match=r"corpus.jsonl: cannot be read: Bad CRC-32"):
        load_dataset(path)


def test_half_an_archive_is_refused(write_archive: WriteArchive) -> None:
    path = write_archive()
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"is not a readable zip archive: .*copy it again"):
        load_dataset(path)


def test_an_empty_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    zipfile.ZipFile(path, "w").close()
    with pytest.raises(DataError, match="has no queries"):
        load_dataset(path)
