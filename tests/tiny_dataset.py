"""A data set of any size whose right answers can be told from the number of a query."""

from assay.data import Dataset, Document, Query


def tiny_dataset(size: int, *, document: str = "text {}", query: str = "query {}") -> Dataset:
    """`size` queries; query i has documents d{i} (grade 2) and d{i+1} (grade 1) of size + 1.

    In the texts of documents and queries, `{}` is its number.
    """
    return Dataset(
        name="tiny",
        documents={f"d{i}": Document(f"d{i}", "", document.format(i)) for i in range(size + 1)},
        queries={f"q{i}": Query(f"q{i}", query.format(i)) for i in range(size)},
        judgments={"test": {f"q{i}": {f"d{i}": 2, f"d{i + 1}": 1} for i in range(size)}},
    )
