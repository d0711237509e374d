"""Writes a data set into a folder in the form of BEIR, for a process that is to search it.

A name or path would not do: the data set may have come from an archive that was given by hand, or
from Python. Read back, it has the same fingerprint.
"""

from collections.abc import Iterable
from pathlib import Path

import orjson

from assay.data.dataset import Dataset


def write_dataset(dataset: Dataset, folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    _write_lines(
        folder / "corpus.jsonl",
        (
            {"_id": each.id, "title": each.title, "text": each.text, "metadata": each.metadata}
            for each in dataset.documents.values()
        ),
    )
    _write_lines(
        folder / "queries.jsonl",
        (
            {"_id": each.id, "text": each.text, "metadata": {"tags": each.tags}}
            for each in dataset.queries.values()
        ),
    )
    for split, judgments in dataset.judgments.items():
        rows = [
            f"{query_id}\t{doc_id}\t{grade}\n"
            for query_id, grades in judgments.items()
            for doc_id, grade in grades.items()
        ]
        text = "query-id\tcorpus-id\tscore\n" + "".join(rows)
        (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")


def _write_lines(path: Path, records: Iterable[dict[str, object]]) -> None:
    with path.open("wb") as file:
        for record in records:
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
