"""Judgments (qrels) in TREC's four columns or BEIR's three, and run files: what was ranked."""

import re
from array import array
from collections.abc import Iterable, Mapping
from itertools import chain
from math import isnan
from pathlib import Path
from sys import intern
from typing import Any

import orjson

from assay.data.dataset import Judgments
from assay.data.text_file import Findings, TextFile, plain_file, short_repr, write_file
from assay.errors import DataError, UsageError
from assay.net.json import parse_json

_HEADERS = frozenset({"query-id", "query_id", "queryid", "qid", "query", "topic"})
MODEL_MADE = "model:"
"""What the iteration column begins with if a model made the judgment; its name follows."""
MAX_GRADE = 1000  # 2^grade, the exponential gain, must stay a number


def read_qrels(path: str | Path) -> Judgments:
    """Judgments by query id, from a TREC or a BEIR file.

    A TREC file has query, iteration, document and grade, separated by any white space; a BEIR file
    has query, document and grade, with or without a header. Files may be compressed (`.gz`).
    """
    judgments = read_judgments(plain_file(Path(path)), Findings())
    if not judgments:
        raise DataError("has no judgments, so nothing can be scored", file=path)
    return judgments


def judged_by_model(path: str | Path) -> str:
    """How many judgments of a TREC file a model made, and which, "" if none."""
    models: dict[str, int] = {}
    total = 0
    for _, text in plain_file(Path(path)).lines():
        fields = text.split()
        total += 1
        if len(fields) == 4 and fields[1].startswith(MODEL_MADE):
            name = fields[1].removeprefix(MODEL_MADE)
            models[name] = models.get(name, 0) + 1
    return describe_model_judgments(models, total)


def describe_model_judgments(models: Mapping[str, int], total: int) -> str:
    """`120 of 150 judgments are model-made (openai:gpt-4o-mini)`; "" if none is."""
    made = sum(models.values())
    if not made:
        return ""
    part = f"all {total:,}" if made == total else f"{made:,} of {total:,}"
    return f"{part} judgments are model-made ({', '.join(sorted(models))})"


def read_judgments(file: TextFile, findings: Findings) -> dict[str, dict[str, int]]:
    """The judgments of one file; repeated lines are noted in `findings`, conflicts are refused."""
    judgments: dict[str, dict[str, int]] = {}
    columns, separator = 0, None
    for line, text in file.lines():
        try:
            if not columns:
                columns, separator = _layout(text)
                if _is_header(text):
                    continue
            query, document, grade = _fields(text.split(separator), columns)
        except ValueError as error:
            findings.refuse(DataError(str(error), file=file.label, line=line))
            continue
        grades = judgments.get(query)
        if grades is None:
            grades = judgments[intern(query)] = {}
        size = len(grades)
        if grades.setdefault(intern(document), grade) != grade:
            what = (
                f"document {document!r} has grade {grade} for query {query!r}, but "
                f"{grades[document]} before; delete one of the two"
            )
            findings.refuse(DataError(what, file=file.label, line=line))
        elif len(grades) == size:
            what = f"{file.name}: judgments that repeat an earlier one (kept once)"
            findings.note(what, f"{query!r} {document!r} on line {line}")
    return judgments


def _layout(text: str) -> tuple[int, str | None]:
    """How many columns a file has by its first line, and what separates them; None: white space.

    A tab separates if there is one, because BEIR ids may contain spaces; TREC files mix tabs and
    spaces: their iteration column distinguishes them.
    """
    words = text.split()
    trec = len(words) == 4 and (words[1].isdigit() or words[1] == "Q0")
    separator = "\t" if "\t" in text and not trec else None
    columns = len(text.split(separator))
    if columns not in (3, 4):
        raise ValueError(
            f"has {columns} columns; judgments have three (query, document, grade; as BEIR) "
            "or four (query, 0, document, grade; as TREC)"
        )
    return columns, separator


def _is_header(text: str) -> bool:
    words = text.split()
    return words[0].lower() in _HEADERS and not _is_number(words[-1])


def _fields(fields: list[str], columns: int) -> tuple[str, str, int]:
    """Query, document and grade of a line. Raises ValueError."""
    if len(fields) != columns:
        raise ValueError(f"has {len(fields)} columns, earlier lines have {columns}")
    query, document, grade = fields[0], fields[columns - 2], parse_grade(fields[-1])
    if not query or not document:
        raise ValueError("a column is empty; write a query, a document and a grade")
    if grade is None:
        raise ValueError(wrong_grade(fields[-1]))
    return query, document, grade


def parse_grade(text: str) -> int | None:
    """A grade; None if it is none. Table software writes a column of integers as 1.0, 2.0."""
    try:
        grade = int(text)
    except ValueError:
        if not _is_number(text) or not float(text).is_integer():
            return None
        grade = int(float(text))
    return grade if abs(grade) <= MAX_GRADE else None


def wrong_grade(value: object) -> str:
    """The message for a value that `parse_grade` does not take."""
    return (
        f"a grade must be an integer up to {MAX_GRADE}, such as 0, 1 or 2, got {short_repr(value)}"
    )


def trec_qrels(rows: Iterable[tuple[str, str, str, int]]) -> bytes:
    """TREC's four columns: query id, who judged (which trec_eval ignores), document id, grade.

    Raises `UsageError` for ids that these cannot hold.
    """
    lines = []
    for *names, grade in rows:
        if any(len(each.split()) != 1 for each in names):
            raise UsageError(
                f"qrels cannot hold ids with white space, got {names[0]!r} {names[2]!r}"
            )
        lines.append(f"{' '.join(names)} {grade}\n")
    return "".join(lines).encode()


def write_trec_qrels(
    path: Path, rows: Iterable[tuple[str, str, str, int]], *, instead: str
) -> None:
    """Write rows as `trec_qrels` has them; `instead` is what can hold any id."""
    try:
        write_file(path, trec_qrels(rows))
    except UsageError as error:
        raise DataError(f"{error}; use {instead} instead", file=path) from None


def beir_qrels(judgments: Judgments) -> bytes:
    """BEIR's three columns with their header; `DataError` for ids that these cannot hold."""
    documents = {doc_id for grades in judgments.values() for doc_id in grades}
    for identifier in chain(documents, judgments):
        if re.search(r"[\t\r\n]", identifier):
            raise DataError(f"id {identifier!r} has a tab or newline, which qrels cannot represent")
    rows = [
        f"{query_id}\t{doc_id}\t{grade}\n"
        for query_id, grades in judgments.items()
        for doc_id, grade in grades.items()
    ]
    return ("query-id\tcorpus-id\tscore\n" + "".join(rows)).encode()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
