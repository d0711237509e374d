"""Files that are there whole or not at all."""

import os
import secrets
from pathlib import Path
from typing import Any

import orjson

from assay.errors import DataError


def write_json(value: Any, path: Path) -> None:
    write_whole(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE), path)


def write_whole(content: bytes, path: Path) -> None:
    """In a file of its own first, which then takes the name: nobody reads half of it."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def writable(path: Path) -> None:
    """Told before a model is paid, not after."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made: {error.strerror}", file=path.parent) from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise DataError(
            "cannot be written: give the name of a file in a folder of yours", file=path
        )
