"""Where fetched and built things are kept between runs."""

import os
import secrets
from pathlib import Path

from assay.errors import DataError


def cache_folder() -> Path:
    """`ASSAY_CACHE`, else `XDG_CACHE_HOME/assay`, else `~/.cache/assay`; made where it is not."""
    try:
        folder = _place()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        raise _unusable(error) from error
    return folder


def keep(content: bytes, path: Path) -> None:
    """Write a file of the cache so that it is there whole or not at all, whoever else writes it.

    Each writer fills a file of its own and renames it; the last one wins with the same content.
    """
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(error) from error


def _place() -> Path:
    if chosen := os.environ.get("ASSAY_CACHE"):
        return Path(chosen).expanduser().absolute()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification has relative paths ignored.
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "assay"


def _unusable(error: Exception) -> DataError:
    return DataError(
        f"the cache folder cannot be written: {error}; "
        "set ASSAY_CACHE to a folder that you may write to"
    )
