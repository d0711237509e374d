"""Files that are there whole or not at all."""

import secrets
from pathlib import Path

from assay.errors import DataError


def write_whole(path: Path, content: bytes) -> None:
    """A kill while writing leaves the file from before."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error
