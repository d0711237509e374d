"""Where the cache is, and that what is in it is whole."""

from pathlib import Path

import pytest

from assay.data import cache_folder
from assay.errors import DataError


@pytest.mark.parametrize("xdg", [None, "", "relative"])
def test_then_comes_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg: str | None
) -> None:
    monkeypatch.delenv("ASSAY_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    if xdg is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert cache_folder() == tmp_path / ".cache" / "assay"


def test_a_cache_that_cannot_be_made_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        DataError, match=r"cannot be written: .*set ASSAY_CACHE to a writable folder"
    ):
        cache_folder()
