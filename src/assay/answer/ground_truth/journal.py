"""What was written so far, one line an answer, so that a stop at any moment loses none.

It lies beside the result while that is being made, and goes when the result is whole.
"""

import os
from pathlib import Path

import orjson

from assay.answer.ground_truth.record import GroundTruth, from_json, to_json
from assay.errors import DataError


class Journal:
    def __init__(self, out: Path) -> None:
        self.path = out.with_name(f"{out.name}.journal.jsonl")

    def exists(self) -> bool:
        return self.path.exists()

    def read(self) -> list[GroundTruth]:
        """A process that was killed may have torn its last line: that one is written anew."""
        if not self.exists():
            return []
        *whole, torn = self.path.read_bytes().split(b"\n")
        if torn:
            self.path.write_bytes(b"".join(line + b"\n" for line in whole))
        return [
            from_json(_parsed(line, self.path), self.path, place)
            for place, line in enumerate(whole, 1)
            if line
        ]

    def append(self, truth: GroundTruth) -> None:
        line = orjson.dumps(to_json(truth), option=orjson.OPT_APPEND_NEWLINE)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _parsed(line: bytes, path: Path) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(
            f"holds a line that is not JSON ({error}); delete the file to begin anew", file=path
        ) from None
