"""Data sets that the tests write themselves, in surroundings that no setting leaks into."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

CORPUS = (
    '{"_id": "d1", "title": "Tea", "text": "Green tea is steeped."}\n'
    '{"_id": "d2", "title": "Coffee", "text": "Coffee is brewed."}\n'
)
QUERIES = (
    '{"_id": "q1", "text": "how is tea made"}\n'
    '{"_id": "q2", "text": "how is coffee made", "metadata": {"tags": ["multi-hop"]}}\n'
)
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td2\t1\n"

WriteDataset = Callable[..., Path]
Rows = list[dict[str, Any]]
Tables = dict[str, Rows]


def sound() -> Tables:
    return {
        "corpus": [
            {"_id": "d1", "title": "Tea", "text": "Green tea is steeped."},
            {"_id": "d2", "title": "", "text": "Coffee is brewed."},
        ],
        "queries": [{"_id": "q1", "text": "tea?"}, {"_id": "q2", "text": "coffee?"}],
        "qrels": [
            {"query-id": "q1", "corpus-id": "d1", "score": 2},
            {"query-id": "q2", "corpus-id": "d2", "score": 1},
        ],
    }


def lines(rows: Rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parquet(rows: Rows) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache of the test's own; returns where it will be."""
    for name in ("NFCORPUS_ARCHIVE", "ASSAY_BEIR_URL", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def write_dataset(tmp_path: Path) -> WriteDataset:
    """Write a small sound data set with some of its files replaced (None: left out)."""

    def write(changes: Mapping[str, str | bytes | None] | None = None, name: str = "small") -> Path:
        files: dict[str, Any] = {
            "corpus.jsonl": CORPUS,
            "queries.jsonl": QUERIES,
            "qrels/test.tsv": QRELS,
        }
        folder = tmp_path / name
        for member, content in (files | dict(changes or {})).items():
            if content is not None:
                path = folder / member
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write
