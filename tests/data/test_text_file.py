"""Lines of files from anywhere."""

from pathlib import Path

import pytest

from assay.data.text_file import plain_file
from assay.errors import DataError


def test_lines_are_numbered_as_in_an_editor_and_come_without_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbffirst\r\n\r\n \t\nfourth \xe2\x80\xa8 still\nlast\r")
    assert list(plain_file(path).lines()) == [(1, "first"), (4, "fourth \u2028 still"), (5, "last")]


def test_a_folder_in_place_of_a_file_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: it is not a regular file"):
        list(plain_file(tmp_path).lines())
