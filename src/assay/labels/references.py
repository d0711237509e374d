"""What a file of references holds: answers, facts, or both.

`ground_truth.json` is a list of reference answers. JSON lines have the facts of a question, and may
have its answer:

    {"query_id": "q1", "query": "...", "answer": "...", "facts": [{"text": "...", "importance":
     "vital"}]}
"""

from functools import lru_cache
from pathlib import Path

from assay.data.text_file import plain_file, records
from assay.errors import DataError


def reference_kinds(path: str | Path) -> frozenset[str]:
    """`answers`, `facts` or both; `DataError` if the file has neither.

    reference_kinds("ground_truth.json")  # {"answers"}
    """
    file = Path(path)
    try:
        return _kinds(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=file) from None


@lru_cache(maxsize=32)
def _kinds(file: Path, _modified: int) -> frozenset[str]:
    first = next((text.lstrip("\ufeff \t") for _, text in plain_file(file).lines()), "")
    if first.startswith("["):
        return frozenset({"answers"})
    found = set()
    for record in records(plain_file(file)):
        if isinstance(record.fields.get("answer"), str):
            found.add("answers")
        if "facts" in record.fields or "nuggets" in record.fields:
            found.add("facts")
    if not found:
        raise DataError(
            "has neither answers nor facts; write it with: assay ground-truth", file=file
        )
    return frozenset(found)
