"""Judgments (qrels) in TREC's four columns or BEIR's three, and run files: what was ranked."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import isnan, nan
from pathlib import Path
from sys import intern

from assay.data.dataset import Judgments
from assay.data.table import read_json
from assay.data.text_file import Findings, TextFile, plain_file, short_repr
from assay.errors import DataError

# What the iteration column begins with if a model made the judgment; its name follows.
MODEL_MADE = "model:"
MAX_GRADE = 1000  # 2^grade, the exponential gain, must stay a number
_HEADERS = frozenset({"query-id", "query_id", "queryid", "qid", "query", "topic"})
RUN_FORMS = 'a run is {"q1": ["d1", "d2"]}, best first, or {"q1": {"d1": 2.5, "d2": 1.0}}'


def read_qrels(path: str | Path) -> Judgments:
    """Judgments by query id, from a TREC file (query, iteration, document, grade) or a BEIR file
    (query, document, grade), with or without a header, also compressed (`.gz`).
    """
    judgments: dict[str, dict[str, int]] = {}
    read_judgments(plain_file(Path(path)), Findings(), judgments)
    if not judgments:
        raise DataError("has no judgments, so nothing can be scored", file=path)
    return judgments


def read_judgments(
    file: TextFile, findings: Findings, judgments: dict[str, dict[str, int]]
) -> None:
    """Add the judgments of a file; repeated ones are noted in `findings`, conflicts are errors."""
    columns, separator = 0, None
    for line, text in file.lines():
        try:
            if not columns:
                columns, separator = _layout(text)
                words = text.split()
                if words[0].lower() in _HEADERS and isnan(_number(words[-1])):
                    continue
            fields = text.split(separator)
            if len(fields) != columns or not fields[0] or not fields[columns - 2]:
                raise ValueError(f"must have {columns} columns, as earlier lines, none of it empty")
            query, document, grade = fields[0], fields[columns - 2], parse_grade(fields[-1])
            if not add_grade(judgments, query, document, grade):
                what = f"{file.name}: judgments that repeat an earlier one (kept once)"
                findings.note(what, f"{query!r} {document!r} on line {line}")
        except ValueError as error:
            findings.add_error(DataError(str(error), file=file.label, line=line))


def add_grade(judgments: dict[str, dict[str, int]], query_id: str, doc_id: str, grade: int) -> bool:
    """Add a judgment; False if it is there already, ValueError if it is there with another grade.

    Scores would depend on which of two grades is used, so neither is dropped in silence.
    """
    grades = judgments.setdefault(intern(query_id), {})
    size = len(grades)
    if (earlier := grades.setdefault(intern(doc_id), grade)) != grade:
        raise ValueError(
            f"document {doc_id!r} has grade {grade} for query {query_id!r}, but {earlier} before; "
            "delete one of the two"
        )
    return len(grades) > size


def _layout(text: str) -> tuple[int, str | None]:
    """How many columns a file has by its first line, and what separates them; None: white space."""
    words = text.split()
    # A tab separates if there is one, because BEIR ids may contain spaces. TREC files mix tabs and
    # spaces; their iteration column tells them apart.
    trec = len(words) == 4 and (words[1].isdigit() or words[1] == "Q0")
    separator = "\t" if "\t" in text and not trec else None
    columns = len(text.split(separator))
    if columns not in (3, 4):
        raise ValueError(
            f"has {columns} columns; judgments have three (query, document, grade; as BEIR) "
            "or four (query, 0, document, grade; as TREC)"
        )
    return columns, separator


def parse_grade(value: object) -> int:
    """A grade; ValueError if it is none. Table software writes integers as 1.0, 2.0."""
    number = _number(value)
    if not number.is_integer() or abs(number) > MAX_GRADE:
        raise ValueError(
            f"a grade must be an integer up to {MAX_GRADE}, such as 0, 1 or 2, "
            f"got {short_repr(value)}"
        )
    return int(number)


def judged_by_model(path: str | Path) -> str:
    """How many judgments of a TREC file a model made, and which, "" if none."""
    lines = [text.split() for _, text in plain_file(Path(path)).lines()]
    made = [line[1] for line in lines if len(line) == 4 and line[1].startswith(MODEL_MADE)]
    models = Counter(name.removeprefix(MODEL_MADE) for name in made)
    return describe_model_judgments(models, len(lines))


def describe_model_judgments(models: Mapping[str, int], total: int) -> str:
    """`120 of 150 judgments are model-made (openai:gpt-4o-mini)`; "" if none is."""
    made = sum(models.values())
    part = f"all {total:,}" if made == total else f"{made:,} of {total:,}"
    return f"{part} judgments are model-made ({', '.join(sorted(models))})" if made else ""


def trec_qrels(rows: Iterable[tuple[str, str, str, int]]) -> bytes:
    """TREC's four columns: query id, who judged (which trec_eval ignores), document id, grade.

    Raises `DataError` for ids that these cannot hold.
    """
    lines = []
    for *names, grade in rows:
        if any(len(name.split()) != 1 for name in names):
            ids = f"{names[0]!r} {names[2]!r}"
            raise DataError(
                f"qrels cannot hold ids with white space, got {ids}; use the table of grades"
            )
        lines.append(f"{' '.join(names)} {grade}\n")
    return "".join(lines).encode()


def beir_qrels(judgments: Judgments) -> bytes:
    """BEIR's three columns with their header; `DataError` for ids that these cannot hold."""
    rows = ["query-id\tcorpus-id\tscore\n"]
    for query_id, grades in judgments.items():
        for doc_id, grade in grades.items():
            if any(mark in query_id + doc_id for mark in "\t\r\n"):
                ids = f"id {query_id!r} or {doc_id!r}"
                raise DataError(f"{ids} has a tab or newline, which qrels cannot represent")
            rows.append(f"{query_id}\t{doc_id}\t{grade}\n")
    return "".join(rows).encode()


def _number(value: object) -> float:
    """NaN if it is not a number."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return nan


def read_run(path: str | Path) -> dict[str, list[str]]:
    """Document ids by query id, best first, from a TREC run file or JSON.

    JSON is `{"query": ["doc", ...]}`, `{"query": {"doc": score}}`, a list of objects with
    `query_id` and `doc_ids`, or a report. Repeated ids stay in the rankings: scoring reports them.
    """
    file = plain_file(Path(path))
    lines = file.lines()
    first = next(lines, None)
    if first is None:
        raise DataError("is empty: it has no ranking", file=path)
    if first[1].lstrip()[0] in "{[":
        return _run_from_json(file)
    scored: dict[str, list[tuple[str, float]]] = {}
    for line, text in chain([first], lines):
        fields = text.split()
        score = _number(fields[4]) if len(fields) == 6 else nan
        if isnan(score):
            form = "must be: query Q0 document rank score tag, with a number as its score"
            raise DataError(f"{form}; got {short_repr(text)}", file=path, line=line)
        scored.setdefault(intern(fields[0]), []).append((intern(fields[2]), score))
    return {query: rank_by_score(documents) for query, documents in scored.items()}


def rank_by_score(scored: Iterable[tuple[str, float]]) -> list[str]:
    """Document ids, best first, in the order of trec_eval: scores are compared in single precision,
    and equal ones are ordered by document id, descending.
    """
    documents, scores = zip(*scored, strict=True)
    single = array("f", scores)
    return [document for _, document in sorted(zip(single, documents, strict=True), reverse=True)]


def parse_ranking(query: object, value: object) -> Sequence[str]:
    """Document ids, best first, from `["d1", "d2"]` or `{"d1": 2.5}`; ValueError for the rest."""
    if isinstance(value, str | bytes) or not isinstance(value, Mapping | Sequence):
        raise ValueError(f"query {query!r} has no ranking, got {short_repr(value)}; {RUN_FORMS}")
    require_string_ids(query, value)
    if not isinstance(value, Mapping):
        return value
    scored = [(doc_id, _number(score)) for doc_id, score in value.items()]
    if any(isnan(score) for _, score in scored):
        raise ValueError(f"the scores of query {query!r} must be numbers, got {short_repr(value)}")
    return rank_by_score(scored) if scored else []


def require_string_ids(query: object, ids: Iterable[object]) -> None:
    """Raise ValueError if the id of a query or of one of its documents is not a string."""
    # A set of types is quick: nearly all of millions of ids are plain strings.
    if {type(query), *map(type, ids)} != {str}:
        wrong = [value for value in (query, *ids) if not isinstance(value, str)]
        if wrong:
            raise ValueError(f"query {query!r}: ids must be strings, got {wrong[0]!r}")


def _run_from_json(file: TextFile) -> dict[str, list[str]]:
    value = read_json(file)
    if isinstance(value, dict):
        results = value.get("per_query_results")
        # A run may have a query of that name, but with ids instead of objects.
        if isinstance(results, list) and all(isinstance(entry, dict) for entry in results):
            value = results
    pairs = list(value.items()) if isinstance(value, dict) else []
    for number, entry in enumerate(value if isinstance(value, list) else (), start=1):
        if not isinstance(entry, dict) or "query_id" not in entry:
            what = f"entry {number} has no query_id"
            raise DataError(f"{what}; write {{'query_id': ..., 'doc_ids': [...]}}", file=file.label)
        pairs.append((entry["query_id"], entry.get("doc_ids", entry.get("retrieved_docs"))))
    run: dict[str, list[str]] = {}
    try:
        for query, ranking in pairs:
            ids = [*map(intern, parse_ranking(query, ranking))]
            if run.setdefault(query, ids) is not ids:
                raise ValueError(f"repeats query {query!r}; delete one of the two")
    except ValueError as error:
        raise DataError(str(error), file=file.label) from None
    return run
