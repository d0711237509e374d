"""Graded judgments from files in either format in use: TREC's four columns or BEIR's three."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import intern

from assay.data.dataset import Judgments
from assay.data.text_file import Findings, TextFile, plain_file, short_repr
from assay.errors import DataError

_HEADERS = frozenset({"query-id", "query_id", "queryid", "qid", "query", "topic"})
MODEL_MADE = "model:"
"""What the iteration column begins with where a model made the judgment; its name follows."""
MAX_GRADE = 1000  # 2^grade, the exponential gain, must stay a number


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the lines of one file are split; `separator` None is any white space."""

    columns: int
    separator: str | None
    header: bool

    @property
    def document(self) -> int:
        return self.columns - 2


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
    """How many judgments of a TREC file a model made, and which, in words; "" if none."""
    models: dict[str, int] = {}
    total = 0
    for _, text in plain_file(Path(path)).lines():
        fields = text.split()
        total += 1
        if len(fields) == 4 and fields[1].startswith(MODEL_MADE):
            name = fields[1].removeprefix(MODEL_MADE)
            models[name] = models.get(name, 0) + 1
    return made_words(models, total)


def made_words(models: Mapping[str, int], total: int) -> str:
    """`120 of 150 judgments are model-made (openai:gpt-4o-mini)`; "" if none is."""
    made = sum(models.values())
    if not made:
        return ""
    part = f"all {total:,}" if made == total else f"{made:,} of {total:,}"
    return f"{part} judgments are model-made ({', '.join(sorted(models))})"


def read_judgments(file: TextFile, findings: Findings) -> dict[str, dict[str, int]]:
    """The judgments of one file; repeated lines are noted in `findings`, conflicts are refused."""
    judgments: dict[str, dict[str, int]] = {}
    layout: _Layout | None = None
    for line, text in file.lines():
        try:
            if layout is None:
                layout = _layout(file, line, text)
                if layout.header:
                    continue
            query, document, grade = _fields(file, line, text, layout)
        except DataError as error:
            findings.refuse(error)
            continue
        grades = judgments.get(query)
        if grades is None:
            grades = judgments[intern(query)] = {}
        size = len(grades)
        if grades.setdefault(intern(document), grade) != grade:
            findings.refuse(_conflict(file, line, (query, document), grades[document], grade))
            continue
        if len(grades) == size:
            what = f"{file.name}: judgments that repeat an earlier one (kept once)"
            findings.note(what, f"{query!r} {document!r} on line {line}")
    return judgments


def _layout(file: TextFile, line: int, text: str) -> _Layout:
    """The layout of a file by its first line. A tab separates if there is one, because BEIR ids
    may contain spaces; TREC files mix tabs and spaces: their iteration column distinguishes them.
    """
    words = text.split()
    header = words[0].lower() in _HEADERS and not _is_number(words[-1])
    trec = len(words) == 4 and (words[1].isdigit() or words[1] == "Q0")
    separator = "\t" if "\t" in text and not trec else None
    columns = len(text.split(separator))
    if columns not in (3, 4):
        raise _wrong_columns(file, line, columns, None)
    return _Layout(columns, separator, header)


def _fields(file: TextFile, line: int, text: str, layout: _Layout) -> tuple[str, str, int]:
    fields = text.split(layout.separator)
    if len(fields) != layout.columns:
        raise _wrong_columns(file, line, len(fields), layout.columns)
    query, document = fields[0], fields[layout.document]
    if not query or not document:
        raise DataError(
            "a column is empty; write a query, a document and a grade", file=file.label, line=line
        )
    grade = parse_grade(fields[-1])
    if grade is None:
        raise DataError(wrong_grade(fields[-1]), file=file.label, line=line)
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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _wrong_columns(file: TextFile, line: int, got: int, expected: int | None) -> DataError:
    message = (
        f"has {got} columns, earlier lines have {expected}"
        if expected
        else f"has {got} columns; judgments have three (query, document, grade; as BEIR) "
        "or four (query, 0, document, grade; as TREC)"
    )
    return DataError(message, file=file.label, line=line)


def _conflict(file: TextFile, line: int, pair: tuple[str, str], before: int, now: int) -> DataError:
    query, document = pair
    return DataError(
        f"document {document!r} has grade {now} for query {query!r}, but {before} on an earlier "
        "line; delete one of the two",
        file=file.label,
        line=line,
    )
