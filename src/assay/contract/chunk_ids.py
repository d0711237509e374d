"""`{docId}__chunk_{n}`: the name under which a chunk is ingested, found and cited."""

_MARK = "__chunk_"


def chunk_id(doc_id: str, index: int) -> str:
    return f"{doc_id}{_MARK}{index}"


def split_chunk_id(text: str) -> tuple[str, int]:
    """Document and place. What is no chunk id is taken for a document of one chunk."""
    doc_id, mark, index = text.rpartition(_MARK)
    if mark and doc_id and index.isascii() and index.isdigit():
        return doc_id, int(index)
    return text, 0
