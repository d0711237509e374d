"""The plain form of an answer: `{"doc_ids": [...], "answer", "citations", "contexts", "steps",
"usage"}`, or a list of ids.

Python functions and A2A agents answer in it; the other kinds of targets read the same `contexts`,
`steps` and `usage`, wherever their answers have them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import Any

from assay.errors import AgentFailure, FailureKind
from assay.llm.passages import ContextChunk
from assay.steps import AnswerUsage, SearchStep
from assay.targets.protocol import AgentAnswer, document_id, is_unicode
from assay.targets.retrievers import ANSWER_KEYS, DOCUMENT_KEYS

MAX_CHUNKS = 100
MAX_CHUNK_LENGTH = 20_000
"""Characters that are kept of a chunk: no model reads more of one."""
MAX_STEPS = 1_000
MAX_STEP_IDS = 1_000
MAX_STEP_QUERY = 10_000
"""Characters that are kept of a step's query."""

_MAX_TOOL_LENGTH = 200
_CHUNK_IDS = ("id", "chunk_id", "_id")
_DOCUMENT_IDS = ("doc_id", "document_id", "docid", "source_id")
_TEXTS = ("text", "content", "page_content", "body", "chunk")
_READ_KEYS = frozenset(
    {field.name for field in fields(AgentAnswer)}
    | {"query", "question", "input", "metadata"}  # chains repeat their input
    | {*DOCUMENT_KEYS, *ANSWER_KEYS}
)


def read_answer(value: object) -> AgentAnswer:
    """A list of ids, or a mapping with `doc_ids` or `contexts`. Raises `AgentFailure`."""
    if not isinstance(value, Mapping):
        return AgentAnswer(doc_ids=_ids(value, "the answer"))
    answer = value.get("answer")
    if answer is not None and not isinstance(answer, str):
        raise _invalid(f"'answer' is a {type(answer).__name__}, not a string")
    if answer is not None and not is_unicode(answer):
        raise _invalid("'answer' is not valid Unicode")
    if "doc_ids" not in value and "contexts" not in value:
        raise _invalid(
            "the answer is a dictionary without 'doc_ids'; return a list of document ids, best "
            'first, or {"doc_ids": [...], "answer": "..."}'
        )
    return AgentAnswer(
        doc_ids=_ids(value.get("doc_ids", ()), "'doc_ids'"),
        answer=answer,
        citations=_ids(value.get("citations") or (), "'citations'"),
        contexts=read_contexts(value.get("contexts") or ()),
        steps=find_steps(value),
        usage=find_usage(value),
        unknown_keys=tuple(str(key)[:100] for key in value if key not in _READ_KEYS)[:20],
    )


def _ids(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        remedy = "; return [] if nothing is found" if value is None else ""
        kind = type(value).__name__
        raise _invalid(f"{what} is a {kind}, not a list of document ids, best first{remedy}")
    ids = []
    for position, item in enumerate(value):
        try:
            ids.append(document_id(item))
        except AgentFailure as failure:
            remedy = "; pairs are (id, score)" if isinstance(item, list | tuple) else ""
            raise _invalid(f"{what}, position {position}: {failure}{remedy}") from None
    return tuple(ids)


def find_steps(value: object) -> tuple[SearchStep, ...]:
    """The searches in `steps` of an object; none if it has another meaning there."""
    listed = value.get("steps") if isinstance(value, Mapping) else None
    # Agents of other makes list their stages or messages under this name.
    if not isinstance(listed, list | tuple) or not all(map(_is_step, listed)):
        return ()
    return read_steps(listed)


def read_steps(value: object) -> tuple[SearchStep, ...]:
    """`[{"tool", "query", "doc_ids", "scores", "ms"}]`, at most MAX_STEPS of them.

    Raises `AgentFailure` for anything else.
    """
    if not isinstance(value, list | tuple):
        raise _invalid(f"'steps' is a {type(value).__name__}, not a list of searches")
    return tuple(_step(item, place) for place, item in enumerate(value[:MAX_STEPS]))


def _is_step(item: object) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("doc_ids"), list | tuple)


def _step(item: Any, place: int) -> SearchStep:
    if not _is_step(item):
        raise _invalid(f"'steps', position {place}: has no list 'doc_ids'")
    scores = item.get("scores")
    numbers = list(map(_number, scores)) if isinstance(scores, list | tuple) else []
    if None in numbers or len(numbers) != len(item["doc_ids"]):
        numbers = []
    return SearchStep(
        tool=_line(item.get("tool"), _MAX_TOOL_LENGTH) or "search",
        query=_line(item.get("query"), MAX_STEP_QUERY),
        doc_ids=_ids(item["doc_ids"][:MAX_STEP_IDS], f"'steps', position {place}: 'doc_ids'"),
        scores=tuple(number for number in numbers[:MAX_STEP_IDS] if number is not None),
        ms=_number(item.get("ms")),
    )


def _line(value: object, length: int) -> str:
    text = value[:length] if isinstance(value, str) else ""
    return text if is_unicode(text) else text.encode("utf-8", "replace").decode()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def find_usage(*holders: object) -> AnswerUsage | None:
    """What the first `usage` among these objects says of tokens and cost; None if none says it.

    Chat completions call them `prompt_tokens` and `completion_tokens`.
    """
    for holder in holders:
        usage = holder.get("usage") if isinstance(holder, Mapping) else None
        if isinstance(usage, Mapping):
            found = AnswerUsage(
                input_tokens=_count(usage, "input_tokens", "prompt_tokens"),
                output_tokens=_count(usage, "output_tokens", "completion_tokens"),
                cost_usd=_positive(usage.get("cost_usd")),
            )
            if found != AnswerUsage():
                return found
    return None


def _count(usage: Mapping[Any, Any], *names: str) -> int | None:
    # A data part of A2A turns every integer into a float.
    numbers = (_positive(usage.get(name)) for name in names)
    return next((int(number) for number in numbers if number is not None), None)


def _positive(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and number >= 0 else None


def read_contexts(value: object) -> tuple[ContextChunk, ...]:
    """The chunks in `contexts`: texts, or `{"id", "doc_id", "text"}`. Raises `AgentFailure`."""
    if not isinstance(value, list | tuple):
        raise _invalid(f"'contexts' is a {type(value).__name__}, not a list of texts or chunks")
    return tuple(_chunk(item, place) for place, item in enumerate(value[:MAX_CHUNKS]))


def _chunk(item: object, place: int) -> ContextChunk:
    if isinstance(item, str):
        return ContextChunk(_text(item, place))
    if not isinstance(item, Mapping):
        what = f"is a {type(item).__name__}, not a text or an object with 'text'"
        raise _invalid(f"'contexts', position {place}: {what}")
    text = _first(item, _TEXTS)
    if text is None:
        keys = ", ".join(map(repr, list(item)[:8])) or "none"
        raise _invalid(f"'contexts', position {place}: has no 'text'; its keys: {keys}")
    found, document = _first(item, _CHUNK_IDS), _first(item, _DOCUMENT_IDS)
    return ContextChunk(
        _text(text, place),
        "" if found is None else document_id(found),
        "" if document is None else document_id(document),
    )


def _first(item: Mapping[Any, Any], keys: Sequence[str]) -> Any:
    return next((item[key] for key in keys if item.get(key) is not None), None)


def _text(value: object, place: int) -> str:
    if not isinstance(value, str) or not is_unicode(value):
        kind = "text that is not valid Unicode" if isinstance(value, str) else type(value).__name__
        raise _invalid(f"'contexts', position {place}: 'text' is a {kind}, not a text")
    return value[:MAX_CHUNK_LENGTH]


def _invalid(message: str) -> AgentFailure:
    return AgentFailure(FailureKind.INVALID_ANSWER, message)
