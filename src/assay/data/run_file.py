"""Rankings of other systems: TREC run files and JSON."""

from array import array
from collections.abc import Iterable
from itertools import chain
from math import isnan
from pathlib import Path
from sys import intern
from typing import Any

import orjson

from assay.data.text_file import plain_file, short_repr
from assay.errors import DataError
from assay.net.json import parse_json

_FORMS = (
    'a run is TREC lines, {"query": ["doc", ...]}, {"query": {"doc": score}} '
    'or [{"query_id": ..., "doc_ids": [...]}]'
)


def read_run(path: str | Path) -> dict[str, list[str]]:
    """Document ids by query id, best first, from a TREC run file or JSON.

    JSON is `{"query": ["doc", ...]}`, `{"query": {"doc": score}}` or a list of objects with
    `query_id` and `doc_ids`. Repeated ids stay in the rankings: scoring reports them.
    """
    file = plain_file(Path(path))
    lines = file.lines()
    first = next(lines, None)
    if first is None:
        raise DataError("is empty: it has no ranking", file=path)
    if first[1].lstrip()[0] in "{[":
        return _from_json(path, [first, *lines])
    return _from_trec(path, chain([first], lines))


def _from_trec(path: str | Path, lines: Iterable[tuple[int, str]]) -> dict[str, list[str]]:
    scores: dict[str, list[tuple[str, float]]] = {}
    for line, text in lines:
        fields = text.split()
        if len(fields) != 6:
            message = (
                f"has {len(fields)} columns; a TREC run has six: query Q0 document rank score tag"
            )
            raise DataError(message, file=path, line=line)
        query, document, score = intern(fields[0]), intern(fields[2]), fields[4]
        scores.setdefault(query, []).append((document, _score(path, line, score)))
    return {query: rank_by_score(scored) for query, scored in scores.items()}


def _score(path: str | Path, line: int | None, value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = float("nan")
    if isnan(score):
        raise DataError(f"a score must be a number, got {short_repr(value)}", file=path, line=line)
    return score


def rank_by_score(scored: Iterable[tuple[str, float]]) -> list[str]:
    """Document ids, best first, in the order of trec_eval: scores are compared in single precision,
    and equal ones are ordered by document id, descending.
    """
    documents, scores = zip(*scored, strict=True)
    single = array("f", scores)
    return [document for _, document in sorted(zip(single, documents, strict=True), reverse=True)]


def _from_json(path: str | Path, lines: list[tuple[int, str]]) -> dict[str, list[str]]:
    try:
        value = parse_json("\n".join(text for _, text in lines))
    except orjson.JSONDecodeError as error:
        line = lines[error.lineno - 1][0]
        raise DataError(f"is not valid JSON: {error.msg}; {_FORMS}", file=path, line=line) from None
    if _is_report(value):
        value = value["per_query_results"]
    if isinstance(value, list):
        return _from_entries(path, value)
    return {query: _from_value(path, query, ranking) for query, ranking in value.items()}


def _is_report(value: Any) -> bool:
    """A run may have a query of that name, but with ids instead of objects."""
    results = value.get("per_query_results") if isinstance(value, dict) else None
    return isinstance(results, list) and all(isinstance(entry, dict) for entry in results)


def _from_entries(path: str | Path, entries: list[Any]) -> dict[str, list[str]]:
    run: dict[str, list[str]] = {}
    for number, entry in enumerate(entries, start=1):
        query = entry.get("query_id") if isinstance(entry, dict) else None
        if not isinstance(query, str):
            raise DataError(f"entry {number} has no query_id string; {_FORMS}", file=path)
        if query in run:
            raise DataError(f"entry {number} repeats query {query!r}", file=path)
        ranking = entry.get("doc_ids", entry.get("retrieved_docs"))
        run[query] = _from_value(path, query, ranking)
    return run


def _from_value(path: str | Path, query: str, ranking: Any) -> list[str]:
    if isinstance(ranking, dict):
        scored = [(document, _score(path, None, score)) for document, score in ranking.items()]
        return rank_by_score(scored) if scored else []
    if not isinstance(ranking, list) or not all(isinstance(item, str) for item in ranking):
        message = (
            f"query {query!r} must have a list of document ids, got {short_repr(ranking)}; {_FORMS}"
        )
        raise DataError(message, file=path)
    return [intern(document) for document in ranking]
