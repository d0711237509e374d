"""Retrievers and chains of LangChain and LlamaIndex, recognized by their methods.

Neither library is imported: an object with `retrieve` or `invoke` is asked by it, and documents and
nodes are recognized by their attributes.
"""

import inspect
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Protocol

from assay.errors import AgentFailure, FailureKind
from assay.targets.detection import known_form

_METHODS = ("retrieve", "invoke", "query")
DOCUMENT_KEYS = ("context", "source_documents", "documents", "docs")
ANSWER_KEYS = ("answer", "result", "output", "output_text")
FRAME_IDS = ("doc_id", "docno", "id", "_id", "docid", "document_id")
_ID_KEYS = ("id", "doc_id", "document_id", "_id", "docid", "source", "file_name")


class InvokableRetriever(Protocol):
    """A retriever or chain of LangChain."""

    def invoke(self, query: str, /) -> Any:
        """The documents for a query."""
        ...


class NodeRetriever(Protocol):
    """A retriever of LlamaIndex."""

    def retrieve(self, query: str, /) -> Any:
        """The nodes for a query."""
        ...


def retrieval_method(found: object) -> Callable[[str], Any] | None:
    """The method that searches: `retrieve(query)` or `invoke(query)`; None for other objects."""
    if isinstance(found, type) or inspect.isroutine(found) or inspect.ismodule(found):
        return None
    methods = (getattr(found, name, None) for name in _METHODS)
    return next((method for method in methods if callable(method)), None)


def as_search_function(
    found: object, known: Container[str] = ()
) -> Callable[[str, int], Any] | None:
    """`f(query, top_k)` for an object with such a method; None for other objects.

    How many documents come is set where the object is made; more than `top_k` are cut.

    Parameters:
        found: a retriever or a chain.
        known: the ids of the data set.
    """
    method = retrieval_method(found)
    if method is None:
        return None

    def search(query: str, top_k: int) -> Any:
        value = method(query)
        return later(value, top_k) if inspect.isawaitable(value) else cut(value, top_k)

    async def later(value: Awaitable[Any], top_k: int) -> Any:
        return cut(await value, top_k)

    def cut(value: Any, top_k: int) -> Any:
        if isinstance(value, str):
            return {"doc_ids": [], "answer": value}  # a chain that only answers
        plain = to_plain_answer(value, known)
        return plain[:top_k] if isinstance(plain, list) else plain

    return search


def to_plain_answer(value: Any, known: Container[str] = ()) -> Any:
    """Documents, nodes, `(id, score)` pairs and numbers as ids; anything else stays as it is.

    Parameters:
        value: what a function or retriever returned.
        known: the ids of the data set; of several candidates, the one among these is the id.
    """
    nodes = getattr(value, "source_nodes", None)
    if isinstance(nodes, list):  # a response of LlamaIndex
        plain = {"doc_ids": _ids_of(nodes, known), "answer": str(value)}
        return plain | _contexts(nodes, known)
    if isinstance(value, Mapping):
        return _ranked(value, known) or _plain_mapping(value, known)
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return _ids_of_frame(value)
    if hasattr(value, "index") and hasattr(value, "to_dict"):  # a series: scores by id, or ids
        return _ranked(value.to_dict(), known) or value.tolist()
    if hasattr(value, "tolist") and not isinstance(value, list):  # an array
        value = value.tolist()
    if isinstance(value, list | tuple):
        return _ids_of(value, known)
    return value


def _ids_of(items: Sequence[Any], known: Container[str]) -> list[Any]:
    """The id of each item; further chunks of a document that is listed are left out.

    They are chunks if their own ids or texts differ: the same one twice stays a repeated id.
    """
    ids: list[Any] = []
    chunks: dict[str, set[Any]] = {}
    for item in items:
        found, chunk = _id_of(item, known), _chunk_key(item)
        if isinstance(found, str) and chunk is not None:
            seen = chunks.setdefault(found, set())
            if seen and chunk not in seen:
                seen.add(chunk)
                continue
            seen.add(chunk)
        ids.append(found)
    return ids


def _chunk_key(item: Any) -> tuple[str | None, str | None] | None:
    """What tells a document or node of a library from others; None for plain values."""
    if isinstance(item, list | tuple):
        item = item[0] if len(item) == 2 else None
    holder = getattr(item, "node", item)
    own = (_text(getattr(holder, name, None)) for name in ("id", "node_id", "id_"))
    key = (next(filter(None, own), None), _text_of(item))
    return None if key == (None, None) else key


def _ranked(value: Mapping[Any, Any], known: Container[str]) -> list[str] | None:
    """The ids of `{id: score}`, best first; None for other mappings, such as counts by name."""
    if not value or not all(_is_number(each) for each in value.values()):
        return None
    if not all(isinstance(key, str) or _is_number(key) for key in value):
        return None
    if known and not any(str(key) in known for key in value):
        return None
    return [str(key) for key in sorted(value, key=lambda key: -float(value[key]))]


def _ids_of_frame(frame: Any) -> list[Any]:
    """The column of ids of a data frame, in the order of its rows."""
    names = {str(name).casefold(): name for name in frame.columns}
    column = next((names[key] for key in FRAME_IDS if key in names), None)
    if column is None:
        have = ", ".join(map(str, list(frame.columns)[:10]))
        raise AgentFailure(
            FailureKind.INVALID_ANSWER,
            f"the answer is a data frame without a column of ids ({', '.join(FRAME_IDS[:4])}), "
            f"only {have[:200]}; return frame['ID COLUMN'].tolist()",
        )
    return [str(each) if _is_number(each) else each for each in frame[column].tolist()]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _plain_mapping(value: Mapping[Any, Any], known: Container[str]) -> Mapping[Any, Any]:
    plain = dict(value)
    if "doc_ids" not in plain:
        documents = next((plain[name] for name in DOCUMENT_KEYS if _is_list(plain.get(name))), None)
        if documents is not None:
            plain["doc_ids"] = documents
            plain = _contexts(documents, known) | plain
            answer = next((plain[name] for name in ANSWER_KEYS if name in plain), None)
            plain["answer"] = answer
    for name in ("doc_ids", "citations"):
        if _is_list(plain.get(name)):
            plain[name] = _ids_of(plain[name], known)
    return plain


def _contexts(documents: Sequence[Any], known: Container[str]) -> dict[str, Any]:
    """What the model was shown, where every document or node has its text."""
    texts = [_text_of(item) for item in documents]
    if not texts or None in texts:
        return {}
    pairs = zip(documents, texts, strict=True)
    return {"contexts": [{"id": _id_of(item, known), "text": text} for item, text in pairs]}


def _text_of(item: Any) -> str | None:
    holder = getattr(item, "node", item)
    texts = (getattr(holder, name, None) for name in ("page_content", "text"))
    return next((text for text in texts if isinstance(text, str)), None)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _id_of(item: Any, known: Container[str]) -> Any:
    """The id of a document, node, pair or number; the item itself if none is found."""
    if isinstance(item, str | bool) or item is None:
        return item
    if isinstance(item, Integral):
        return str(int(item))
    if _is_list(item):
        pair = len(item) == 2 and isinstance(item[1], Real) and not isinstance(item[1], bool)
        first = _id_of(item[0], known) if pair else item
        return first if isinstance(first, str) else item
    if isinstance(item, Mapping):
        return item
    candidates = [text for text in map(_text, _candidates(item)) if text is not None]
    exact = [text for text in candidates if text in known]
    # A loader's metadata has the path of a file: kb/KB-1.md is the document KB-1.
    named = (known_form(text, known) for text in candidates)
    return next(iter(exact), None) or next(filter(None, named), next(iter(candidates), item))


def _candidates(item: Any) -> list[Any]:
    holder = getattr(item, "node", item)  # a node of LlamaIndex with its score
    metadata = getattr(holder, "metadata", None)
    found = [metadata.get(key) for key in _ID_KEYS] if isinstance(metadata, Mapping) else []
    names = ("id", "ref_doc_id", "node_id", "id_", "doc_id")
    return [*found, *(getattr(holder, name, None) for name in names)]


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return str(int(value))
    return value if isinstance(value, str) and value else None
